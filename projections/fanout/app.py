"""`paceline fanout`: an ordinary faust App that reads the rounds of all machines and publishes what they decided.

faust spreads the cells over processes and brings the records; it may lose or repeat some when the group changes or a
process dies. So what it brings is only taken where it is next, and the log is read here where something is missing:
when a cell comes, on a hole, and when nothing comes though there is something. The group is told how far the cells have
published, not what faust has handed over.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Set
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, cast

import faust
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.threads import WorkerThread

from events.log.kafka.membership import Wait
from events.log.port import LogFault, LogRecord
from events.topics import FANOUT_GROUP, MACHINES, RECORD_BYTES_MAX, rounds_of
from projections.fanout.cells import Cell
from projections.fanout.group import Group, join_again, remedy
from projections.fanout.security import credentials
from projections.health import Health

LOOK_S = 1.0
STOP_S = 4.0
"""So long faust may take to end; while Kafka is away it would for ever try to say goodbye."""
REQUEST_S = 90.0
"""So long a broker may take for an answer; faust wants it to be no less than the session."""
NEVER_S = 1e9
END_S = 3.0
"""So long cells that are in the middle of something may take after that."""
PACE = (64 * 1024, 100)
"""Bytes and milliseconds: many rounds at once cost this process, and the broker, much less than one by one."""
TOPICS = {rounds_of(machine): machine for machine in MACHINES}
Serve = Callable[[faust.App, Callable[[], Health]], None]


def run_fanout(
    bootstrap: str,
    data: Path,
    instance: str,
    session_ms: int,
    options: Mapping[str, str],
    serve: Serve,
    say: Callable[..., None],
    archive: str = "",
) -> str:
    """Publishes until SIGTERM or SIGINT, for the cells that the group gives to this process; returns why it can't go
    on, empty where it was told to end. The topics must be there.

    `instance` names the process over restarts; `session_ms`: when it has died, another has its cells after so long;
    `options` are librdkafka's (security), `serve` has an App serve pages about its health, `say` takes sentences about
    a cell or, with None, about the process, and by name what else is known; `archive`: where the beginning of the log
    is that it no longer has, empty: nowhere.
    """
    folder = data / "fanout"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        app = make_app(bootstrap, folder, instance, session_ms / 1000, options)
    except (LogFault, OSError) as error:
        return str(error)
    # What Kafka's absence makes these say, again and again, is said once by each cell.
    for name in ("aiokafka", "faust", "mode"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    make_cell = partial(Cell, bootstrap, folder=folder, options=options, say=say, archive=archive)
    return Fanout(app, make_cell, Group(Wait(bootstrap, FANOUT_GROUP, partial(say, None)))).run(serve)


class FanoutApp(faust.App):
    """An App that tells when it begins to end, before it waits for anything, and asks how far cells have published."""

    ending: Callable[[], None]
    published: Callable[[], dict[TP, int]]

    async def _wait_for_table_recovery_completed(self) -> bool:
        """There are no tables; faust would wait for its first cells, and begin to look at the group only then."""
        return False

    async def on_stop(self) -> None:
        """Implements faust's method."""
        self.ending()
        await super().on_stop()


