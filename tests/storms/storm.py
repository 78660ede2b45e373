"""A whole cell in one process is killed under load, again and again, on either log; nothing may be lost or doubled.

A kill is followed by a probe: a job that is submitted then and must succeed. The seconds until it has are the time back
to full service.
"""

import random
import time
from pathlib import Path

from events.topics import MACHINES
from tests.storms.cell import CellProcess, count
from tests.storms.stormed import Stormed, stormed


def storm(data: Path, kills: int, seed: int, kafka: str = "") -> Stormed:
    """Kills a cell `kills` times while jobs come in; waits for all of them; returns what was counted."""
    draw = random.Random(seed)
    cell = CellProcess(data, kafka)
    cell.start()
    cell.pool("/p")
    jobs: list[str] = []
    back_s, tasks = [], 0

    def submit(instances: int) -> None:
        nonlocal tasks
        jobs.append(f"job-{len(jobs)}")
        cell.submit(jobs[-1], instances, retries={"max": 1})
        tasks += instances

    for _ in range(kills):
        for _ in range(draw.randrange(1, 4)):
            submit(draw.choice([1, 20, 200]))
        time.sleep(draw.uniform(0.0, 1.0))
        begin = time.monotonic()
        cell.kill()
        cell.start()
        submit(1)
        cell.until(lambda: cell.state(jobs[-1]) == "SUCCEEDED")
        back_s.append(time.monotonic() - begin)
        cell.note_hashes()
    for job_id in jobs:
        cell.until(lambda job_id=job_id: cell.state(job_id) == "SUCCEEDED", 120)
    assert cell.hashes.missed == 0, "the state of each machine was noted after each kill"
    assert len(cell.hashes.said) >= kills
    cell.stop()
    found = count(cell)
    assert found["epochs"] >= kills * len(MACHINES)
    return stormed(found, {f"kill -9 cell on {'kafka' if kafka else 'embedded'}": back_s}, tasks, 0)
