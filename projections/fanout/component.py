"""Publishes the decisions of one cell: reads the rounds of all machines from the log, and unfolds each into messages.

`paceline fanout` runs one for each cell that its group gives to it, as a processor does its machine (decision 066). It
starts where its own topics end, so neither the group's positions nor the files here decide what is published.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import Gauge

from events.log.kafka.kafka_log import KafkaLog
from events.log.port import AppendUnknown, Log, LogError, LogRecord, LogUnavailable, Reader, gap
from events.topics import FANOUT, MACHINES, rounds_of
from projections.fanout.follower import Follower
from projections.fanout.publisher import Publisher

RECORDS = 100
"""Records read at once, at most."""
STEP_S = 0.2
"""A step publishes no further round after this time, so that a cell that is given away stops soon."""
LOOK_S = 1.0
"""Seconds between two questions for the ends of the topics."""
SAVE_S = 10.0
"""Seconds between two writes of the files that save reading the rounds from their start."""
RETRY_S = 1.0
PACE = {"fetch.min.bytes": 65_536, "fetch.wait.max.ms": 100}
"""Many rounds at once cost this process, and the broker, much less than one by one."""
LAG = Gauge(
    "paceline_fanout_lag_records",
    "Records of a machine not published yet; +Inf: publishing has stopped.",
    ("cell", "machine"),
)


class Progress(NamedTuple):
    """The progress of a machine: the offset up to which all is published, and the end of its topic."""

    position: int
    end: int


class FanoutCell:
    """The fan-out of one cell; see `paceline.services.cell_thread.CellComponent`. While Kafka is away it waits; where
    nobody knows what was written it finds that in the log again.

    `history` is the log with its archive, for a start without files; `folder` holds the files; `say` takes a line;
    `reached` holds, per topic, the position of followers that were given up, and is kept by the process beyond this
    cell: a log that ends before has lost records, though it was away or without topics when that could be seen first.
    """

    def __init__(
        self, log: KafkaLog, history: Log, folder: Path, say: Callable[[str], None], reached: dict[str, int]
    ) -> None:
        self._log = log
        self._history = history
        self._folder = folder
        self._say = say
        self._cut = threading.Event()
        self._publisher = Publisher(log.link, log.cell, self._cut)
        self._followers: dict[str, Follower] = {}
        """By the topic that each follows."""
        self._reader: Reader | None = None
        self._records: deque[LogRecord] = deque()
        """Read, and not published yet."""
        self._machine = ""
        """The machine whose rounds it deals with."""
        self._reached = reached
        self._progress: dict[str, Progress] = {}
        self._waits_for = ""
        self._look_at = 0.0
        self._save_at = time.monotonic() + SAVE_S

    def step(self) -> bool:
        """Implements `CellComponent.step`."""
        with self._marking_a_stop():
            try:
                busy = self._publish(self._reader or self._begin())
                if time.monotonic() >= self._look_at:
                    self._look()
            except (AppendUnknown, LogUnavailable) as error:
                self._forget()
                self._wait_for(str(error))
                return False
        self._waits_for = ""
        return busy

    def wait(self, seconds: float) -> None:
        """Implements `CellComponent.wait`."""
        if self._reader is None:
            self._cut.wait(RETRY_S)
        elif not self._records:
            with self._marking_a_stop():
                self._records.extend(self._reader.poll(RECORDS, seconds))

    def close(self) -> None:
        """Implements `CellComponent.close`."""
        with closing(self._log):
            try:
                if not self._log.link.trouble:
                    self._save()
            except LogError:
                pass  # then more is read again at the next start
            finally:
                self._forget()

    def cut(self) -> None:
        """Implements `CellComponent.cut`."""
        self._cut.set()
        self._log.close()

    def positions(self) -> dict[str, int]:
        """Implements `CellComponent.positions`: what is published, for what isn't may still be needed."""
        return {topic: follower.position for topic, follower in list(self._followers.items())}

    def recovers(self) -> bool:
        """Implements `CellComponent.recovers`."""
        return self._reader is None

    def status(self) -> dict[str, Any]:
        """Implements `CellComponent.status`."""
        trouble, progress = self._log.link.trouble or self._waits_for, self._progress
        return {
            "ready": not trouble and progress.keys() == set(MACHINES),
            **({"trouble": trouble} if trouble else {}),
            **self._current(),
            "machines": {machine: each._asdict() for machine, each in progress.items()},
        }

    def _current(self) -> dict[str, Any]:
        """The machine that it deals with, and the last round of it that was read."""
        follower = self._followers.get(rounds_of(self._machine)) if self._machine else None
        chain = {"epoch": follower.chain.epoch, "round": follower.chain.round} if follower else {}
        return {"machine": self._machine, **chain} if self._machine else {}

    def _begin(self) -> Reader:
        """Finds in the log what is published already, and reads on from there."""
        self._publisher.begin(self._log.ends([topic.name for topic in FANOUT]))
        for machine in MACHINES:
            self._machine = machine
            path, topic = self._folder / f"{machine}-{self._log.cell}.msgpack", rounds_of(machine)
            follower = Follower(self._history, machine, self._publisher.publish, path, self._reached.get(topic, 0))
            self._followers[topic] = follower
        self._machine = ""
        self._reader = self._history.reader(self.positions())
        return self._reader

    def _publish(self, reader: Reader) -> bool:
        """Publishes what comes next; whether there may be more at once."""
        if not self._records:
            self._records.extend(reader.poll(RECORDS, 0))
        busy, until = bool(self._records), time.monotonic() + STEP_S
        while self._records and time.monotonic() < until:
            follower = self._followers[self._records[0].topic]
            self._machine = follower.machine
            follower.take(self._records.popleft())
        if not self._records:
            for topic, follower in self._followers.items():
                self._machine = follower.machine
                follower.reach(reader.position(topic))
        self._machine = ""
        return busy

    def _look(self) -> None:
        """Compares what is published with the ends of the topics."""
        ends, progress = self._log.ends(self._followers), {}
        for topic, follower in self._followers.items():
            self._machine, end = follower.machine, ends[topic]
            if follower.position > end:
                raise gap(topic, follower.position, 0, end)
            progress[follower.machine] = Progress(follower.position, end)
            LAG.labels(str(self._log.cell), follower.machine).set(end - follower.position)
        self._machine, self._progress = "", progress
        now = time.monotonic()
        self._look_at = now + LOOK_S
        if now >= self._save_at:
            self._save_at = now + SAVE_S
            self._save()

    def _save(self) -> None:
        for follower in self._followers.values():
            self._machine = follower.machine
            follower.save()
        self._machine = ""

    def _forget(self) -> None:
        """It isn't known any more where the followers stand."""
        self._publisher.close()
        if self._reader is not None:
            self._reader.close()
        for topic, position in self.positions().items():
            self._reached[topic] = max(position, self._reached.get(topic, 0))
        self._reader, self._progress, self._machine = None, {}, ""
        self._followers.clear()
        self._records.clear()

    def _wait_for(self, why: str) -> None:
        if why != self._waits_for and not self._log.link.trouble and not self._cut.is_set():
            self._say(why)  # what is of Kafka as a whole was said
        self._waits_for = why

    @contextmanager
    def _marking_a_stop(self) -> Iterator[None]:
        """An error that stops the cell shows in its lag, for the alarm."""
        try:
            yield
        except LogUnavailable:
            raise
        except Exception:
            for machine in MACHINES:
                LAG.labels(str(self._log.cell), machine).set(inf)
            raise