class Fanout:
    """The agents of an App, and the cells that they feed."""

    def __init__(self, app: FanoutApp, make_cell: Callable[[int], Cell], group: Group) -> None:
        self.app = app
        self._group = group
        self._make_cell = make_cell
        self._cells: dict[int, Cell] = {}
        self._leaving: dict[int, Future[None]] = {}
        self._looked = False
        self._stopping = False
        self._fault = ""
        self._end: Callable[[], None] = lambda: None
        self._ending: asyncio.Future[None] | None = None
        for topic, machine in TOPICS.items():
            channel = app.topic(topic, key_type=bytes, value_type=bytes, value_serializer="raw", allow_empty=True)
            app.agent(channel, name=f"{FANOUT_GROUP}.{machine}", concurrency=1)(partial(self._follow, machine))
        app.timer(LOOK_S)(self._look)
        app.ending, app.published = self._stop, self._published
        app.on_rebalance_complete.connect(self._look, weak=False)

    def run(self, serve: Serve) -> str:
        """Runs until SIGTERM, SIGINT or a fault of all its cells; returns the sentence of the fault, if any."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        worker = faust.Worker(self.app, quiet=True, override_logging=False, redirect_stdouts=False, loop=loop)
        worker.spinner = None  # it writes to the terminal

        def stop() -> None:
            self._ending = asyncio.ensure_future(worker.stop())  # the loop alone would not keep it

        self._end = stop
        serve(self.app, self._health)
        try:
            worker.execute_from_commandline()
        except SystemExit as end:
            if worker._signal_stop_time is None and not self._fault:  # nobody has told it to end
                self._fault = f"The fan-out has failed: {worker.crash_reason or end.__context__ or end!r}."
        except asyncio.CancelledError:
            if not self._stopping:  # who is cancelled at the end hasn't crashed, though faust may say so
                self._fault = "The fan-out has failed: its agents were cancelled."
        finally:
            self._leave(set(self._cells))
            wait(self._leaving.values(), END_S)
        return self._fault

    async def _follow(self, machine: str, stream: Any) -> None:
        """The agent of one machine: each event is one record of its topic."""
        events: AsyncIterator[Any] = stream.events()
        async for event in events:
            message = event.message
            at_ms = int((message.timestamp or 0) * 1000)
            cell = self._cells.get(message.partition)  # one that is only about to be ours reads for itself
            if cell is not None:
                record = LogRecord(message.topic, message.offset, at_ms, message.key or b"", event.value or b"")
                await cell.take(machine, record)

    def _published(self) -> dict[TP, int]:
        cells = list(self._cells.values())
        return {TP(rounds_of(machine), cell.number): at for cell in cells for machine, at in cell.published().items()}

    async def _look(self, *_: Any, **__: Any) -> None:
        """Called once a second, and when the group rebalances: cells that come and go, and what else `Cell.look`
        does.
        """
        if self._stopping:
            return
        ours = {each.partition for each in self.app.consumer.assignment() if each.topic in TOPICS}
        if not self.app.rebalancing:  # until then most stay: they wait, and forget nothing
            self._leave(self._cells.keys() - ours)
        self._leaving = {number: waits for number, waits in self._leaving.items() if not waits.done()}
        for number in sorted(ours - self._leaving.keys()):
            if number not in self._cells:
                self._cells[number] = self._make_cell(number)
            self._cells[number].look()
        try:
            self._group.look(self.app.consumer, bool(self._cells), self.app.rebalancing)
        except Exception as error:  # whatever it is: nobody follows the group any more
            self._fault = f"The fan-out doesn't follow its group any more: {error}. {remedy(error)}"
            self._end()
        self._looked = self._looked or self._group.joined
        failures = [cell.failures.current for cell in self._cells.values()]
        stopped = [each for each in failures if each is not None and not each.cause.passes]
        if stopped and len(stopped) == len(ours):  # one of ours that still leaves comes back, and may be sound
            self._fault = stopped[0].text
            self._end()

    def _leave(self, numbers: Set[int]) -> None:
        for number in numbers:
            self._leaving[number] = self._cells.pop(number).end()

    def _stop(self) -> None:
        """Faust begins to end: so do the cells."""
        self._stopping = True
        self._group.leave(self.app.consumer)
        self._leave(set(self._cells))
        asyncio.get_running_loop().call_later(STOP_S, _enough)

    def _health(self) -> Health:
        """A member of the group that waits for cells which others have is ready: it stands by."""
        cells = {number: cell.status() for number, cell in sorted(self._cells.items())}
        ready = not self._stopping and self._group.joined and all(each["ready"] for each in cells.values())
        return Health(self._looked, ready, {"cells": cells})


def _enough() -> None:
    """Ends whatever the loop waits for; again, for faust's own ending waits once more."""
    asyncio.get_running_loop().call_later(0.1, _enough)
    raise SystemExit(0)


