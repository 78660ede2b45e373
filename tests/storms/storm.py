"""A whole cell in one process is harmed under load, again and again, on either log; nothing may be lost or doubled.

A fault is followed by a probe: a job that is submitted then and must succeed. The seconds until it has are the time
back to full service.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from events.topics import MACHINES
from tests.helpers.real_cell import CellProcess, count
from tests.helpers.small_disk import can_mount, small_disk
from tests.helpers.stormed import Stormed, stormed
from tests.storms.damage import EMBEDDED_ONLY, FULL, WAYS, Damage

KILLS = 6
"""So many kills come with one of each other way."""
DISK_MIB = 2048
CELL = "cell"
"""What faults are at."""


def ways(embedded: bool) -> list[str]:
    """All that may happen to a cell on one of the logs, here."""
    return [way for way in WAYS if (embedded or way not in EMBEDDED_ONLY) and (way != FULL or can_mount())]


def all_faults(seed: int, embedded: bool) -> Iterator[tuple[str, str]]:
    """Kills and each other way at a cell on one of the logs, in another order each time around, without end."""
    once = [("kill -9", CELL)] * KILLS + [(way, CELL) for way in ways(embedded)]
    draw = random.Random(seed)
    while True:
        draw.shuffle(once)
        yield from once


def storm(folder: Path, faults: Iterable[tuple[str, str]], seed: int, kafka: str = "") -> Stormed:
    """Harms a cell while jobs come in, in one way after the other; waits for all jobs; returns what was counted."""
    with ExitStack() as mounts:
        disk = mounts.enter_context(small_disk(folder / "disk", DISK_MIB)) if can_mount() else None
        cell = CellProcess(folder / "disk" / "cell", kafka)
        cell.output = folder / "cell.out"
        cell.data.parent.mkdir(parents=True, exist_ok=True)
        draw = random.Random(seed)
        return _storm(cell, Damage(cell, draw, disk), faults, draw)


def _storm(cell: CellProcess, damage: Damage, faults: Iterable[tuple[str, str]], draw: random.Random) -> Stormed:
    cell.start()
    cell.pool("/p")
    jobs: list[str] = []
    back_s, tasks, starts = defaultdict[str, list[float]](list), 0, 0

    def submit(instances: int) -> None:
        nonlocal tasks
        jobs.append(f"job-{len(jobs)}")
        cell.submit(jobs[-1], instances, retries={"max": 1})
        tasks += instances

    for way, name in faults:
        for _ in range(draw.randrange(1, 4)):
            submit(draw.choice([1, 20, 200]))
        time.sleep(draw.uniform(0.0, 1.0))
        begin = damage.do(way)
        if way == FULL and not cell.kafka:
            cell.until(lambda: cell.get("/readyz").status_code == 200)
        else:
            cell.start()
            starts += 1
        submit(1)
        cell.until(lambda: cell.state(jobs[-1]) == "SUCCEEDED")
        back_s[f"{way} {name} on {'kafka' if cell.kafka else 'embedded'}"].append(time.monotonic() - begin)
        cell.note_hashes()
    for job_id in jobs:
        cell.until(lambda job_id=job_id: cell.state(job_id) == "SUCCEEDED", 120)
    assert cell.hashes.missed == 0, "the state of each machine was noted after each fault"
    assert len(cell.hashes.said) >= sum(map(len, back_s.values()))
    cell.stop()
    found = count(cell)
    assert found["epochs"] >= starts * len(MACHINES)
    return stormed(found, back_s, tasks, 0)
