"""A gateway of a cell, stepped by whoever hosts it; everyone else posts to it from any thread.

Any number serve a cell side by side, each under a name of its own that it keeps over restarts: a host belongs to the
gateway that wrote its newest session. One that reads a newer session of another gateway cuts its link, takes no more
reports of the old one, and no longer watches that host.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import msgspec
import numpy as np

from events.abilities import CONTAINER
from events.acceptance import Chain
from events.bounds import HOST_RUNS_MAX
from events.cell_settings import DEFAULTS, Settings, SettingsChange, change_fault, change_of, changed
from events.columns import distinct
from events.delivery import Inbox
from events.log.ahead import AheadLog
from events.log.port import AppendUnknown, Log, LogUnavailable, NewRecord, identity
from events.process.clock import Clock
from events.records.base import Event
from events.records.hosts import (
    GatewayBeat,
    HostBack,
    HostCertified,
    HostConnected,
    HostInvited,
    HostOffered,
    HostSilent,
    HostVolumes,
)
from events.records.jobs import JobReopenRequested, JobSubmitted, JobUpdateRequested, OverridesUploaded
from events.records.lifecycle import HostReconciled, ImagePrefetchOrdered, VolumeRemovalOrdered
from events.records.placement import HostRemoved
from events.records.pools import CellConfigured
from events.records.rounds import EpochStarted, RoundCommitted
from events.records.tasks import ExecClosed
from events.rounds import Delivered
from events.structs import known
from events.topics import HOSTS, JOBS, POOLS, ROUND_BYTES_MAX, rounds_of
from hostagent.gateway import checkpoint, facts
from hostagent.gateway.answers import Answers
from hostagent.gateway.certificates import Certificates
from hostagent.gateway.connections import (
    AskExec,
    AskLog,
    AskSecrets,
    AskUsage,
    Attach,
    Certify,
    CloseExec,
    Connect,
    Detach,
    Link,
    LogMissing,
    NotHere,
    Other,
    Post,
    Report,
    TellSecret,
    refuse,
    split,
)
from hostagent.gateway.desired_runs import DesiredRuns, HostOrders, only
from hostagent.gateway.hosts import Hosts
from hostagent.gateway.image_prefetches import ImagePrefetches
from hostagent.gateway.liveness import NEVER_MS, LivenessWatch
from hostagent.gateway.loads import Loads
from hostagent.gateway.metrics import Metrics
from hostagent.gateway.open_execs import OpenExecs
from hostagent.gateway.output_requests import NO_OUTPUT, OutputRequests
from hostagent.gateway.secrets.sealer import Grant
from hostagent.gateway.usage_requests import UsageRequests
from hostagent.gateway.volume_removals import VolumeRemovals
from hostagent.messages import LogPage, Reports, Welcome
from paceline.client.output_ask import OutputAsk

LIFECYCLE = rounds_of("lifecycle")
MACHINES = ("lifecycle", "placement")
"""The machines whose rounds it reads: what hosts shall run, and which hosts are no more."""
RECORDS_MAX = 500
"""Most records folded in one step."""
CHECKPOINT_MS = 30_000
POLL_MS = 20
"""So often a gateway wants to be stepped that has not caught up, or that is posted to from other threads unnoticed."""
RECONNECT_MS = 45_000
"""After so long a silence a host must connect again and report its runs: it may have been declared lost meanwhile."""
RETRY_MS = 500
"""Wait before the log is tried again."""


class Gateway:
    """Folds jobs, hosts and rounds of lifecycle into what each host shall run, and writes what agents say as facts.

    `step` and `wait_ms` belong to one thread, all that posts, asks or answers to any. Posts are taken once the log was
    folded to the end that it had when this gateway began (`serving`). `path`: where the fold is kept, so that a restart
    goes on from there; without the file everything is folded from the log's start. One that doesn't watch writes no
    beats and takes nobody for silent. `ahead`: it writes there, and answers once that is durable.
    """

    def __init__(
        self, log: Log, path: Path | None, clock: Clock, name: str, watches: bool = True, ahead: AheadLog | None = None
    ) -> None:
        self.name = name
        self.cell = log.cell
        self.polled = False
        """Whether other threads post, so that it must be stepped though nothing was appended."""
        self.on_post: Callable[[], None] | None = None
        """Called by who posts, after the post: then nobody needs to look for posts."""
        self.serving = False
        """Whether it has caught up once. Who was silent, and which sessions are new, is known only then."""
        self.log_id = ""
        """Identity of the log: of the first claim of lifecycle. Empty: there is none yet."""
        self.certificates = Certificates()
        self.settings = DEFAULTS
        """The settings of the cell; entitlement judges each change by the same rule."""
        self.knows_agents = True
        """Whether the setting `agents` is known: else what said it may have been removed from the log."""
        self._log = log
        self._clock = clock
        self._path = path
        self._watch = LivenessWatch(name, clock.monotonic_ms() if watches else NEVER_MS)
        self._desired_runs = DesiredRuns()
        self._hosts = Hosts(name, self._desired_runs.host)
        self._removals = VolumeRemovals(self._hosts.link)
        self._prefetches = ImagePrefetches(self._hosts.link, self._hosts.may_run_containers)
        self._now = 0
        """The time of the newest round of lifecycle."""
        self._chains = {machine: Chain() for machine in MACHINES}
        positions = dict.fromkeys((JOBS.name, POOLS.name, HOSTS.name, *map(rounds_of, MACHINES)), 0)
        self._inbox = Inbox(positions, {}, self._chains, log.cell)
        if path is not None:
            self._restore(path)
        self._reader = log.reader(self._inbox.positions)
        self._posts: SimpleQueue[Post] = SimpleQueue()
        self._held: Report | None = None
        self._records: list[NewRecord] = []
        self._ahead = ahead
        self._facts = ahead or log
        """Where facts are written."""
        self._answers = Answers(ahead)
        self._waiting: dict[str, None] = {}
        """Hosts whose link has not got the whole wanted set yet."""
        self._output_requests = OutputRequests()
        self._usage_requests = UsageRequests()
        self._open_execs = OpenExecs()
        self._loads = Loads(name)
        self._metrics = Metrics(log.cell, name)
        self._checkpoint_at = clock.monotonic_ms() + CHECKPOINT_MS if path else NEVER_MS
        self._ends: dict[str, int] | None = None
        """The log's ends when this gateway began; None: not known yet."""
        self._retry_at = 0
        self._kept_position = -1
        self._starved = False
        """Nothing that was read may be folded yet: what it waits for must be read."""

    def post(self, post: Post) -> None:
        """Hands something to the gateway; thread-safe."""
        self._posts.put(post)
        if self.on_post is not None:
            self.on_post()

    def log_of(self, ask: OutputAsk, host_id: str | None = None) -> "Future[LogPage]":
        """Asks for a piece of the output of a run; thread-safe. `host_id`: where it ran, needed for runs that are not
        the newest of their task. The future may be cancelled; it may fail with `LogMissing`.
        """
        request = self._output_requests.ask(ask, host_id)
        self.post(request)
        return request.answer

    def answer(self, host_id: str, request: str, page: LogPage | None, why: str = NO_OUTPUT) -> None:
        """The answer of a host to a request for output; None: there is none, for the reason `why`; thread-safe."""
        self._output_requests.answer(host_id, request, page, why)

    def usage_of(self, host_id: str, job_id: str = "") -> "Future[bytes]":
        """Asks a host for what its runs use now, JSON of a `HostUsage`; thread-safe. `job_id` empty: all runs. The
        future may be cancelled; it may fail with `LogMissing`.
        """
        request = self._usage_requests.ask(host_id, job_id)
        self.post(request)
        return request.answer

    def answer_usage(self, host_id: str, request: str, usage: bytes) -> None:
        """The answer of a host to a request for usage, empty: it measures nothing; thread-safe."""
        self._usage_requests.answer(host_id, request, usage)

    def step(self) -> bool:
        """Folds the log, takes posts, looks for silence, writes facts. Returns whether there may be more at once."""
        now = self._clock.monotonic_ms()
        busy = self._take_posts(now)
        busy |= self._fold()
        self._send_whole()
        if not self.serving and self._has_caught_up(now):
            self.serving = True
            busy |= self._take_posts(now)
        # while facts wait for the log nobody is heard, so nobody is silent
        if self.serving and not self._records and now >= self._watch.due_at():
            self._records += self._watch.look(now, self._hosts)
            self._metrics.set_hosts(self._hosts.values())
        if self.serving and not self._records and now >= self._loads.due_at():
            self._records += self._loads.take(now)
        busy |= self._write(now)
        if now >= self._checkpoint_at:
            self.checkpoint()
        return busy

    def wait_ms(self) -> int | None:
        """Milliseconds until it wants to be stepped, though nothing was appended."""
        now = self._clock.monotonic_ms()
        if self._records:
            return max(0, self._retry_at - now)
        if not self.serving:
            return POLL_MS
        if self._held is not None or not self._posts.empty():
            return 0
        rest_ms = max(0, min(self._watch.due_at(), self._loads.due_at(), self._checkpoint_at) - now)
        return min(rest_ms, POLL_MS) if self.polled and self.on_post is None else rest_ms

    def lag(self, now: bool = False) -> int:
        """Counts the records that it lacks of those that were there when it began, 0 where that is not known yet, or of
        those that are there `now`; thread-safe. Raises `LogUnavailable`.
        """
        ends = self._reader.ends() if now else self._ends or {}
        return sum(max(0, end - self._inbox.positions[topic]) for topic, end in ends.items())

    def beyond(self, position: int) -> int | None:
        """Where lifecycle's topic ends, if a position is beyond it; thread-safe. Raises `LogUnavailable`."""
        folded = self._inbox.positions[LIFECYCLE]
        return end if position > folded and position > (end := self._reader.ends()[LIFECYCLE]) else None

    def checkpoint(self) -> None:
        """Keeps the fold on disk, if it went on since then; not while facts wait, which would pass for written. Those
        that were written are made durable first: the fold knows whom they call silent. Raises `AppendUnknown`.
        """
        self._checkpoint_at = self._clock.monotonic_ms() + CHECKPOINT_MS
        position = sum(self._inbox.positions.values())
        if self._path is None or position == self._kept_position or self._records or self._answers.waiting:
            return
        self._kept_position = position
        if self._ahead is not None:
            self._ahead.sync()
        checkpoint.save(
            self._path,
            {
                "cell": self._log.cell,
                "log": self.log_id,
                "gateway": self.name,
                "positions": self._inbox.positions,
                "known": self._inbox.known,
                "chains": msgspec.to_builtins(self._chains, builtin_types=(bytes,)),
                "wanted": self._desired_runs.dump(),
                "peers": self._watch.peers.dump(),
                "hosts": self._hosts.dump(),
                "volume_removals": self._removals.dump(),
                "image_prefetches": self._prefetches.dump(),
                "certificates": self.certificates.dump(),
                "settings": msgspec.to_builtins(self.settings),
                "knows_agents": self.knows_agents,
                "now": self._now,
            },
        )

    def close(self) -> None:
        """Keeps the fold and ends all streams."""
        with suppress(AppendUnknown):  # the log has said so itself
            self.checkpoint()
        for host_id, host in self._hosts.items():
            host.cut(host_id)
        self._reader.close()

    def _restore(self, path: Path) -> None:
        if (state := checkpoint.load(path, self._log.cell, self.name)) is None:
            return
        self.log_id = state["log"]
        self._chains = msgspec.convert(state["chains"], known(dict[str, Chain]))
        positions = state["positions"]
        self.knows_agents = state.get("knows_agents", True)
        if POOLS.name not in positions:  # 0.3 read none, so the log may have lost its first ones meanwhile
            first, _ = self._log.bounds(POOLS.name)
            positions, self.knows_agents = {**positions, POOLS.name: first}, first == 0
        self._inbox = Inbox(positions, state["known"], self._chains, self._log.cell)
        self._desired_runs.load(state["wanted"])
        self._watch.peers.load(state["peers"])
        self._hosts.load(state["hosts"])
        self._removals.load(state["volume_removals"])
        self._prefetches.load(state.get("image_prefetches", ()))  # none of 0.3
        self.certificates.load(state.get("certificates", ({}, {})))
        self.settings = msgspec.convert(state.get("settings", {}), known(Settings))
        self._now = state.get("now", 0)

    def _take_posts(self, now: int) -> bool:
        """Takes what was posted, until a fact's worth of reports is together. Takes nothing while facts wait."""
        if self._records or not self.serving:
            return False
        parts: list[tuple[Sequence[int], Reports]] = []
        count = size = 0
        while (post := self._next_post()) is not None:
            try:
                if not isinstance(post, Report):
                    self._take_other(post, now)
                    continue
                runs, weight = len(post.reports.job), facts.size_of(post.reports)
                if parts and (count + runs > HOST_RUNS_MAX or size + weight > ROUND_BYTES_MAX):
                    self._held = post
                    break
                if self._take_report(post, now) and runs:
                    parts.append((post.sessions, post.reports))
                    count, size = count + runs, size + weight
            except (ValueError, OverflowError) as fault:  # no record can say it: a matter of who posts it alone
                if not refuse(post, f"what is said can't be written to the log: {fault}"):
                    raise
        if parts:
            self._records.append(facts.reported(self.name, parts))
            self._metrics.reports.inc(count)
        return self._held is not None

    def _next_post(self) -> Post | None:
        if self._held is not None:
            post, self._held = self._held, None
            return post
        return None if self._posts.empty() else self._posts.get_nowait()  # nobody else takes any

    def _take_report(self, report: Report, now: int) -> bool:
        hosts = self._hosts.speaking(report.reports.host_ids, report.sessions)
        current = hosts is not None and not any(host.silent and now - host.heard_ms >= RECONNECT_MS for host in hosts)
        if current and report.volumes is not None:
            self._records.append(facts.volumes_of(report.reports.host_ids[0], report.sessions[0], report.volumes))
        if current and report.held_images is not None:
            self._records.append(facts.images_of(report.reports.host_ids[0], report.sessions[0], report.held_images))
        if current and report.offer is not None:
            self._records.append(
                facts.fact(facts.offered(report.reports.host_ids[0], report.offer), report.reports.host_ids[0])
            )
        for host in hosts if hosts and current else ():
            host.heard_ms = now
        for end in report.execs if current else ():
            if self._open_execs.of_host(report.reports.host_ids[0], end, self._desired_runs.host_id_of):
                self._close_exec(
                    ExecClosed(exec_id=end.exec_id, job_id=end.job_id, exit_code=end.exit_code, reason=end.reason)
                )
        for at, image in report.images if current else ():
            self._records.append(facts.prefetched(report.reports.host_ids[at], report.sessions[at], image))
        for at, state in report.conditions if current else ():
            self._records.append(facts.checked(report.reports.host_ids[at], report.sessions[at], state))
        for at, load in report.loads if current else ():
            self._loads.say(report.reports.host_ids[at], report.sessions[at], load)
        self._answers.add(lambda: report.done(current))
        return current

    def _take_other(self, post: Other, now: int) -> None:
        match post:
            case Connect():
                self._connect(post, now)
            case Attach(sessions, link):
                for host_id, session in sessions.items():
                    self._attach(host_id, session, link)
            case Detach(link):
                self._hosts.detach(link)
            case AskLog():
                self._ask(post)
            case AskUsage():
                self._usage_requests.pass_on(post, self._hosts.link)
            case AskExec():
                self._ask_exec(post)
            case CloseExec(event):
                self._close_exec(event)
            case TellSecret(event, done):
                self._records.append(facts.fact(event, event.name))
                self._answers.add(lambda: done(True))
            case AskSecrets():
                post.done(self._secrets_for(post))
            case Certify(event, now_ms, told):
                if (refused := self.certificates.refusal(event, now_ms)) is not None:
                    told(refused)
                    return
                self.certificates.wait(event.serial, told)
                self._records.append(facts.fact(event, event.host_id))

    def _connect(self, post: Connect, now: int) -> None:
        host = self._hosts[post.host_id]
        if (refused := host.refusal(post.host_id, post.hello, self._desired_runs.runs)) is not None:
            self._answers.add(lambda: post.done(refused))
            return
        news = facts.connected(post.host_id, post.hello, self.name)
        host.cut(post.host_id)
        host.connected(post.hello.session, self.name, post.hello.machine)
        host.containers = CONTAINER in post.hello.attributes
        host.floor, host.heard_ms = post.hello.position, now
        self._records += news
        self._answers.add(lambda: post.done(Welcome(self._inbox.positions[LIFECYCLE], self.cell, self.log_id)))

    def _attach(self, host_id: str, session: int, link: Link) -> None:
        host = self._hosts.get(host_id)
        if host is None or not host.current(self.name, session):
            link.cut(host_id)
            return
        host.cut(host_id)
        host.link = link
        self._waiting[host_id] = None

    def _ask(self, post: AskLog) -> None:
        self._output_requests.pass_on(post, self._host_of(post), self._hosts.link)

    def _ask_exec(self, post: AskExec) -> None:
        """The host hears of it once it is in the log that somebody enters the run."""
        host_id = self._host_of(post)
        link = self._hosts.link(host_id) if host_id is not None else None
        if host_id is None or link is None:
            why = "no host of the run is known" if host_id is None else f"host {host_id} is not connected"
            if post.host.set_running_or_notify_cancel():
                post.host.set_exception(LogMissing(why) if host_id is None else NotHere(why))
            return
        self._records.append(facts.exec_opened(host_id, post.line, post.actor))
        self._open_execs.begun(host_id, post.line)

        def pass_on(host_id: str = host_id, link: Link = link) -> None:
            if post.host.set_running_or_notify_cancel():
                post.host.set_result(host_id)
                link.ask(host_id, post.line)

        self._answers.add(pass_on)

    def _secrets_for(self, post: AskSecrets) -> Grant | None:
        """The secrets that a host may have: of runs that it is to start, in its present session with this gateway."""
        host = self._hosts.get(post.host_id)
        key = host.machine.public_key() if host is not None else b""
        if host is None or not key or not host.current(self.name, post.session):
            return None
        specs = [(run, self._desired_runs.spec_there(host.number, *run)) for run in post.runs]
        runs = tuple((run, spec.secrets if spec is not None else ()) for run, spec in specs)
        tokens = frozenset(run for run, spec in specs if spec is not None and spec.run_token)
        return Grant(self.cell, post.host_id, post.session, key, runs, tokens)

    def _close_exec(self, event: ExecClosed) -> None:
        """Writes the end of a command once, though both its gateway and its host tell of it."""
        record = facts.fact(event, event.job_id)
        if self._open_execs.ends(event):
            self._records.append(record)

    def _host_of(self, post: AskLog | AskExec) -> str | None:
        """The host that a run was ordered on; None: it isn't known."""
        line, host_id = post.line, post.host_id
        return host_id or self._desired_runs.host_id_of(line.job_id, line.instance, line.run)

    def _has_caught_up(self, now: int) -> bool:
        """Whether all is folded that was in the log when this gateway began."""
        if self._ends is None:
            if now < self._retry_at:
                return False
            try:
                self._ends = self._reader.ends()
            except LogUnavailable:
                self._retry_at = now + RETRY_MS
                return False
        if not self.lag():
            return True
        # the last offsets may be holes, which no record ever takes
        passed = self._starved and not self._inbox.waiting
        return passed and all(self._reader.position(topic) >= end for topic, end in self._ends.items())

    def _fold(self) -> bool:
        if self._starved or self._inbox.waiting < RECORDS_MAX:
            try:
                self._inbox.add(self._reader.poll(RECORDS_MAX, 0))
            except LogUnavailable:  # the log says so itself; it is read again in the next step
                return False
        path, self._path = self._path, None  # its position is past what could not be folded: that must not be kept
        waiting = self._inbox.waiting
        for delivered in self._inbox.deliver(RECORDS_MAX):
            self._take(delivered)
        self._path = path
        self._starved = self._inbox.waiting == waiting
        return not self._starved

    def _take(self, delivered: Delivered) -> None:
        event, position = delivered.event, delivered.record.offset + 1
        match event:
            case JobSubmitted() | JobUpdateRequested() | JobReopenRequested() | OverridesUploaded():
                self._desired_runs.asked(delivered.record.offset, event)
            case HostOffered():
                self._desired_runs.offered(event)
            case HostConnected() | HostSilent() | HostBack():
                self._hosts.heard(event)
                if isinstance(event, HostConnected):
                    self._watch.peers.alive(event.gateway)
            case HostVolumes(host_id=host_id, session=session):
                if (host := self._hosts.get(host_id)) is not None and host.session == session:
                    self._removals.reported(event, delivered.record.at_ms)
            case HostInvited():
                self.certificates.invited(event, delivered.record.offset, delivered.record.at_ms)
            case HostCertified():
                self.certificates.certified(event, delivered.record.at_ms)
            case CellConfigured():
                self._configured(change_of(event))
            case GatewayBeat():
                self._watch.peers.beat(event.gateway, delivered.record.at_ms)
            case EpochStarted(machine="lifecycle"):
                self.log_id = self.log_id or identity(delivered.record)
            case RoundCommitted(machine="placement"):
                for decision in delivered.decisions():
                    if isinstance(decision, HostRemoved):
                        self.certificates.removed(decision)
                        self._removed(decision)
            case RoundCommitted():
                self._take_round(event, delivered.decisions(), position)

    def _configured(self, change: SettingsChange) -> None:
        if change_fault(self.settings, change):
            return
        self.settings = changed(self.settings, change)
        # of one that names lists too it can't be known here whether entitlement took it
        if "agents" in change.values and not (change.resources or change.conditions or "slack" in change.values):
            self.knows_agents = True

    def _removed(self, event: HostRemoved) -> None:
        if self._hosts.removed(event):
            self._desired_runs.removed(event.host_id)
            self._removals.removed(event.host_id)

    def _take_round(self, committed: RoundCommitted, decisions: Sequence[Event], position: int) -> None:
        pieces = []
        self._now = committed.now
        for decision in decisions:
            if isinstance(decision, HostReconciled):
                self._hosts.reconciled(decision)
            elif isinstance(decision, VolumeRemovalOrdered):
                self._removals.ordered(decision, committed.now)
            elif isinstance(decision, ImagePrefetchOrdered):
                self._prefetches.ordered(decision, committed.now, self._desired_runs.host_ids)
            elif piece := self._desired_runs.take(decision):
                pieces.append(piece)
        self._deliver(position, pieces)

    def _deliver(self, position: int, pieces: list[HostOrders]) -> None:
        """Sends what a round asks of hosts, one message for each link, to those that have the whole set."""
        if not pieces:
            return
        host_numbers = distinct(np.concatenate([piece.host for piece in pieces])).tolist()
        ready = [number for number in host_numbers if self._hosts.ready(self._desired_runs.host_ids[number])]
        if len(ready) < len(host_numbers):
            pieces = [only(piece, ready) for piece in pieces]
        if ready:
            self._send(position, False, ready, pieces)

    def _send_whole(self) -> None:
        """Sends the whole wanted set to links that wait for it, once lifecycle has settled what runs there: until then
        the cell may want runs of the last session that it is about to give up.
        """
        position = self._inbox.positions[LIFECYCLE]
        due = []
        for host_id in list(self._waiting):
            host = self._hosts.get(host_id)
            if host is None or host.link is None:
                del self._waiting[host_id]
            elif host.reconciled == host.session and position >= host.floor:
                del self._waiting[host_id]
                host.ready = True
                due.append(host.number)
        if due:
            self._send(position, True, due, self._desired_runs.all_orders(due))
            ids = [self._desired_runs.host_ids[number] for number in due]
            self._removals.connected(ids)
            self._prefetches.connected(ids, self._now)

    def _send(self, position: int, whole: bool, hosts: Iterable[int], pieces: list[HostOrders]) -> None:
        orders = self._desired_runs.orders(position, whole, hosts, pieces)
        self._metrics.orders.inc(len(orders.job))
        for link, part in split(orders, [self._hosts.link(host_id) for host_id in orders.host_ids]):
            if link is not None:
                link.deliver(part)

    def _write(self, now: int) -> bool:
        """Appends the facts at hand, and answers those who wait for facts that are durable."""
        if now < self._retry_at:
            return False
        if self._records:
            try:
                self._facts.append(self._records)
            except (AppendUnknown, LogUnavailable):  # facts may be repeated: a repeat is void
                self._retry_at = self._clock.monotonic_ms() + RETRY_MS  # the append may have waited long
                return False
        wrote, self._records = bool(self._records), []
        return (self._answers.waiting and self._answers.give()) or wrote