class _Daemon(WorkerThread):
    """The process may end without it."""

    def __init__(self, service: Any, **options: Any) -> None:
        super().__init__(service, **options)
        self.daemon = True


def pass_over(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles the failure of a task that nobody awaits: a commit that is on its way when the process ends may fail, as
    any may. Any other failure is logged.
    """
    if not isinstance(context.get("exception"), KafkaError):
        loop.default_exception_handler(context)


class _CommittedThread(driver.AIOKafkaConsumerThread):
    """faust reads uncommitted records where it doesn't write transactions; the log's readers read committed ones."""

    Worker = _Daemon

    def close(self) -> None:
        """Called by the app when it ends while cells are shared: from its own loop, where the group can't be left. The
        thread leaves it when it stops.
        """

    async def on_start(self) -> None:
        """Implements faust's method."""
        asyncio.get_running_loop().set_exception_handler(pass_over)
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        coordinator._push_error_to_user = partial(join_again, coordinator)

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_min_bytes, consumer._fetch_max_wait_ms = PACE
        return consumer

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """One that fails ends faust's own thread; here it is left out, for it only saves reading more at a start."""
        commits = {driver.ensure_aiokafka_TP(tp): OffsetAndMetadata(at, "") for tp, at in offsets.items()}
        try:
            await self._ensure_consumer().commit(commits)
        except KafkaError:
            return False
        return True


class _CommittedConsumer(driver.Consumer):
    """Tells the group how far the cells have published: a cell that is about to start, or has failed, passes over what
    it is handed, and the log may be cut up to what was told.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._told: dict[TP, int] = {}

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Overrides faust's method, which is called every few seconds."""
        self._committed_offset.update(self._filter_committable_offsets(list(self._acked)))  # it forgets what it kept
        published = cast(FanoutApp, self.app).published()
        new = {tp: at for tp, at in published.items() if self._told.get(tp) != at}
        # A cell that leaves is among the published until this process has looked at what it is given.
        ours = {tp: new[tp] for tp in new.keys() & self.assignment()} if new else {}
        if not ours or not await self._commit(ours):
            return False
        self._told.update(ours)
        return True

    async def perform_seek(self) -> None:
        """Aiokafka goes on from what was committed by itself, and what is missing a cell reads. Faust asks for each
        position once more before it goes on, and never goes on where its coordinator doesn't answer in time.
        """

    async def verify_all_partitions_active(self) -> None:
        """Faust only logs what it finds, and fails where the log was cut beyond its position; `Cell.look` does this."""

    def _new_consumer_thread(self) -> _CommittedThread:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)


class _Transport(driver.Transport):
    Consumer = _CommittedConsumer


def make_app(bootstrap: str, folder: Path, instance: str, session_s: float, options: Mapping[str, str]) -> FanoutApp:
    """The App without its agents. Raises `LogFault` where an option is wrong."""
    app = FanoutApp(
        FANOUT_GROUP,
        broker=[f"kafka://{each.strip()}" for each in bootstrap.split(",")],
        broker_credentials=credentials(options),
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 3,
        broker_request_timeout=max(REQUEST_S, session_s),
        broker_max_poll_interval=NEVER_S,  # one without cells reads nothing, and would be out of the group for good
        consumer_group_instance_id=instance,
        consumer_max_fetch_size=RECORD_BYTES_MAX,
        # Where the group has no position, all up to now is read here, as for every cell that comes.
        consumer_auto_offset_reset="latest",
        # A cell that waits, for Kafka or for a long log, would hold up the sharing of all until the group gives us up.
        stream_wait_empty=False,
        table_standby_replicas=1,  # with none faust would take an assignor that spreads a cell's topics
        topic_disable_leader=True,
        topic_allow_declare=False,
        agent_supervisor="mode.CrashingSupervisor",
        store="memory://",
        datadir=str(folder),
        web_enabled=True,
        web_tables_enabled=False,
        web_bind="127.0.0.1",
    )
    app.transport = _Transport(app.conf.broker_consumer, app)
    return app
