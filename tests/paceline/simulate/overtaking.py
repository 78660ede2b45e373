"""How long heads of queues wait where what lacks nothing of theirs goes past them, beside queues in which nothing does.

`python -m tests.paceline.simulate.overtaking SEEDS` compares so many drawn cells.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from events.codes import Code
from events.records.entitlement import GangsHeld
from events.records.lifecycle import GangsQueued
from events.records.placement import TasksPlaced
from paceline.simulate.checker.history import History
from paceline.simulate.checker.items import Task, places_of, ranges_of
from paceline.simulate.scenario.scenario import Scenario
from processors.entitlement.admission.admit import Walk
from processors.entitlement.queues.order import ALL
from tests.paceline.simulate.sharing import play

MINUTES = 90
ARRIVALS_S = 40 * 60


class Waits(NamedTuple):
    """Seconds from the queue to a place, the longest for whoever has none at the end."""

    heads: dict[Task, int]
    """Of tasks that headed a queue in which nothing goes past."""
    all: dict[Task, int]


def draw(seed: int) -> Scenario:
    """Two kinds of devices and plain hosts; pools with and without reservations, work that needs one kind or none."""
    rng = random.Random(f"{seed}/overtaking")
    kinds = ["gpu/a", "gpu/b"]
    hosts = [
        {"name": f"h{at}", "count": rng.randint(1, 3), "resources": {"cpu": 8, **({kind: 4} if kind else {})}}
        for at, kind in enumerate([*kinds, ""])
    ]
    reserved = {"cpu": rng.choice([12, 24]), "memory": "1TiB", **{kind: rng.choice([2, 4]) for kind in kinds}}
    pools = [{"path": "/a", "reservation": reserved}, {"path": "/b", "share": rng.choice([1, 2])}]
    jobs: list[dict[str, Any]] = []
    for at in range(rng.randint(10, 18)):
        kind, cpu = rng.choice([*kinds, None]), rng.choice([1, 1, 2, 4])
        job = {
            "job_id": f"job-{at}",
            "at": f"{rng.randint(0, ARRIVALS_S)}s",
            "pool": rng.choice(["/a", "/a", "/b"]),
            "instances": rng.choice([1, 2, 4, 8]),
            "priority": rng.choice([0, 0, 0, 1]),
            "resources": {"cpu": cpu, "memory": "1GiB", **({kind: rng.choice([1, 2, 4])} if kind else {})},
            "sim": {"duration": rng.choice(["1m", "3m", "8m", "20m"])},
        }
        if job["pool"] == "/a" and rng.random() < 0.7:
            job["preemptible"] = False
        elif rng.random() < 0.25:
            job["gang"] = {"min": job["instances"]}
        jobs.append(job)
    return Scenario.model_validate(
        {
            "name": f"overtaking-{seed}",
            "seed": seed,
            "end": f"{MINUTES}m",
            "cell": {"resources": [{"name": kind} for kind in kinds]},
            "hosts": hosts,
            "pools": pools,
            "jobs": jobs,
        }
    )


@contextmanager
def nothing_goes_past() -> Iterator[None]:
    """Each head blocks its class, whatever it lacks."""
    with patch.object(Walk, "_block", lambda *_: ALL):
        yield


def waits(scenario: Scenario) -> Waits:
    """Plays a scenario, with the checker looking on. Raises `Violation`."""
    cell = play(scenario)
    queued: dict[Task, int] = {}
    found: dict[Task, int] = {}
    heads: set[Task] = set()
    for round_ in History(cell.log).read():
        for event in round_.decisions:
            match event:
                case GangsQueued():
                    for task in (task for each in ranges_of(event) for task in each.tasks()):
                        queued.setdefault(task, round_.now_ms)
                case GangsHeld() if event.code != Code.BEHIND_IN_QUEUE:
                    heads.update(next(each.tasks()) for each in ranges_of(event))
                case TasksPlaced():
                    for task, *_ in places_of(event):
                        found.setdefault(task, (round_.now_ms - queued[task]) // 1000)
    end = max(cell.clock.ms, *queued.values()) if queued else 0
    cell.close()
    found |= {task: (end - at) // 1000 for task, at in queued.items() if task not in found}
    return Waits({task: found[task] for task in heads}, found)


def compare(seed: int) -> tuple[int, int, int, int, int]:
    """Of a drawn cell: how many tasks headed a queue, how long these waited together where nothing goes past them, and
    where it does; and the same sums of all tasks.
    """
    with nothing_goes_past():
        before = waits(draw(seed))
    after = waits(draw(seed))
    heads = [task for task in before.heads if task in after.all]
    return (
        len(heads),
        sum(before.all[task] for task in heads),
        sum(after.all[task] for task in heads),
        sum(before.all.values()),
        sum(after.all.values()),
    )


if __name__ == "__main__":
    totals = [0, 0, 0, 0, 0]
    for number in range(int(sys.argv[1])):
        result = compare(number)
        totals = [total + each for total, each in zip(totals, result, strict=True)]
        sys.stdout.write(f"{number}: {result}, in all {totals}\n")
        sys.stdout.flush()
