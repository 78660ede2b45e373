"""`paceline processor MACHINE`: one machine, for the cells that its group gives to this process."""

import time
from contextlib import closing
from typing import Any

from events.log.kafka.kafka_log import KafkaLog
from events.log.port import LogUnavailable
from events.topics import rounds_of
from paceline.services.faust_app import run_cells
from paceline.services.settings import Settings
from paceline.services.startup import Start, folder_of
from processors.cell_machines import machines
from processors.runtime.bootstrap import begin
from processors.runtime.driver import Driver
from processors.runtime.in_process import Processor
from processors.runtime.snapshotter import Snapshotter
from processors.runtime.store import RocksStore


class MachinePart:
    """A machine of one cell; see `cells.Part`. Without a store it begins from a snapshot where there is one, and keeps
    snapshots while it works, if a place for them is set.
    """

    def __init__(self, settings: Settings, start: Start, cell: int) -> None:
        self._settings = settings
        self._start = start
        self._make = machines(cell)[start.kind]
        self._folder = folder_of(settings, cell) / "store" / start.kind
        self._cell = cell
        self._processor: Processor | None = None
        self._log = KafkaLog(settings.kafka, cell, settings.kafka_options, on_trouble=self._say)
        self._store: RocksStore | None = None
        self._snapshotter: Snapshotter | None = None
        if settings.snapshots:
            self._snapshotter = Snapshotter(settings.snapshots, cell, self._make(), settings.snapshot_every, self._say)
        self._reported_epoch = 0
        self._waiting_for = ""

    def step(self) -> bool:
        """Implements `Part.step`."""
        if self._processor is None:
            self._processor = self._begin()
            return self._processor is not None
        busy = self._processor.step()
        driver = self._processor.driver
        if driver is not None and driver.epoch:
            if driver.epoch != self._reported_epoch:
                self._reported_epoch = driver.epoch
                self._say("decides from here on")
            if self._snapshotter is not None and self._store is not None:
                self._snapshotter.check(self._store, driver.fold.own)
        return busy

    def wait(self, seconds: float) -> None:
        """Implements `Part.wait`."""
        if self._processor is not None:
            self._processor.wait(seconds)
        else:
            time.sleep(seconds)

    def close(self) -> None:
        """Implements `Part.close`."""
        with closing(self._log):
            if self._processor is not None:
                self._processor.close()

    def cut(self) -> None:
        """Implements `Part.cut`."""
        self._log.close()

    def positions(self) -> dict[str, int]:
        """Implements `Part.positions`."""
        driver = self._driver()
        return driver.positions() if driver is not None and driver.epoch else {}

    def recovers(self) -> bool:
        """Implements `Part.recovers`."""
        return self._processor is None or not self._processor.decides

    def status(self) -> dict[str, Any]:
        """Implements `Part.standing`."""
        driver = self._driver()
        notice = self._log.link.trouble or self._waiting_for or (self._processor.trouble if self._processor else "")
        trouble = {"trouble": notice} if notice else {}
        if driver is None or not driver.epoch:
            return {"ready": False, **trouble}
        own = driver.fold.own
        return {
            "ready": not trouble,
            **trouble,
            "epoch": driver.epoch,
            "round": own.round,
            "hash": driver.fold.state.hash.hex(),
            **({"snapshot": self._snapshotter.round} if self._snapshotter is not None else {}),
        }

    def _begin(self) -> Processor | None:
        """Makes the processor once the store is there, or what it is made from; None: it must wait for something."""
        settings = self._settings
        try:
            log, notice = begin(self._log, self._make(), self._folder, settings.snapshots, settings.archive)
        except LogUnavailable as away:
            if str(away) != self._waiting_for and not self._log.link.trouble:  # what is of Kafka as a whole was said
                self._say(str(away))
            self._waiting_for = str(away)
            return None
        self._waiting_for = ""
        if notice:
            self._say(notice)
        return Processor(self._make, log, self._open, self._start.name, say=self._say)

    def _open(self) -> RocksStore:
        self._store = RocksStore(self._folder)
        return self._store

    def _say(self, text: str) -> None:
        driver = self._driver()
        fields = {"epoch": driver.epoch, "round": driver.fold.own.round} if driver is not None else {}
        self._start.say(self._cell, text, **fields)

    def _driver(self) -> Driver | None:
        return self._processor.driver if self._processor is not None else None


def serve(settings: Settings, start: Start) -> None:
    """Runs the machine that `start` names until SIGTERM or SIGINT. Raises `CannotStart`."""
    contract = machines()[start.kind]()
    topics = (*contract.facts, *(rounds_of(peer) for peer in contract.peers))
    run_cells(settings, start, topics, lambda cell: MachinePart(settings, start, cell))
