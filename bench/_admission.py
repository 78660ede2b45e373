"""Entitlement by itself, fed by hand: python -m bench._admission SHAPE; prints one JSON object."""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import psutil

from bench import sized
from events.codec import encode
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, JobAccepted, RunsEnded
from events.records.parts import ResourceKind, TaskShape
from events.records.placement import CapacityChanged, PreemptionAsked, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined
from events.resources import Amounts
from processors.entitlement.machine import Entitlement
from processors.machine import Decided, Fact, PeerRound

START_MS = 1_700_000_000_000
BUDGET = 20_000
"""The budget that a driver gives a round."""
FANOUT = (6, 6, 6, 6, 7)
"""Pools right below one, level by level."""


class Bench:
    """A machine and its clock."""

    def __init__(self) -> None:
        self.machine = Entitlement()
        self.now = START_MS
        self._rounds: dict[str, int] = {}
        self._offset = -1

    def fact(self, event: Event) -> None:
        """A fact about pools; it is answered later."""
        self._offset += 1
        self.machine.apply(Fact("paceline.pools", self._offset, self.now, event, encode(event)))

    def peer(self, name: str, *decisions: Event) -> None:
        """A round of another machine."""
        self._rounds[name] = self._rounds.get(name, 0) + 1
        self.machine.apply(PeerRound(name, self._rounds[name], self.now, decisions))

    def decide(self) -> list[Event]:
        """Returns the decisions of the machine now, without applying them."""
        return self.machine.decide(self.now, True, BUDGET)

    def follow(self, decisions: Sequence[Event]) -> None:
        """Applies what it has decided."""
        self._rounds["entitlement"] = number = self._rounds.get("entitlement", 0) + 1
        for index, decision in enumerate(decisions):
            self.machine.apply(Decided(self.now, decision, number, index))

    def quiet(self, keep: type[Event] | None = None) -> list[Event]:
        """Lets it decide until it has nothing to say; returns the decisions of a kind."""
        matches: list[Event] = []
        while decisions := self.decide():
            self.follow(decisions)
            matches += [each for each in decisions if keep is not None and isinstance(each, keep)]
        return matches

    def place(self, admissions: Iterable[Event]) -> None:
        """All that was admitted gets a place."""
        for event in admissions:
            if isinstance(event, GangsAdmitted):
                self.peer("placement", placed(event))
        self.quiet()

    def capacity(self, amounts: Amounts, hosts: int) -> None:
        """Sets the capacity of the cell."""
        self.peer("placement", CapacityChanged(capacity=amounts, hosts=hosts, version=1, largest=amounts))

    def accept(self, pool: str, jobs: Iterable[str], tasks: int, need: Amounts) -> None:
        """Jobs of single tasks of one shape that wait."""
        names = tuple(jobs)
        for name in names:
            self.peer("lifecycle", job(name, pool, tasks, need))
        self.peer("lifecycle", queued(names, tasks))


def job(name: str, pool: str, tasks: int, need: Amounts, gang_min: int = 0) -> JobAccepted:
    """A batch job of single tasks, or of one gang."""
    shapes = (TaskShape(resources=need),)
    return JobAccepted(
        job_id=name, jobs_offset=0, pool=pool, kind="batch", instances=tasks, shapes=shapes, gang_min=gang_min
    )


def queued(names: tuple[str, ...], tasks: int, gang: int = 0) -> GangsQueued:
    """First runs of all tasks of jobs."""
    count = len(names)
    same = [[each] * count for each in (0, tasks, 1, gang, 0)]
    first, counts, run, whole, keeps_admission = same
    return GangsQueued.pack(
        job_ids=names,
        job=range(count),
        first=first,
        count=counts,
        run=run,
        gang=whole,
        admitted=keeps_admission,
    )


def placed(event: GangsAdmitted) -> TasksPlaced:
    """Each task of an admission on one host."""
    first, count = event.first_array, event.count_array
    start = np.repeat(np.cumsum(count) - count, count)
    instance = np.repeat(first, count) + np.arange(len(start)) - start
    return TasksPlaced.pack(
        job_ids=event.job_ids,
        job=np.repeat(event.job_array, count),
        instance=instance,
        run=np.repeat(event.run_array, count),
        host_ids=("host",),
        host_session=[1],
        host=np.zeros(len(start), dtype=np.int64),
    )


def tasks_of(decisions: Iterable[Event]) -> int:
    """Counts the tasks that were admitted."""
    return sum(int(each.count_array.sum()) for each in decisions if isinstance(each, GangsAdmitted))


KINDS = ("gpu/a", "licence")
"""Beside the four that each cell has."""
CPU = {"cpu": 1000}
JOBS = sized(10_000, 400)
TASKS_OF_JOB = 100
VICTIMS, SAMPLES = JOBS, sized(50, 5)


def pool_paths(most: int, fanout: Sequence[int] = FANOUT) -> list[str]:
    """So many pools, level by level; the last level has the most."""
    paths: list[str] = []
    level = [""]
    for width in fanout:
        level = [f"{above}/p{number}" for above in level for number in range(width)][: most - len(paths)]
        paths += level
    return paths


def leaves_of(paths: Sequence[str]) -> list[str]:
    """The pools without others below them."""
    above = {path.rpartition("/")[0] for path in paths}
    return [path for path in paths if path not in above]


