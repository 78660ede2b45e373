"""The gateway of a cell, stepped by whoever hosts it; everyone else posts to it from any thread."""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec
import numpy as np

from events.acceptance import Chain, Verdict
from events.clock import Clock
from events.codec import decode
from events.delivery import Delivered, Inbox
from events.log import AppendUnknown, Log, LogUnavailable, NewRecord
from events.records.hosts import GatewayBeat, HostBack, HostConnected, HostSilent
from events.records.jobs import JobSubmitted
from events.records.lifecycle import HostReconciled
from events.records.rounds import RoundCommitted
from events.topics import HOSTS, JOBS, rounds_of
from hostagent.gateway import checkpoint, facts
from hostagent.gateway.links import AskLog, Attach, Connect, Detach, HostStanding, Link, LogMissing, Post, Report, split
from hostagent.gateway.wanted import Piece, Wanted, only
from hostagent.messages import LogLine, LogPage, Refused, Reports, Welcome

LIFECYCLE = rounds_of("lifecycle")
BEAT_MS = 10_000
SILENT_MS = 10_000
"""A host that was not heard for so long is silent."""
WATCH_MS = 1_000
"""So often silence is looked for. A longer pause between two looks was the gateway's own and isn't counted."""
REPORTS_MAX = 20_000
"""Most runs in one fact."""
RECORDS_MAX = 500
"""Most records folded in one step."""
CHECKPOINT_MS = 30_000
POLL_MS = 20
"""So often a gateway that is posted to from other threads wants to be stepped."""
RECONNECT_MS = 45_000
"""After so long a silence a host must connect anew and say what it runs: it may have been declared lost meanwhile."""
RETRY_MS = 500
"""Wait before the log is tried again."""


