"""Lifecycle by itself, on one core: python -m bench._lifecycle PART FOLDER; prints one JSON object.

What hosts and other machines say is in memory, and is said at once. Timed is all that a driver does but for the log:
applying, deciding, encoding, hashing the rows that changed and committing them. Beside it the same rows are written to
a store of their own.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench import peak_memory_mib, sized
from events.acceptance import Chain
from events.codec import encode
from events.codes import RunReport, TaskState
from events.columns import spread
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import GangsQueued, RunsOrdered, RunsStopping, UpdateEnded
from events.records.parts import UpdatePolicy
from events.records.placement import TasksPlaced
from events.records.pools import PoolDefined
from events.records.tasks import RunsReported
from events.spec.job import JobSpec
from processors.lifecycle.machine import Lifecycle
from processors.machine import Decided, Fact, PeerRound
from processors.runtime.deciding import PASSES_BYTES, Limits
from processors.runtime.store import Progress, RocksStore
from processors.state.table import State

START_MS = 1_700_000_000_000
TASKS, LARGE, SMALL = sized(1_000_000, 10_000), sized(100_000, 5_000), sized(100, 50)
"""Tasks in all, and in a job of each kind."""
HOSTS = 1000
BATCH = 1000
"""Instances that are updated at a time."""
LIMITS = Limits()


class Cell:
    """The machine with its store, and the time that its rounds took."""

    def __init__(self, folder: Path) -> None:
        self.machine = Lifecycle()
        self.state = State(self.machine.tables, self.machine.peers)
        self.store, self._raw = RocksStore(folder / "store"), RocksStore(folder / "raw")
        self.now = START_MS
        self.seconds = self.raw_seconds = 0.0
        self._offsets: dict[str, int] = {}
        self._rounds: dict[str, int] = {}

    def define_pool(self) -> None:
        """The one pool, without bounds."""
        pool = PoolDefined(path="/p", command_id="1", open_jobs_max=TASKS, open_tasks_max=2 * TASKS)
        self.round([self.fact("paceline.pools", pool)])
        self.round([self.peer("entitlement", PoolAnswered(path="/p", pools_offset=0, command_id="1", code="DONE"))])

    def fact(self, topic: str, event: Event) -> Fact:
        """The next fact of a topic."""
        self._offsets[topic] = offset = self._offsets.get(topic, -1) + 1
        return Fact(topic, offset, self.now, event, encode(event))

    def peer(self, machine: str, *decisions: Event) -> PeerRound:
        """The next round of another machine."""
        self._rounds[machine] = number = self._rounds.get(machine, 0) + 1
        return PeerRound(machine, number, self.now, decisions)

    def round(self, inputs: Iterable[Fact | PeerRound] = ()) -> list[Event]:
        """One round, as a driver makes it; returns its decisions."""
        begin = time.perf_counter()
        for each in inputs:
            self.machine.apply(each)
        decisions: list[Event] = []
        self._rounds["lifecycle"] = number = self._rounds.get("lifecycle", 0) + 1
        size = 0
        while size < PASSES_BYTES and (latest := self.machine.decide(self.now, True, LIMITS.budget)):
            size += sum(len(encode(decision)) for decision in latest)
            for index, decision in enumerate(latest, len(decisions)):
                self.machine.apply(Decided(self.now, decision, number, index))
            decisions += latest
        changes = self.state.take_changes()
        progress = Progress(Chain(round=number), {}, self.now, self.machine.state, self.state.hash)
        self.store.commit(changes, progress)
        self.seconds += time.perf_counter() - begin
        begin = time.perf_counter()
        self._raw.commit(changes, progress)
        self.raw_seconds += time.perf_counter() - begin
        return decisions

    def settle(self, inputs: Iterable[Fact | PeerRound] = ()) -> list[Event]:
        """Rounds until nothing is left to decide."""
        decisions: list[Event] = []
        while latest := self.round(inputs):
            decisions += latest
            inputs = ()
        return decisions

    def timed(self, rounds: Iterable[Sequence[Fact | PeerRound]]) -> tuple[float, float]:
        """Seconds that rounds take, and those of writing the same rows alone."""
        before = self.seconds, self.raw_seconds
        for inputs in rounds:
            self.round(inputs)
        self.settle()
        return self.seconds - before[0], self.raw_seconds - before[1]

    def start(self, jobs: int, instances: int) -> None:
        """Services, submitted, placed and ordered."""
        for number in range(jobs):
            job_id = f"job-{number}"
            job = JobSubmitted(job_id=job_id, pool="/p", kind="stateless", instances=instances, command=("x",))
            self.place(self.settle([self.fact("paceline.jobs", job)]))

    def answer(self, decisions: Iterable[Event]) -> list[Fact | PeerRound]:
        """Returns the answers of all others to decisions, at once: hosts start and stop their runs, and all that is
        queued has a place.
        """
        inputs: list[Fact | PeerRound] = []
        for each in decisions:
            match each:
                case GangsQueued():
                    inputs.append(self.peer("placement", placed(each)))
                case RunsOrdered():
                    inputs.append(self.fact("paceline.tasks", reported(each, RunReport.STARTED)))
                case RunsStopping():
                    inputs.append(self.fact("paceline.tasks", reported(each, RunReport.STOPPED)))
        return inputs

    def place(self, decisions: Iterable[Event]) -> None:
        """All that was queued is placed, and ordered."""
        queued = [each for each in decisions if isinstance(each, GangsQueued)]
        self.settle([self.peer("placement", *map(placed, queued))])


def restarted(cell: Cell) -> None:
    """All back-offs pass, and all tasks are placed and ordered again."""
    cell.now += 3_600_000
    cell.place(cell.settle())


def placed(queued: GangsQueued) -> TasksPlaced:
    """Each task of ranges on one host after another."""
    first, count = queued.first_array, queued.count_array
    instance = spread(first, count)
    return TasksPlaced.pack(
        job_ids=queued.job_ids,
        job=np.repeat(queued.job_array, count),
        instance=instance,
        run=np.repeat(queued.run_array, count),
        host_ids=tuple(f"host-{number}" for number in range(HOSTS)),
        host_session=[1] * HOSTS,
        host=instance % HOSTS,
    )


def reported(runs: RunsOrdered | RunsStopping, state: RunReport) -> RunsReported:
    """A report on runs."""
    count = len(runs.run_array)
    return RunsReported.pack(
        gateway="g",
        job_ids=runs.job_ids,
        job=runs.job_array,
        instance=runs.instance_array,
        run=runs.run_array,
        host_ids=runs.host_ids,
        host_session=np.ones(len(runs.host_ids), dtype=np.int64),
        host=runs.host_array,
        state=np.full(count, state),
        exit_code=np.zeros(count, dtype=np.int32),
    )


def reports(jobs: int, instances: int, size: int, state: RunReport) -> Iterator[RunsReported]:
    """First runs of all tasks, `size` of one job in a record, one job after another and over again."""
    for first in range(0, instances, size):
        instance = np.arange(first, first + size)
        zeros, ones = np.zeros(size, dtype=np.int32), np.ones(size, dtype=np.int32)
        hosts = np.unique(instance % HOSTS)
        for number in range(jobs):
            yield RunsReported.pack(
                gateway="g",
                job_ids=(f"job-{number}",),
                job=zeros,
                instance=instance,
                run=ones,
                state=np.full(size, state),
                exit_code=zeros,
                host_ids=tuple(f"host-{host}" for host in hosts.tolist()),
                host_session=np.ones(len(hosts), dtype=np.int64),
                host=np.searchsorted(hosts, instance % HOSTS),
            )


def changes(cell: Cell, jobs: int, instances: int, size: int) -> tuple[float, float]:
    """State changes a second, of this machine and of the raw store: all tasks of services say that their first runs
    have started, and then that they have failed.
    """
    took = raw = 0.0
    records = min(LIMITS.records, LIMITS.budget // size)
    for report, state in ((RunReport.STARTED, TaskState.RUNNING), (RunReport.EXITED, TaskState.BACKOFF)):
        facts = [cell.fact("paceline.tasks", event) for event in reports(jobs, instances, size, report)]
        seconds = cell.timed([facts[at : at + records] for at in range(0, len(facts), records)])
        took, raw = took + seconds[0], raw + seconds[1]
        states = cell.machine.tasks.arena["state"]
        if np.count_nonzero(states == state) != jobs * instances:
            raise SystemExit(f"not all tasks are {state.name}: {np.bincount(states)}")
    return 2 * jobs * instances / took, 2 * jobs * instances / raw


def large(folder: Path) -> dict[str, dict[str, float]]:
    """Ten jobs of 100,000 tasks: changes in batches of 1,000, memory; the store is left for a restart."""
    cell = Cell(folder)
    cell.define_pool()
    cell.start(TASKS // LARGE, LARGE)
    rate, raw = changes(cell, TASKS // LARGE, LARGE, 1000)
    restarted(cell)
    cell.store.close()
    figures = {"changes_1000_per_s": rate, "memory_mib": peak_memory_mib(os.getpid())}
    return {"figures": figures, "references": {"raw_changes_1000_per_s": raw}}


def small(folder: Path) -> dict[str, dict[str, float]]:
    """10,000 jobs of 100 tasks: changes in records of 10."""
    cell = Cell(folder)
    cell.define_pool()
    cell.start(TASKS // SMALL, SMALL)
    rate, raw = changes(cell, TASKS // SMALL, SMALL, 10)
    memory = peak_memory_mib(os.getpid())
    return {
        "figures": {"changes_10_per_s": rate, "many_jobs_memory_mib": memory},
        "references": {"raw_changes_10_per_s": raw},
    }


def submit(folder: Path) -> dict[str, dict[str, float]]:
    """A job of 100,000 tasks with an override each: from the first chunk until it is accepted and all are queued."""
    cell = Cell(folder)
    cell.define_pool()
    overrides = [
        {"instances": f"{at}", "env": {"SHARD": f"shard-{at}"}, "labels": {"shard": f"{at}"}} for at in range(LARGE)
    ]
    spec = {"job_id": "job", "pool": "/p", "instances": LARGE, "command": ["x"], "overrides": overrides}
    job = JobSpec.model_validate(spec)
    facts = [cell.fact("paceline.jobs", event) for event in (*job.chunks, job.to_event())]
    took, raw = cell.timed([facts])
    queued = np.count_nonzero(cell.machine.tasks.arena["state"] == TaskState.QUEUED)
    if queued != LARGE:
        raise SystemExit(f"{queued} tasks are queued")
    size = sum(len(fact.value) for fact in facts)
    return {
        "figures": {"submit_overrides_s": took},
        "references": {"raw_submit_overrides_s": raw, "raw_submit_overrides_mib": size / 2**20},
    }


def update(folder: Path) -> dict[str, dict[str, float]]:
    """A service of 100,000 instances gets another environment, 1,000 at a time, each done once it is available."""
    cell = Cell(folder)
    cell.define_pool()
    job = JobSubmitted(job_id="job", pool="/p", kind="stateless", instances=LARGE, command=("x",))
    request = JobUpdateRequested(
        job_id="job",
        command_id="1",
        spec=encode(msgspec.structs.replace(job, env={"VERSION": "2"}, update=UpdatePolicy(batch=BATCH, healthy_ms=0))),
    )
    decisions = cell.settle([cell.fact("paceline.jobs", job)])
    while inputs := cell.answer(decisions):
        decisions = cell.settle(inputs)
    before = cell.seconds, cell.raw_seconds
    decisions, ended, inputs = [], False, [cell.fact("paceline.jobs", request)]
    while inputs or decisions:
        decisions = cell.round(inputs)
        ended |= any(isinstance(each, UpdateEnded) and each.state == "SUCCEEDED" for each in decisions)
        inputs = cell.answer(decisions)
    if not ended:
        raise SystemExit("the update isn't over")
    took, raw = cell.seconds - before[0], cell.raw_seconds - before[1]
    return {
        "figures": {"update_instances_per_s": LARGE / took},
        "references": {"raw_update_instances_per_s": LARGE / raw},
    }


def restart(folder: Path) -> dict[str, dict[str, float]]:
    """The machine back from the store that `large` has left."""
    begin = time.perf_counter()
    store = RocksStore(folder / "store")
    machine = Lifecycle()
    state = State(machine.tables, machine.peers)
    state.load(store.rows())
    machine.restored()
    decided = machine.decide(START_MS, True, LIMITS.budget)
    took = time.perf_counter() - begin
    progress = store.progress()
    live = np.count_nonzero(machine.tasks.arena["state"] == TaskState.ORDERED)
    if live != TASKS or decided or progress is None or progress.hash != state.hash:
        raise SystemExit("the machine that came back isn't the one that was there")
    begin = time.perf_counter()
    size = sum(len(row or b"") for _, _, row in store.rows())
    raw = time.perf_counter() - begin
    return {"figures": {"restart_s": took}, "references": {"raw_store_read_s": raw, "raw_store_mib": size / 2**20}}


PARTS: dict[str, Callable[[Path], dict[str, dict[str, float]]]] = {
    "large": large,
    "restart": restart,
    "small": small,
    "submit": submit,
    "update": update,
}


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    print(json.dumps(PARTS[sys.argv[1]](Path(sys.argv[2]))))
