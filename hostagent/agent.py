"""The agent of a host: follows the orders of the cell, reports, and lets runs go on whatever becomes of itself.

One asyncio loop with three tasks: `_follow` keeps a session and obeys its stream of orders, `_report` tells the cell
what it has not acknowledged, `_watch` looks at the runs. A session is with one gateway; when it is lost the next one of
the cell is tried, and what was not acknowledged is told there. What must outlive the agent is on disk (`hostagent.runs`
and `hostagent.agent_state`), so it may be killed at any moment.
"""

import asyncio
import logging
import random
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import httpx2
import msgspec

from events.bounds import IMAGES_MAX, NAME, SESSION_MAX
from events.process.file_locks import hold
from events.structs import known
from hostagent import kernel, pressure
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentFault, load, note, save
from hostagent.disk import Disk
from hostagent.execs import Execs
from hostagent.hardware import HardwareFault, HostHardware
from hostagent.health import HealthChecks
from hostagent.host_checks import HostChecks
from hostagent.host_secrets import HostSecrets
from hostagent.image_pulls import ImagePulls
from hostagent.job_users import users
from hostagent.joining import renew
from hostagent.later import Aside
from hostagent.launch import launch
from hostagent.levels import Levels
from hostagent.load import LoadNews, steps
from hostagent.machine_identity import identity
from hostagent.messages import (
    EXEC_ENDS_MAX,
    HEARTBEAT_MS,
    PING_S,
    Acknowledged,
    ExecLine,
    Hello,
    HostLoad,
    ImagesLine,
    JobOrder,
    LogLine,
    LogPage,
    OrderKind,
    OrdersLine,
    RemoveVolumesLine,
    ReportBatch,
    RunOrder,
    RunState,
    SessionRefused,
    UsageLine,
    Welcome,
    page_headers,
)
from hostagent.offer import HostOffer
from hostagent.order_stream import ParsedOrders, read
from hostagent.output_waits import OutputWaits
from hostagent.ports import PortsTaken, take_ports
from hostagent.pressure import Candidate
from hostagent.run_as import NoSuchUser, check
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs
from hostagent.slack import Asked, SlackMeter
from hostagent.usage import SAMPLE_S, UsageMeter
from paceline.client.lines import Lines
from paceline.client.proven_transport import AsyncProvenTransport
from paceline.client.tls import why_tls

POLL_S = 0.05
"""So often the agent looks what became of its runs, where nobody tells it."""
LOOK_S = 1.0
"""So often it looks at them, though keepers tell."""
IDLE_S = 10.0
"""So often it looks after its keepers where there are no runs."""
BACKOFF_S = (0.2, 10.0)
"""Waits between attempts to connect: the first, and the longest; doubled once all gateways were tried, and each drawn
from its upper half.
"""
CONNECT_S = 2.0
"""So long a gateway may take to accept a connection."""
TURN_ITEMS = 16
"""So many orders are carried out before others have their turn."""
REPORTS_MAX = 10_000
"""Most runs in one report."""
READ = ParsedOrders(None)
"""Nothing that could not be read."""

log = logging.getLogger("paceline.agent")


class SessionLost(Exception):
    """The gateway doesn't take this session, or no longer."""