def one_change() -> dict[str, float]:
    """10,000 pools of which each has more work than it may use; in one a job comes that it may start at once, and a
    task ends, so that the next may start: each until that admission is decided.
    """
    bench, paths = Bench(), pool_paths(sized(10_000, 300))
    leaves = leaves_of(paths)
    kinds = tuple(ResourceKind(name=name) for name in KINDS)
    bench.fact(CellConfigured(command_id="kinds", resources=kinds, report_every_ms=1 << 40))
    for path in paths:
        bench.fact(PoolDefined(path=path, command_id=path))
    bench.quiet()
    bench.capacity({"cpu": 20_000 * len(leaves), "memory": 20_000 * len(leaves)}, len(leaves))
    need = {"cpu": 1000, "memory": 1000}
    few = leaves[:: len(leaves) // SAMPLES][:SAMPLES]
    for at, path in enumerate(leaves):
        bench.accept(path, [f"job-{at}"], 4 if path in few else 100, need)
    bench.place(bench.quiet(GangsAdmitted))
    busy = sorted(set(leaves) - set(few))
    ends = [_ended(bench, f"job-{leaves.index(path)}") for path in busy[:: len(busy) // SAMPLES][:SAMPLES]]
    news = [_changed(bench, f"new-{at}", path, need) for at, path in enumerate(few)]
    return {"share_one_change_us": statistics.median(news) * 1e6, "share_one_end_us": statistics.median(ends) * 1e6}


def _changed(bench: Bench, name: str, pool: str, need: Amounts) -> float:
    bench.peer("lifecycle", job(name, pool, 1, need))
    return _until_admitted(bench, queued((name,), 1), name)


def _ended(bench: Bench, name: str) -> float:
    zero = [0]
    ended = RunsEnded.pack(job_ids=(name,), job=zero, instance=zero, run=[1], outcome=[1], exit_code=zero, kept=zero)
    return _until_admitted(bench, ended, name)


def _until_admitted(bench: Bench, event: Event, name: str) -> float:
    began = time.process_time()
    bench.peer("lifecycle", event)
    decisions = bench.decide()
    took = time.process_time() - began
    if not any(isinstance(each, GangsAdmitted | AdmissionsRanked) and name in each.job_ids for each in decisions):
        raise SystemExit(f"{name} wasn't admitted: {decisions}")
    bench.follow(decisions)
    bench.place([*decisions, *bench.quiet(GangsAdmitted)])
    return took


def million() -> Bench:
    """1,000 pools with 1,000,000 tasks in jobs of 100 that wait; the cell has room for all."""
    bench = Bench()
    for number in range(JOBS // 10):
        bench.fact(PoolDefined(path=f"/p{number:03}", command_id=f"p{number}"))
    bench.quiet()
    bench.capacity({"cpu": JOBS * TASKS_OF_JOB * 1000}, 10_000)
    for number in range(JOBS // 10):
        bench.accept(f"/p{number:03}", [f"job-{number}-{at}" for at in range(10)], TASKS_OF_JOB, CPU)
    return bench


def admissions() -> dict[str, float]:
    """Measures how fast all of a million tasks are admitted, decisions applied."""
    bench = million()
    gc.collect()
    began = time.process_time()
    count = tasks_of(bench.quiet(GangsAdmitted))
    took = time.process_time() - began
    if count != JOBS * TASKS_OF_JOB:
        raise SystemExit(f"{count} tasks were admitted")
    return {"admissions_per_s": count / took}


def memory() -> dict[str, float]:
    """Measures the memory that a million admitted tasks add to the process."""
    before = psutil.Process().memory_info().rss
    bench = million()
    count = tasks_of(bench.quiet(GangsAdmitted))
    gc.collect()
    whole = psutil.Process().memory_info().rss
    if count != JOBS * TASKS_OF_JOB:
        raise SystemExit(f"{count} tasks were admitted")
    return {"memory_mib": whole / 2**20, "memory_of_machine_mib": (whole - before) / 2**20}


def victims() -> dict[str, float]:
    """A gang of 10,000 tasks is entitled in a cell that a million tasks fill: its victims are named by placement, and
    confirmed here.
    """
    bench = Bench()
    for path in ("/full", "/wants"):
        bench.fact(PoolDefined(path=path, command_id=path))
    bench.quiet()
    bench.capacity({"cpu": JOBS * TASKS_OF_JOB * 1000}, 10_000)
    bench.accept("/full", [f"job-{at}" for at in range(JOBS)], TASKS_OF_JOB, CPU)
    bench.place(bench.quiet(GangsAdmitted))
    bench.now += 3_600_000
    bench.peer("lifecycle", job("gang", "/wants", VICTIMS, CPU, gang_min=VICTIMS), queued(("gang",), VICTIMS, gang=1))
    bench.quiet()
    bench.now += 600_000
    bench.quiet()
    bench.peer("placement", asked())
    gc.collect()
    began = time.process_time()
    decisions = bench.decide()
    took = time.process_time() - began
    orders = [each for each in decisions if isinstance(each, PreemptionsOrdered)]
    if sum(len(each.run_array) for each in orders) != VICTIMS:
        raise SystemExit(f"not ordered: {decisions}")
    return {"victims_10000_ms": took * 1000}


def asked() -> PreemptionAsked:
    """Placement asks for the tasks of a hundred jobs."""
    instance = np.arange(VICTIMS)
    return PreemptionAsked.pack(
        job_id="gang",
        first=0,
        count=VICTIMS,
        run=1,
        host_ids=("host",),
        tasks=[VICTIMS],
        job_ids=tuple(f"job-{at}" for at in range(VICTIMS // 100)),
        job=instance // 100,
        instance=instance % 100,
        victim_run=np.ones(VICTIMS, dtype=np.int64),
        way=np.full(VICTIMS, 2),
    )


SHAPES: dict[str, Callable[[], dict[str, float]]] = {
    "one_change": one_change,
    "admissions": admissions,
    "memory": memory,
    "victims": victims,
}

if __name__ == "__main__":
    print(json.dumps(SHAPES[sys.argv[1]]()))
