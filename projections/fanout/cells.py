"""The cells that this process publishes: each with a thread of its own, and a follower for each machine."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import Gauge

from events.log.archived import ArchivedLog
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import AppendUnknown, Log, LogError, LogRecord, LogUnavailable, gap
from events.process.cell_failures import Failures
from events.topics import FANOUT, MACHINES, rounds_of
from projections.fanout.follower import Follower
from projections.fanout.publisher import Publisher

STALLED_LOOKS = 2
"""So many looks nothing came although there is something: then it is read here, whatever faust is doing."""
SAVE_LOOKS = 10
"""So often what is kept is written: every tenth look."""
RETRY_S = 1.0
CUT_S = 3.0
"""So long a cell that ends may wait for Kafka."""
LAG = Gauge(
    "paceline_fanout_lag_records",
    "Records of a machine not published yet; +Inf: publishing has stopped.",
    ("cell", "machine"),
)


class Progress(NamedTuple):
    """The progress of a machine: the offset up to which all is published, and the end of its topic."""

    position: int
    end: int


class Cell:
    """One cell. What it does it does in its own thread, so a slow cell, or one that fails, holds up no other. While
    Kafka is away it waits; after any error it finds again in the log what is published.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: int,
        folder: Path,
        options: Mapping[str, str],
        say: Callable[..., None],
        archive: str = "",
    ) -> None:
        self.number = cell
        self.failures = Failures(cell, "fanout")
        self.progress: dict[str, Progress] = {}
        self._waits_for = ""
        self._folder = folder
        self._say = say
        self._log = KafkaLog(bootstrap, cell, options, on_trouble=lambda text: say(cell, text))
        # a follower without its file reads the rounds from their start
        self._history: Log = ArchivedLog(self._log, archive) if archive else self._log
        self._ending = threading.Event()
        self._publisher = Publisher(self._log.link, cell, self._ending)
        self._followers: dict[str, Follower] = {}
        self._machine = ""
        """The machine whose rounds it deals with."""
        self._stalled: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        """The positions of followers that were given up: a log that ends before has lost records."""
        self._looks = 0
        self._looking = threading.Lock()
        self._thread = ThreadPoolExecutor(1, f"cell-{cell}")

    def status(self) -> dict[str, Any]:
        """Its state, for the health endpoints."""
        if failed := self.failures.body():
            return {"ready": False, **failed}
        trouble = self._log.link.trouble or self._waits_for
        machines = {machine: status._asdict() for machine, status in self.progress.items()}
        ready = not trouble and machines.keys() == set(MACHINES)
        return {"ready": ready, **({"trouble": trouble} if trouble else {}), "machines": machines}

    def published(self) -> dict[str, int]:
        """Before which offset everything of a machine is published; empty where it has failed."""
        followers = [] if self.failures.current else list(self._followers.items())
        return {machine: each.position for machine, each in followers}

    async def take(self, machine: str, record: LogRecord) -> None:
        """Publishes a record, if it is a round and not published yet; returns when that is done, or given up."""
        if not self._ending.is_set():
            await asyncio.wrap_future(self._thread.submit(self._try, lambda: self._follower(machine).take(record)))

    def look(self) -> None:
        """Starts what isn't followed yet, and reads what should have come and didn't; one look at a time."""
        if self._looking.acquire(blocking=False):
            self._thread.submit(self._try, self._look, True).add_done_callback(lambda _: self._looking.release())

    def end(self) -> "Future[None]":
        """Stops after the message that is being sent; done when everything is given back. What waits for Kafka then
        is cut off after a while.
        """
        self._ending.set()
        cutting = threading.Timer(CUT_S, self._log.close)
        cutting.daemon = True
        cutting.start()
        done = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        return done

    def _try(self, what: Callable[[], None], again: bool = False) -> None:
        """Until it is done, the cell ends, or it fails. One that has failed does only what is to be tried `again`, once
        that is due.
        """
        while not self._ending.is_set():
            if self.failures.current is not None and (not again or self.failures.pause_s() != 0):
                return
            try:
                what()
                self._waits_for = ""
                if self.failures.recovered():
                    self._say(self.number, "works again")
                return
            except (AppendUnknown, LogUnavailable) as error:
                self._forget()
                self._wait_for(str(error))
            except Exception as error:  # whatever it is: this cell stops, the others go on
                fields = self._known()
                self._forget()
                for machine in MACHINES:
                    LAG.labels(str(self.number), machine).set(inf)
                if self.failures.failed(error):
                    self._say(self.number, f"stopped: {self.failures.text}", **fields)
                return

    def _known(self) -> dict[str, Any]:
        """Fields of log lines about it: the machine it deals with, and the last round that was read."""
        follower = self._followers.get(self._machine)
        status = {} if follower is None else {"epoch": follower.chain.epoch, "round": follower.chain.round}
        return {"machine": self._machine, **status} if self._machine else {}

    def _wait_for(self, why: str) -> None:
        if self._ending.is_set():
            return
        if why != self._waits_for and not self._log.link.trouble:  # what is of Kafka as a whole was said
            self._say(self.number, why)
        self._waits_for = why
        self._ending.wait(RETRY_S)

    def _resume(self) -> None:
        if self._ending.is_set():
            raise LogUnavailable(f"The fan-out of cell {self.number} ends.")

    def _look(self) -> None:
        for machine in MACHINES:
            self._follower(machine)
        self._machine = ""
        ends = self._log.ends([rounds_of(machine) for machine in MACHINES])
        for machine in MACHINES:
            self._check(machine, ends[rounds_of(machine)])
        self._looks += 1
        if self._looks % SAVE_LOOKS == 0:
            self._save()

    def _check(self, machine: str, end: int) -> None:
        self._machine = machine
        follower, before = self._followers[machine], self.progress.get(machine)
        position, reached = follower.position, max(follower.position, self._reached.get(machine, 0))
        if reached > end:
            raise gap(follower.topic, reached, 0, end)
        stalls = position < end and before is not None and before.position == position
        self._stalled[machine] = self._stalled.get(machine, 0) + 1 if stalls else 0
        if self._stalled[machine] >= STALLED_LOOKS:
            follower.catch_up()
        self.progress[machine] = Progress(follower.position, end)
        LAG.labels(str(self.number), machine).set(max(0, end - follower.position))

    def _follower(self, machine: str) -> Follower:
        self._machine = machine
        follower = self._followers.get(machine)
        if follower is None:
            if not self._followers:
                self._publisher.begin(self._log.ends([topic.name for topic in FANOUT]))
            path = self._folder / f"{machine}-{self.number}.msgpack"
            follower = Follower(self._history, machine, self._publisher.publish, path, self._resume)
            follower.start()
            self._followers[machine] = follower
        return follower

    def _save(self) -> None:
        for machine, follower in self._followers.items():
            self._machine = machine
            follower.save()

    def _forget(self) -> None:
        """After an error: where the followers stand is not known any more."""
        self._publisher.close()
        for machine, follower in self._followers.items():
            self._reached[machine] = max(follower.position, self._reached.get(machine, 0))
        self._followers.clear()
        self.progress.clear()

    def _close(self) -> None:
        try:
            if not self._log.link.trouble:
                self._save()
        except LogError:
            pass  # then more is read again at the next start
        finally:
            with closing(self._log):
                self._forget()
