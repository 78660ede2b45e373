"""Appends whose acknowledgement is lost: nobody knows whether they were written, and nothing is lost or doubled."""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

from events.log.kafka.kafka_log import KafkaLog
from events.log.port import AppendUnknown, NewRecord
from events.topics import MACHINES
from processors.cell_machines import machines
from processors.runtime.in_process import Processor
from processors.runtime.store import RocksStore
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

OUTCOMES = ("", "", "", "written", "", "", "", "lost", "", "", "", "late")
"""What becomes of appends, in turn; late: written after the next one, by which the cell has another epoch."""
STEP_S = 0.05
BUSY = tuple(machine for machine in MACHINES if machine != "sla")
"""Those that have something to decide about every job."""


class Unsure(KafkaLog):
    """Some of its appends are never acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, 0)
        self.met = Counter(dict.fromkeys(OUTCOMES, 0))
        self._outcomes = cycle(OUTCOMES)
        self._late: Sequence[NewRecord] = ()

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        outcome = next(self._outcomes)
        self.met[outcome] += 1
        offsets = super().append(records) if outcome in ("", "written") else []
        if outcome:
            self._late = records if outcome == "late" else self._late
            raise AppendUnknown(f"An append was {outcome}.")
        if self._late:
            late, self._late = self._late, ()
            super().append(late)
        return offsets


def decide(site: Site, machine: str, log: Unsure, stop: threading.Event) -> None:
    """A processor of one machine, in this process, until the stop."""
    folder = site.folder / "stores" / machine
    processor = Processor(machines(0)[machine], log, lambda: RocksStore(folder), machine)
    while not stop.is_set():
        if not processor.step():
            processor.wait(STEP_S)
        if processor.driver is not None and processor.driver.epoch:
            fold = processor.driver.fold
            site.note_hash(machine, fold.own.round, fold.state.hash.hex())
    processor.close()
    log.close()


def test_rounds_of_unknown_outcome_lose_and_double_nothing_in_log_views_and_fan_out(
    broker: Broker, tmp_path: Path
) -> None:
    site, stop = Site(tmp_path, empty(broker, 1)), threading.Event()
    logs, jobs = {machine: Unsure(site.bootstrap) for machine in MACHINES}, 0
    (tmp_path / "stores").mkdir()
    with ThreadPoolExecutor(len(MACHINES)) as threads:
        deciding = [threads.submit(decide, site, machine, log, stop) for machine, log in logs.items()]
        try:
            parts = ("projector", "fanout", "gateway.0", "api")
            site.start(*parts)
            site.until_ready(*parts)
            site.pool("/p")
            while not all(all(logs[machine].met.values()) for machine in BUSY):
                jobs += 1
                site.submit(f"job-{jobs}", 50)
                site.finish(f"job-{jobs}")
            site.end()
        finally:
            stop.set()
            site.processes.stop_all()
        for each in deciding:
            each.result()
    found = site.verify()
    assert (found["ordered"], found["succeeded"], found["live"]) == (50 * jobs, 50 * jobs, 0)
    assert found["ignored: OLD_EPOCH"] > 0, "what came late is ignored"
