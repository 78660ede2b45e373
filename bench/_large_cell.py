"""The log of a cell that never ran: facts and rounds of the four machines written by hand, as many as asked, over some
hours of log time that end now. What each machine has said of a job is lawful; whether it would have said so isn't.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from events.codec import encode
from events.codes import Code, JobState, Outcome, RunReport, TaskState
from events.log.embedded import EmbeddedLog, wall_clock_ms
from events.log.port import NewRecord
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered
from events.records.hosts import HostConnected, HostOffered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    GangsQueued,
    HostReconciled,
    JobAccepted,
    JobChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
)
from events.records.parts import TaskShape
from events.records.placement import CapacityChanged, GangsUnplaced, HostLost, TasksPlaced
from events.records.pools import PoolDefined
from events.records.tasks import RunsReported
from tests.helpers.written_cell import Cell

HISTORY_MS = 6 * 3_600_000
BATCH = 500
"""Jobs or hosts in a round."""
HOST = {"cpu": 64_000, "memory": 262_144, "gpu": 8_000}
NEED = {"cpu": 500, "memory": 1024}
RESOURCES = ("cpu", "memory")
RACKS = 100
WAITS = (Code.LIMIT_REACHED, Code.ENTITLEMENT_REACHED, Code.BEHIND_IN_QUEUE)
LOST_EVERY = 1_000
"""Each so many-th host is lost."""


@dataclass(frozen=True, slots=True)
class Size:
    """The contents of the cell at the end. A tenth of the tasks are of one job."""

    jobs: int = 100_000
    tasks: int = 1_000_000
    hosts: int = 50_000
    pools: int = 200


@dataclass(frozen=True, slots=True)
class Job:
    """A job by number: every 20th waits for its pool, every 20th for a host, every 5th has ended, the others run."""

    number: int
    instances: int
    pool: str

    @property
    def name(self) -> str:
        return f"job-{self.number:06}"

    @property
    def waits(self) -> bool:
        return self.number % 20 == 1

    @property
    def unplaced(self) -> bool:
        return self.number % 20 == 2

    @property
    def runs(self) -> bool:
        return not (self.waits or self.unplaced)

    @property
    def ends(self) -> bool:
        return self.number % 5 == 3

    @property
    def fails(self) -> bool:
        return self.number % 50 == 3

    def submitted(self) -> JobSubmitted:
        """The fact."""
        return JobSubmitted(
            job_id=self.name,
            pool=self.pool,
            instances=self.instances,
            command=("serve", "--shard", str(self.number)),
            resources=NEED,
            labels={"team": f"team-{self.number % 40}"},
            owner=f"user-{self.number % 300}",
        )


class LargeCell(Cell):
    """The log in a folder, written as far as the last method called says."""

    def __init__(self, folder: Path, size: Size) -> None:
        self.size = size
        self.paths = [f"/team-{number % 20}/pool-{number}" for number in range(size.pools)]
        log = EmbeddedLog(folder / "log", now_ms=lambda: self.ms)
        super().__init__(log=log)

    def claim(self, machine: str, epoch: int | None = None) -> int:
        """Writes a claim; the history of the cell begins with it."""
        self.ms = wall_clock_ms() - HISTORY_MS if not self.writers[machine].epoch else self.ms
        return super().claim(machine, epoch)

    def write(self) -> None:
        """Pools, hosts, and all jobs, evenly over the history."""
        self.define_pools()
        self.connect_hosts()
        jobs = list(self.jobs())
        begin_ms, end_ms = self.ms, wall_clock_ms()
        for at in range(0, len(jobs), BATCH):
            self.ms = begin_ms + (end_ms - begin_ms) * at // len(jobs)
            batch = jobs[at : at + BATCH]
            self.start(batch)
            self.end([job for job in batch if job.ends and job.runs])
        self.ms = end_ms

    def jobs(self) -> Iterator[Job]:
        """All jobs; the first is the large one."""
        size = self.size
        wide = size.tasks // 10
        share, rest = divmod(size.tasks - wide, size.jobs - 1)
        for number in range(size.jobs):
            instances = share + (number <= rest) if number else wide
            yield Job(number, instances, self.paths[number % size.pools])

    def define_pools(self) -> None:
        """A pool above each ten."""
        names = sorted({path.rpartition("/")[0] for path in self.paths}) + self.paths
        each = self.size.hosts * HOST["cpu"] // self.size.pools
        facts = [
            PoolDefined(path=name, command_id=name, reservation={"cpu": each} if name.count("/") > 1 else {})
            for name in names
        ]
        first = self.append(facts)
        answers = [
            PoolAnswered(path=name, pools_offset=first + at, command_id=name, code="DONE")
            for at, name in enumerate(names)
        ]
        self.decide("entitlement", *answers)

    def connect_hosts(self) -> None:
        """All hosts, in racks; some are lost."""
        size = self.size
        for first in range(0, size.hosts, BATCH):
            numbers = range(first, min(first + BATCH, size.hosts))
            self.append([HostConnected(host_id=host(at), session=1, gateway="gateway") for at in numbers])
            self.append(
                [
                    HostOffered(host_id=host(at), session=1, capacity=HOST, attributes={"rack": f"r{at % RACKS:03}"})
                    for at in numbers
                ]
            )
            reconciled = [HostReconciled(host_id=host(at), session=1, kept=0, ended=0, stopped=0) for at in numbers]
            self.decide("lifecycle", *reconciled)
        lost = range(LOST_EVERY - 1, size.hosts, LOST_EVERY)
        capacity = {name: amount * (size.hosts - len(lost)) for name, amount in HOST.items()}
        self.decide(
            "placement",
            *(HostLost(host_id=host(at), session=1, code="SILENT", silent_ms=60_000) for at in lost),
            CapacityChanged(capacity=capacity, hosts=size.hosts - len(lost), version=1, largest=HOST),
        )

    def start(self, jobs: Sequence[Job]) -> None:
        """Submits jobs and brings each as far as it goes."""
        first = self.append([job.submitted() for job in jobs])
        shape = (TaskShape(NEED, 0),)
        accepted = [
            JobAccepted(
                job_id=job.name, jobs_offset=first + at, pool=job.pool, kind="batch", shapes=shape,
                instances=job.instances,
            )
            for at, job in enumerate(jobs)
        ]  # fmt: skip
        zeros = [0] * len(jobs)
        self.decide("lifecycle", *accepted, GangsQueued.pack(**whole(jobs), gang=zeros, admitted=zeros))
        self.decide("entitlement", *self._admission(jobs))
        running = [job for job in jobs if job.runs]
        places = on_hosts(running, self.size.hosts)
        unplaced = [
            GangsUnplaced(
                job_id=job.name, code=Code.NO_HOST_FITS, tasks=job.instances, need=NEED,
                hosts_considered=self.size.hosts, hosts_by_reason={"cpu": self.size.hosts},
            )
            for job in jobs if job.unplaced
        ]  # fmt: skip
        self.decide("placement", TasksPlaced.pack(**each(running), **places), *unplaced)
        self.decide("lifecycle", RunsOrdered.pack(**each(running), **places))
        self.append([reported(running, RunReport.STARTED, self.size.hosts)])
        changed = [JobChanged(job_id=job.name, state=JobState.RUNNING) for job in running]
        self.decide("lifecycle", RunsAvailable.pack(**each(running)), *changed)

    def end(self, jobs: Sequence[Job]) -> None:
        """All runs of jobs end."""
        self.append([reported(jobs, RunReport.EXITED, self.size.hosts)])
        outcome = repeated(jobs, lambda job: Outcome.FAILED if job.fails else Outcome.SUCCEEDED)
        following = repeated(jobs, lambda job: TaskState.FAILED if job.fails else TaskState.SUCCEEDED)
        none = repeated(jobs, lambda job: 0)
        code = repeated(jobs, lambda job: int(job.fails))
        changed = [
            JobChanged(
                job_id=job.name,
                state=JobState.FAILED if job.fails else JobState.SUCCEEDED,
                succeeded=0 if job.fails else job.instances,
                failed=job.instances if job.fails else 0,
            )
            for job in jobs
        ]
        over = RunsEnded.pack(**each(jobs), outcome=outcome, exit_code=code, kept=none, next=following)
        self.decide("lifecycle", over, *changed)

    def append(self, facts: Sequence[Event]) -> int:
        """Facts of one topic, at once; returns where the first stands."""
        records = [NewRecord(fact.topic, str(getattr(fact, "job_id", "")).encode(), encode(fact)) for fact in facts]
        return self.log.append(records)[0] if records else 0

    def _admission(self, jobs: Sequence[Job]) -> list[Event]:
        """Those that don't wait for their pool are admitted, the others told why."""
        going = [job for job in jobs if not job.waits]
        refusals = [
            GangsHeld.pack(
                pool=job.pool, at=job.pool, code=WAITS[job.number // 20 % len(WAITS)], asked=NEED,
                allocated={"cpu": 10_000}, entitlement={"cpu": 10_000}, limit={"cpu": 10_000},
                gang=[0], **whole([job]),
            )
            for job in jobs if job.waits
        ]  # fmt: skip
        none = [0] * len(going)
        admitted = GangsAdmitted.pack(**whole(going), gang=none, entitled=[1] * len(going))
        paths = sorted({job.pool for job in jobs})
        wave = int(100_000 * (1 + np.sin(self.ms / 3_600_000)))
        amounts = [wave * (at % 7 + 1) // weight for at in range(len(paths)) for weight in (1, 2)]
        more = [wave * (at % 7 + 2) // weight for at in range(len(paths)) for weight in (1, 2)]
        entitlements = EntitlementsSet.pack(
            pools=tuple(paths), resources=RESOURCES, entitlement=more, demand=more, allocation=amounts, placed=amounts
        )
        return [admitted, *refusals, entitlements]


def host(number: int) -> str:
    """The id of a host."""
    return f"host-{number:05}"


def whole(jobs: Sequence[Job]) -> dict[str, Any]:
    """Ranges: each job as one."""
    return {
        "job_ids": tuple(job.name for job in jobs),
        "job": range(len(jobs)),
        "first": [0] * len(jobs),
        "count": [job.instances for job in jobs],
        "run": [1] * len(jobs),
    }


def each(jobs: Sequence[Job]) -> dict[str, Any]:
    """Runs: the first of each task."""
    count = np.array([job.instances for job in jobs], dtype=np.int64)
    instance = np.concatenate([np.arange(job.instances) for job in jobs]) if jobs else np.arange(0)
    return {
        "job_ids": tuple(job.name for job in jobs),
        "job": np.repeat(np.arange(len(jobs)), count),
        "instance": instance,
        "run": np.ones(len(instance), dtype=np.int64),
    }


def on_hosts(jobs: Sequence[Job], hosts: int) -> dict[str, Any]:
    """The host of each task: from one that follows from the job's number, one after the other."""
    numbers = np.concatenate([(job.number * 7 + np.arange(job.instances)) % hosts for job in jobs] or [np.arange(0)])
    names, index = np.unique(numbers, return_inverse=True)
    return {
        "host_ids": tuple(map(host, names.tolist())),
        "host_session": [1] * len(names),
        "host": index.astype(np.int64),
    }


def repeated(jobs: Sequence[Job], value: Any) -> list[int]:
    """A column: what `value` says of its job, for each task."""
    return [value(job) for job in jobs for _ in range(job.instances)]


def reported(jobs: Sequence[Job], state: RunReport, hosts: int) -> RunsReported:
    """The report of hosts about all runs of jobs."""
    code = repeated(jobs, lambda job: int(job.fails and state == RunReport.EXITED))
    columns = {"state": repeated(jobs, lambda job: state), "exit_code": code}
    return RunsReported.pack(gateway="gateway", **each(jobs), **on_hosts(jobs, hosts), **columns)