class Gateway:
    """Folds jobs, hosts and rounds of lifecycle into what each host shall run, and writes what agents say as facts.

    `step` and `wait_ms` belong to one thread; `post`, `log_of` and `answer` to any. `path`: where the fold is kept, so
    that a restart goes on from there; without the file everything is folded from the log's start.
    """

    def __init__(self, log: Log, path: Path | None, clock: Clock, name: str) -> None:
        self.name = name
        self.polled = False
        """Whether other threads post, so that it must be stepped though nothing was appended."""
        self._log = log
        self._clock = clock
        self._path = path
        self._wanted = Wanted()
        self._hosts: dict[str, HostStanding] = {}
        self._chain = Chain()
        self._inbox = Inbox({JOBS.name: 0, HOSTS.name: 0, LIFECYCLE: 0}, {}, {"lifecycle": self._chain}, log.cell)
        if path is not None:
            self._restore(path)
        self._reader = log.reader(self._inbox.positions)
        self._posts: SimpleQueue[Post] = SimpleQueue()
        self._held: Report | None = None
        self._records: list[NewRecord] = []
        self._after: list[Callable[[], None]] = []
        self._waiting: dict[str, None] = {}
        """Hosts whose link has not got the whole wanted set yet."""
        self._asked: dict[str, Future[LogPage]] = {}
        self._requests = itertools.count(1)
        now = clock.monotonic_ms()
        self._beat_at = self._watch_at = now
        self._counted_from = now
        """Silence counts from here at the earliest."""
        self._checkpoint_at = now + CHECKPOINT_MS
        self._caught_up = False
        """Whether the past was folded once: who was silent is known only then."""
        self._retry_at = 0
        self._kept_position = -1
        self._starved = False
        """Nothing that was read may be folded yet: what it waits for must be read."""

    def post(self, post: Post) -> None:
        """Hands something to the gateway; thread-safe."""
        self._posts.put(post)

    def log_of(
        self, job_id: str, instance: int, run: int, stream: str, offset: int, limit: int, host_id: str | None = None
    ) -> "Future[LogPage]":
        """Asks for a piece of the output of a run; thread-safe. `host_id`: where it ran, needed for runs that are not
        the newest of their task. The future may be cancelled; it may fail with `LogMissing`.
        """
        answer: Future[LogPage] = Future()
        line = LogLine(str(next(self._requests)), job_id, instance, run, stream, offset, limit)
        self.post(AskLog(host_id, line, answer))
        return answer

    def answer(self, request: str, page: LogPage | None) -> None:
        """The answer to a request for output, None: the host knows nothing of that run; thread-safe."""
        future = self._asked.pop(request, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if page is None:
            future.set_exception(LogMissing("the host has no output of that run, or no longer"))
        else:
            future.set_result(page)

    def step(self) -> bool:
        """Takes posts, folds the log, looks for silence, writes facts. Returns whether there may be more at once."""
        now = self._clock.monotonic_ms()
        busy = self._take_posts(now)
        folded = self._fold()
        self._send_whole()
        self._caught_up = self._caught_up or not folded
        if self._caught_up and not self._records:  # while the log is away nobody is heard, so nobody is silent
            self._watch(now)
        busy |= folded | self._write(now)
        if now >= self._checkpoint_at:
            self.checkpoint()
        return busy

    def wait_ms(self) -> int | None:
        """Milliseconds until it wants to be stepped, though nothing was appended."""
        now = self._clock.monotonic_ms()
        if self._records:
            return max(0, self._retry_at - now)
        if self._held is not None or not self._posts.empty():
            return 0
        left = max(0, min(self._beat_at, self._watch_at, self._checkpoint_at) - now)
        return min(left, POLL_MS) if self.polled else left

    def checkpoint(self) -> None:
        """Keeps the fold on disk, if it went on since the last time."""
        self._checkpoint_at = self._clock.monotonic_ms() + CHECKPOINT_MS
        position = sum(self._inbox.positions.values())
        if self._path is None or position == self._kept_position:
            return
        self._kept_position = position
        checkpoint.save(
            self._path,
            {
                "cell": self._log.cell,
                "positions": self._inbox.positions,
                "known": self._inbox.known,
                "chain": msgspec.to_builtins(self._chain, builtin_types=(bytes,)),
                "wanted": self._wanted.dump(),
                "hosts": {
                    host_id: (host.session, host.mine, host.silent, host.reconciled)
                    for host_id, host in self._hosts.items()
                },
            },
        )

    def close(self) -> None:
        """Keeps the fold and ends all streams."""
        self.checkpoint()
        for host_id, host in self._hosts.items():
            if host.link is not None:
                host.link.cut(host_id)
        self._reader.close()

    def _restore(self, path: Path) -> None:
        kept = checkpoint.load(path, self._log.cell)
        if kept is None:
            return
        self._chain = msgspec.convert(kept["chain"], Chain)
        self._inbox = Inbox(kept["positions"], kept["known"], {"lifecycle": self._chain}, self._log.cell)
        self._wanted.load(kept["wanted"])
        for host_id, standing in kept["hosts"].items():
            host = self._host(host_id)
            host.session, host.mine, host.silent, host.reconciled = standing

    def _host(self, host_id: str) -> HostStanding:
        host = self._hosts.get(host_id)
        if host is None:
            host = self._hosts[host_id] = HostStanding(self._wanted.host(host_id))
        return host

    # What is posted

    def _take_posts(self, now: int) -> bool:
        """Takes what was posted, until a fact's worth of reports is together. Takes nothing while facts wait."""
        if self._records:
            return False
        parts: list[Reports] = []
        size = 0
        while (post := self._next_post()) is not None:
            if isinstance(post, Report):
                runs = len(post.reports.job)
                if parts and size + runs > REPORTS_MAX:
                    self._held = post
                    break
                if self._take_report(post, now) and runs:
                    parts.append(post.reports)
                    size += runs
            else:
                self._take_other(post, now)
        if parts:
            self._records.append(facts.reported(self.name, parts))
        return self._held is not None

    def _next_post(self) -> Post | None:
        if self._held is not None:
            held, self._held = self._held, None
            return held
        try:
            return self._posts.get_nowait()
        except Empty:
            return None

    def _take_report(self, report: Report, now: int) -> bool:
        hosts = [self._host(host_id) for host_id in report.reports.host_ids]
        current = all(host.session == session for host, session in zip(hosts, report.sessions, strict=True))
        current = current and not any(host.silent and now - host.heard_ms >= RECONNECT_MS for host in hosts)
        for host in hosts if current else ():
            host.heard_ms = now
        self._after.append(lambda: report.done(current))
        return current

    def _take_other(self, post: Connect | Attach | Detach | AskLog, now: int) -> None:
        match post:
            case Connect():
                self._connect(post, now)
            case Attach(sessions, link):
                for host_id, session in sessions.items():
                    self._attach(host_id, session, link)
            case Detach(link):
                for host in self._hosts.values():
                    if host.link is link:
                        host.link, host.ready = None, False
            case AskLog():
                self._ask(post)

    def _connect(self, post: Connect, now: int) -> None:
        host = self._host(post.host_id)
        if post.hello.session <= host.session:
            refused = Refused(host.session)
            self._after.append(lambda: post.done(refused))
            return
        self._cut(post.host_id, host)
        host.session, host.mine, host.silent = post.hello.session, True, False
        host.floor, host.heard_ms = post.hello.position, now
        self._records += facts.connected(post.host_id, post.hello, self.name)
        self._after.append(lambda: post.done(Welcome(self._inbox.positions[LIFECYCLE])))

    def _attach(self, host_id: str, session: int, link: Link) -> None:
        host = self._host(host_id)
        if host.session != session or not host.mine:
            link.cut(host_id)
            return
        self._cut(host_id, host)
        host.link = link
        self._waiting[host_id] = None

    def _cut(self, host_id: str, host: HostStanding) -> None:
        if host.link is not None:
            host.link.cut(host_id)
        host.link, host.ready = None, False

    def _ask(self, post: AskLog) -> None:
        line = post.line
        host_id = post.host_id
        if host_id is None:
            number = self._wanted.where(line.job_id, line.instance, line.run)
            host_id = None if number is None else self._wanted.host_ids[number]
        link = self._hosts[host_id].link if host_id in self._hosts else None
        if host_id is None or link is None:
            known = "it is not known where the run was" if host_id is None else f"host {host_id} is not connected"
            if post.answer.set_running_or_notify_cancel():
                post.answer.set_exception(LogMissing(known))
            return
        self._asked[line.request] = post.answer
        post.answer.add_done_callback(lambda _: self._asked.pop(line.request, None))
        link.ask(host_id, line)

    # What the cell has decided

    def _fold(self) -> bool:
        if self._starved or self._inbox.waiting() < RECORDS_MAX:
            self._inbox.add(self._reader.poll(RECORDS_MAX, 0))
        folded = 0
        for delivered in self._inbox.deliver(RECORDS_MAX):
            self._take(delivered)
            folded += 1
        self._starved = folded == 0
        return folded > 0

    def _take(self, delivered: Delivered) -> None:
        event, position = delivered.event, delivered.record.offset + 1
        match event:
            case JobSubmitted():
                self._wanted.submitted(delivered.record.offset, event)
            case HostConnected():
                self._heard_of(event)
            case HostSilent() | HostBack():
                host = self._host(event.host_id)
                if host.session == event.session:
                    host.silent = isinstance(event, HostSilent)
            case RoundCommitted() if delivered.verdict is Verdict.ACCEPTED:
                self._take_round(event, position)

    def _heard_of(self, event: HostConnected) -> None:
        """A session in the log: of this gateway's own past, or of another gateway that has the host now."""
        host = self._host(event.host_id)
        if event.session > host.session:
            self._cut(event.host_id, host)
            host.session, host.mine, host.silent = event.session, event.gateway == self.name, False

    def _take_round(self, committed: RoundCommitted, position: int) -> None:
        pieces = []
        for value in committed.decisions:
            decision = decode(value)
            if isinstance(decision, HostReconciled):
                host = self._host(decision.host_id)
                host.reconciled = max(host.reconciled, decision.session)
            elif piece := self._wanted.take(decision):
                pieces.append(piece)
        self._deliver(position, pieces)

    def _deliver(self, position: int, pieces: list[Piece]) -> None:
        """Sends what a round asks of hosts, one message for each link, to those that have the whole set."""
        if not pieces:
            return
        named = np.unique(np.concatenate([piece.host for piece in pieces])).tolist()
        ready = [number for number in named if self._hosts_by_number(number).ready]
        if not ready:
            return
        if len(ready) < len(named):
            pieces = [only(piece, ready) for piece in pieces]
        self._send(position, False, ready, pieces)

    def _hosts_by_number(self, number: int) -> HostStanding:
        return self._host(self._wanted.host_ids[number])

    def _send_whole(self) -> None:
        """Sends the whole wanted set to links that wait for it, once lifecycle has settled what runs there: until then
        the cell may want runs of the last session that it is about to give up.
        """
        position = self._inbox.positions[LIFECYCLE]
        due = []
        for host_id in list(self._waiting):
            host = self._hosts[host_id]
            if host.link is None:
                del self._waiting[host_id]
            elif host.reconciled == host.session and position >= host.floor:
                del self._waiting[host_id]
                host.ready = True
                due.append(host.number)
        if due:
            self._send(position, True, due, self._wanted.whole(due))

    def _send(self, position: int, whole: bool, hosts: Iterable[int], pieces: list[Piece]) -> None:
        orders = self._wanted.orders(position, whole, hosts, pieces)
        for link, part in split(orders, [self._hosts[host_id].link for host_id in orders.host_ids]):
            if link is not None:
                link.deliver(part)

    # Silence, beats, and the log

    def _watch(self, now: int) -> None:
        if now >= self._beat_at:
            self._beat_at = now + BEAT_MS
            self._records.append(facts.fact(GatewayBeat(gateway=self.name), self.name))
        if now < self._watch_at:
            return
        if now - self._watch_at > WATCH_MS:
            self._counted_from = now
        self._watch_at = now + WATCH_MS
        for host_id, host in self._hosts.items():
            if not host.mine:
                continue
            heard = max(host.heard_ms, host.link.heard_ms if host.link is not None else 0)
            if not host.silent and now - max(heard, self._counted_from) >= SILENT_MS:
                host.silent = True
                self._records.append(facts.fact(HostSilent(host_id=host_id, session=host.session), host_id))
            elif host.silent and heard and now - heard < SILENT_MS:
                host.silent = False
                self._records.append(facts.fact(HostBack(host_id=host_id, session=host.session), host_id))

    def _write(self, now: int) -> bool:
        """Appends the facts at hand and then answers those who wait for them."""
        if now < self._retry_at:
            return False
        if self._records:
            try:
                self._log.append(self._records)
            except (AppendUnknown, LogUnavailable):  # facts may stand twice: a repeat is void
                self._retry_at = now + RETRY_MS
                return False
        done, self._after = self._after, []
        wrote, self._records = bool(self._records), []
        for call in done:
            call()
        return wrote or bool(done)