class Agent:
    """One agent. `run` ends when it is cancelled or when another thread calls `stop`; runs go on. `say`: told once of
    each trouble with the cell, and when it is over.

    Raises `AgentFault`, and `OSError` where the folder can't be used.
    """

    def __init__(self, settings: AgentSettings, say: Callable[[str], None] = log.info) -> None:
        if not NAME.fullmatch(settings.host_id):
            raise AgentFault(
                f"{settings.host_id!r} is no id of a host: 1 to 128 of A-Z, a-z, 0-9, dot, dash, underscore"
            )
        self.settings = settings
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = settings.folder / "agent.json"
        self._machine = identity(settings.folder)
        self.state = load(self._path)
        self._say = say
        try:
            self._hardware = HostHardware(settings.hardware, settings.resources, say)
            self._users = users(settings.run_as, settings.folder)
            self._levels = Levels(
                settings.folder,
                settings.isolation,
                self._users.sample is not None,
                say,
                settings.containers,
                self._hardware.now.cores,
            )
            self._secrets = HostSecrets(settings.folder, self._users.of, say)
            self.runs = Runs(
                settings.folder,
                settings.port_locks,
                say,
                self._users,
                levels=self._levels,
                umask=settings.umask,
                retention=settings.retention,
                secrets=self._secrets,
                later=Aside(),
            )
            if self._users.sample is not None:
                check(self._users.sample, self.runs.tasks)
            self._offer = HostOffer(settings, self._hardware, self._levels, self._secrets)
        except (NoSuchUser, HardwareFault) as error:
            raise AgentFault(str(error)) from error
        self._meter = UsageMeter(self.runs, self._levels)
        self._slack = SlackMeter(settings.folder / "slack.json")
        self._load: HostLoad | None = None
        """The use of its runs, once that was measured."""
        self._load_news = LoadNews(0)
        self.connected = False
        """Whether it has a session."""
        self._troubles: set[str] = set()
        """Troubles that were logged since the last contact."""
        self._changed = asyncio.Event()
        self._checks = HostChecks(settings.folder, settings.health, self._changed.set)
        self._news = asyncio.Event()
        """A keeper may have said something."""
        images = self._levels.containers.images if self._levels.containers is not None else None
        self._pulls = ImagePulls(self.runs, images, self._tell_all, say)
        self._at_gateway = zlib.crc32(settings.host_id.encode())
        """Counts through the gateways; each host begins with its own, so that they share the hosts."""
        self._held = ExitStack()
        self._ports = (0, 0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._running = threading.Event()

    def take(self) -> None:
        """Takes folder and ports, for `run`. Raises `AgentFault` where another agent has them."""
        with ExitStack() as locks:
            try:
                locks.enter_context(hold(self.settings.folder / "agent.lock"))
            except BlockingIOError as error:
                raise AgentFault(
                    f"another agent runs on {self.settings.folder}: give each a folder of its own with --folder"
                ) from error
            self._take_ports(locks)
            self._secrets.keep_only({run.key for run in self.runs.alive()})
            self._held = locks.pop_all()

    async def run(self) -> None:
        """Follows the cell until cancelled, after `take`."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._running.set()
        client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self.settings.token}"} if self.settings.token else {},
            timeout=httpx2.Timeout(3 * PING_S, connect=CONNECT_S),
            transport=AsyncProvenTransport(self.settings.token or None, tls=self.settings.tls),
            trust_env=False,
        )
        self._say(self._users.described())
        self._held.callback(self._secrets.close)
        with self._held:
            self._execs = Execs(self.runs, client, self._at, self._changed.set)
            self._output_waits = OutputWaits(self.runs, self._send_output)
            async with (
                client as self._client,
                self._execs,
                self._pulls,
                self._output_waits,
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(self._pulls.collect())
                tasks.create_task(self._watch())
                tasks.create_task(self._measure())
                tasks.create_task(pressure.follow(self._candidates, self.runs.revoke))
                tasks.create_task(Disk(self.settings.folder).follow(self.runs, self._news.set, self._tried))
                tasks.create_task(self._checks.follow())
                tasks.create_task(self._hardware.follow(self._changed.set))
                if self.settings.certificate is not None:
                    tasks.create_task(renew(self.settings.certificate, client, self._at, self._say))
                tasks.create_task(self._keep_connected())

    def start(self) -> None:
        """Runs in a thread of its own after `take`, until `stop`."""
        self._thread = threading.Thread(target=_until_cancelled, args=(self.run(),), name="agent", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Ends what `start` began, and returns how many runs go on."""
        if self._thread is not None:
            self._running.wait()
            if self._loop is not None and self._main is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join()
        return len(self.runs.alive())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        with self._tried("its keepers"):
            self.runs.keepers.open()
        loop.add_reader(self.runs.keepers.fileno(), self._news.set)
        async with HealthChecks(self.runs, self._changed.set) as checks:
            while True:
                self._news.clear()
                with self._tried("its runs"):
                    if self.runs.poll():
                        self._changed.set()
                        self._output_waits.look()
                    checks.look()
                pause_s = POLL_S if self.runs.restless() else LOOK_S if self.runs.alive() else IDLE_S
                with suppress(TimeoutError):  # not wait_for: before Python 3.12 that may swallow a cancellation
                    async with asyncio.timeout(pause_s):
                        await self._news.wait()

    async def _measure(self) -> None:
        """Measures what its runs use, and has the cell told of it."""
        meter = self._meter
        while True:
            with self._tried("the use of its runs"):
                await meter.sample()
            cpu = steps(meter.cpu_milli(), self._offer.capacity.get("cpu", 0))
            memory = steps(meter.memory_kib(), self._offer.capacity.get("memory", 0) * 1024)
            now_ms = kernel.since_boot_ms()
            slack = self._slack.sample(self._asked(now_ms), self._offer.capacity.get("cpu", 0), now_ms)
            self._load = HostLoad(cpu, memory, slack)
            if self._load_news.due(self._load, kernel.since_boot_ms()):
                self._changed.set()
            await asyncio.sleep(SAMPLE_S)

    def _asked(self, now_ms: int) -> Iterator[Asked]:
        """The runs that have reserved CPU, and what they use of it."""
        for run in self.runs.alive():
            its, meter = run.standing, self._meter.meters.get(run.key)
            if its is not None and not its.revocable:
                used = its.cpu if meter is None else meter.cpu_milli
                yield Asked(run.name, its.cpu, used, now_ms - its.ordered_ms, its.batch)

    def _candidates(self) -> Iterator[Candidate]:
        """The runs that may end where memory is short."""
        for run in self.runs.alive():
            its, meter = run.standing, self._meter.meters.get(run.key)
            if its is not None and meter is not None and not run.stopping:
                used, request = meter.sample.memory_kib, its.memory // 1024
                yield Candidate(run.key, its.revocable, its.preemptible, its.priority, used, request, its.ordered_ms)

    async def _keep_connected(self) -> None:
        wait = BACKOFF_S[0]
        tried = 0
        while True:
            try:
                await self._session()
            except (httpx2.HTTPError, ssl.SSLError, SessionLost, msgspec.DecodeError) as error:
                why = why_tls(error) or str(error) or type(error).__name__
                self._note(f"no contact to the cell: {self._gateway()}: {why}")
            except OSError as error:  # its folder: a full disk, mostly
                self._note(f"{self.settings.folder} can't be used: {error.strerror or error}. Waits until it can be.")
                self._checks.refused(f"{self.settings.folder} can't be used: {error.strerror or error}")
            tried = 0 if self.connected else tried + 1
            if self.connected:
                wait = BACKOFF_S[0]
            elif tried % len(self.settings.urls) == 0:
                wait = min(BACKOFF_S[1], 2 * wait)
            self.connected = False
            self._at_gateway += 1
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))

    async def _session(self) -> None:
        """Connects, then follows orders and reports until one of them fails."""
        session = self._next_session()
        await self._connect(session)
        self.connected = True
        self._troubles.clear()
        self._say(f"follows cell {self.state.cell} through {self._gateway()}")
        reporting = asyncio.create_task(self._report(session))
        following = asyncio.create_task(self._follow(session))
        secrets = asyncio.create_task(self._bring_secrets(session))
        try:
            done, _ = await asyncio.wait((reporting, following, secrets), return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            self._output_waits.drop_all()
            for task in (reporting, following, secrets):
                task.cancel()
            await asyncio.gather(reporting, following, secrets, return_exceptions=True)

    def _next_session(self) -> int:
        """A session higher than any before, on disk before it is used."""
        before = self.state.session if self.state.session < SESSION_MAX else 0
        self.state.session = max(before + 1, time.time_ns() // 1_000_000)
        self._save_state()
        return self.state.session

    def _take_ports(self, locks: ExitStack) -> None:
        """Takes the port range of this agent: the range of the last time first, as runs of then may have some of it."""
        settings, before = self.settings, self.state.port_first
        first, last, moved = settings.port_first, settings.port_last, settings.ports_moved
        try:
            ports = take_ports(first, last, moved, before, self.runs.ports(), settings.port_locks)
        except PortsTaken as taken:
            raise AgentFault(str(taken)) from taken
        locks.enter_context(ports)
        if ports.first != first:
            self._say(f"{first}-{last} is taken by another agent of this machine; using {ports.first}-{ports.last}")
        self._ports = ports.first, ports.last
        self.state.port_first = ports.first

    @contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Whatever the system refuses within, as where no file is left to open, is told; it is tried again later."""
        try:
            yield
        except OSError as error:
            self._note(f"can't look at {what}: {error.strerror or error}. Tries again until it can.")

    def _note(self, trouble: str) -> None:
        """Says a trouble that was not said since there was contact."""
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            self._say(trouble)

    def _save_state(self) -> None:
        save(self._path, self.state)

    async def _connect(self, session: int) -> None:
        hello = self._hello(session, self.runs.inventory())
        self._load_news = LoadNews(kernel.since_boot_ms())
        response = await self._client.post(self._at("sessions"), content=msgspec.json.encode(hello))
        if response.status_code == httpx2.codes.CONFLICT:
            newer = msgspec.json.decode(response.content, type=known(SessionRefused)).session
            if newer < SESSION_MAX:
                self.state.session = max(self.state.session, newer)
        self._check(response)
        self._offer.told(hello)
        if self.state.cell is None or not self.state.log:
            welcome = msgspec.json.decode(response.content, type=known(Welcome))
            self.state.cell, self.state.log = welcome.cell, welcome.log
            self._save_state()

    def _hello(self, session: int, runs: list[RunState]) -> Hello:
        return self._offer.hello(session, self._ports, runs, self.state, self._machine)

    def _gateway(self) -> str:
        urls = self.settings.urls
        return urls[self._at_gateway % len(urls)].rstrip("/")

    def _at(self, path: str) -> str:
        return f"{self._gateway()}/v1/agents/{self.settings.host_id}/{path}"

    def _check(self, response: httpx2.Response) -> None:
        if response.status_code != httpx2.codes.OK:
            raise SessionLost(_error_text(response))
        self.runs.contact()

    async def _report(self, session: int) -> None:
        """Tells what is not acknowledged, at once when something changes, and that this agent lives."""
        number, reported_changes, due_s = 0, 0, 0.0
        reported_images: list[str] | None = None
        while True:
            self._changed.clear()
            volumes, changes = self.runs.volumes, self.runs.volumes.changes
            batch = ReportBatch(session, number + 1, self.runs.unreported()[:REPORTS_MAX])
            batch.volumes = volumes.all() if changes != reported_changes else None
            batch.execs = self._execs.untold[:EXEC_ENDS_MAX]
            batch.images = self._pulls.untold[:IMAGES_MAX]
            images = self._pulls.held()
            batch.held_images = images if images != reported_images else None
            now_ms, load = kernel.since_boot_ms(), self._load
            batch.load = load if load is not None and self._load_news.due(load, now_ms) else None
            batch.offer = self._hello(session, []) if self._offer.is_news() else None
            news = bool(batch.runs or batch.execs or batch.images or batch.load or batch.offer)
            news = news or changes != reported_changes
            batch.conditions = self._checks.conditions.untold()
            news = news or bool(batch.conditions) or batch.held_images is not None
            if news or time.monotonic() >= due_s:
                number, due_s = batch.number, time.monotonic() + HEARTBEAT_MS / 1000
                self._checks.conditions.sent(batch.conditions)
                began_s = time.time()
                response = await self._client.post(self._at("reports"), content=msgspec.json.encode(batch))
                self._check(response)
                self._checks.answered(response.headers.get("date", ""), began_s)
                if msgspec.json.decode(response.content, type=known(Acknowledged)).acknowledged >= number:
                    self.runs.acknowledged(batch.runs)
                    self._execs.told(batch.execs)
                    self._pulls.told(batch.images)
                    self._checks.told(batch.runs, batch.conditions)
                    self._offer.told(batch.offer)
                    if batch.load is not None:
                        self._load_news.told(batch.load, now_ms)
                    reported_changes, reported_images = changes, images
            if len(batch.runs) < REPORTS_MAX:
                # not wait_for: before Python 3.12 that may swallow a cancellation
                with suppress(TimeoutError):
                    async with asyncio.timeout(due_s - time.monotonic()):
                        await self._changed.wait()

    async def _bring_secrets(self, session: int) -> None:
        async def ask(question: bytes) -> bytes:
            response = await self._client.post(self._at("secrets"), content=question)
            self._check(response)
            return response.content

        def started() -> None:
            self._changed.set()
            self._news.set()

        assert self.state.cell is not None
        await self._secrets.follow((self.state.cell, self.settings.host_id, session), ask, started)

    async def _follow(self, session: int) -> None:
        params = {"session": session}
        async with self._client.stream("GET", self._at("orders"), params=params) as response:
            self._check(response)
            lines = Lines()
            async for chunk in response.aiter_bytes():
                for text in lines.feed(chunk):
                    self.runs.contact()
                    await self._take(read(text))
        raise SessionLost("the stream of orders ended")

    async def _take(self, reading: ParsedOrders) -> None:
        for fault in reading.unnamed:
            self._note(f"an order was ignored, which this agent can't read: {fault}")
        if isinstance(reading.line, OrdersLine):
            await self._carry_out(reading.line, reading)
        elif isinstance(reading.line, LogLine):
            self._output_waits.answer(reading.line)
        elif isinstance(reading.line, ExecLine):
            self._execs.open(reading.line)
        elif isinstance(reading.line, UsageLine):
            usage = msgspec.json.encode(self._meter.usage(reading.line.job_id))
            await self._client.post(self._at(f"usage/{reading.line.request}"), content=usage)
        elif isinstance(reading.line, ImagesLine):
            for image in reading.line.images:
                self._pulls.fetch(image)
        elif isinstance(reading.line, RemoveVolumesLine):
            for volume in reading.line.volumes:
                self.runs.volumes.remove(volume)
            self._changed.set()

    async def _carry_out(self, orders: OrdersLine, reading: ParsedOrders = READ) -> None:
        """Does what orders ask, unless their position was reached before. What can't be read is refused for its run."""
        if orders.position < self.state.position or (orders.position == self.state.position and not orders.whole):
            return
        if orders.position > self.state.position:
            self.state.position = orders.position
            # for an agent that is killed; after a crash of the machine no run is left that older orders could end
            note(self._path, self.state)
        if orders.whole:
            self._secrets.forget_all()
        if orders.whole and not reading.unnamed:  # else a run that is there may be one that can't be told
            ordered = {RunKey(orders.jobs[item.job].job_id, item.instance, item.run) for item in orders.items}
            self.runs.keep_only(ordered | {each.key for each in reading.refused})
        for refusal in reading.refused:
            self._note(f"run {refusal.key.run} of {refusal.key.job_id}/{refusal.key.instance}: {refusal.reason}")
            self.runs.refuse(*refusal)
        for first in range(0, len(orders.items), TURN_ITEMS):
            self._do(orders.jobs, orders.items[first : first + TURN_ITEMS])
            self._news.set()  # not all may be in the hands of keepers yet
            await asyncio.sleep(0)  # starting a thousand runs must not keep reports waiting
        over = [item for item in orders.items if item.kind == OrderKind.FORGET]
        keys = [RunKey(orders.jobs[item.job].job_id, item.instance, item.run) for item in over]
        self._secrets.forget(*keys)
        self.runs.forget(*keys)
        self._changed.set()

    def _do(self, jobs: list[JobOrder], items: list[RunOrder]) -> None:
        """Starts, stops and kills, in the order in which that is asked."""
        launches: dict[RunKey, Launch] = {}
        for item in items:
            job = jobs[item.job]
            key = RunKey(job.job_id, item.instance, item.run)
            if item.kind == OrderKind.START and key not in self.runs and (job.secrets or job.run_token):
                self._secrets.want(key, partial(self._start, key, job, item), partial(self.runs.refuse, key))
            elif item.kind == OrderKind.START and key not in self.runs:
                try:
                    launches[key] = self._launch(job, item)
                except ValueError as error:
                    self.runs.refuse(key, str(error))
            elif item.kind in (OrderKind.STOP, OrderKind.KILL):
                self._pulls.start_all(launches)
                launches = {}
                self._secrets.forget(key)
                (self.runs.stop if item.kind == OrderKind.STOP else self.runs.kill)(key)
        self._pulls.start_all(launches)

    def _tell_all(self) -> None:
        """A run has changed, and may wait for a keeper."""
        self._changed.set()
        self._news.set()

    def _start(self, key: RunKey, job: JobOrder, item: RunOrder) -> None:
        """Starts a run whose secrets are there."""
        try:
            how = self._launch(job, item, str(self._secrets.folder_of(key)))
        except ValueError as error:
            self.runs.refuse(key, str(error))
        else:
            self._pulls.start_all({key: how})

    def _launch(self, job: JobOrder, item: RunOrder, secrets: str = "") -> Launch:
        """Raises `ValueError` where the run can't start here."""
        contained = job.isolation is not None and job.isolation.level == "container"
        hardware = self._hardware.of_run(item, contained)
        return launch(job, item, self.settings.host_id, self._users.of(job.job_id), secrets, hardware)

    async def _send_output(self, ask: LogLine, page: LogPage | None) -> None:
        content = page.data if page is not None else b""
        await self._client.post(self._at(f"logs/{ask.request}"), content=content, headers=page_headers(page))


def _error_text(response: httpx2.Response) -> str:
    """Why a gateway refuses, in its words where it has any."""
    with suppress(msgspec.DecodeError, httpx2.ResponseNotRead, KeyError, TypeError):
        return str(msgspec.json.decode(response.content)["title"])
    return f"it answered {response.status_code}"


def _until_cancelled(running: Coroutine[Any, Any, None]) -> None:
    with suppress(asyncio.CancelledError):
        asyncio.run(running)
