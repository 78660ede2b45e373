"""Entitlement by itself: what operators and other machines say to it."""

from collections import Counter
from collections.abc import Sequence

from events.columns import ints, pack_ints, pack_longs
from events.host_pools import KINDS
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, GangsHeld, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import JobAccepted, JobChanged, RunsEnded
from events.records.parts import TaskShape
from events.records.placement import CapacityChanged, GangsReturned, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.resources import Amounts, Vector
from processors.entitlement.machine import Entitlement
from processors.entitlement.queues.parts import GANG, ROLES
from processors.entitlement.queues.usage import OF_KINDS, PoolUsage
from tests.helpers.machines import Alone, Range, Run, columns, of, one, queued, ranges, ranges_of, runs_of, shaped


def cpu(cores: int) -> Amounts:
    return {"cpu": cores}


class World(Alone[Entitlement]):
    def __init__(self, capacity: Amounts | None = None, budget: int = 100_000) -> None:
        super().__init__(Entitlement, budget)
        if capacity:
            self.capacity(capacity)

    @property
    def offset(self) -> int:
        """Of the last fact about pools."""
        return self.offsets.get("paceline.pools", -1)

    def fact(self, event: Event) -> list[Event]:
        return self.take("paceline.pools", event)

    def look(self, copy: Entitlement) -> None:
        """What is kept up with each change is what is found again from the rows."""
        mine, other = self.machine.queues, copy.queues
        assert {job_id: row.parts for job_id, row in mine.jobs.items()} == {
            job_id: row.parts for job_id, row in other.jobs.items()
        }
        pools = {*dict(self.machine.usage.items()), *dict(copy.usage.items())}
        for pool in pools:
            for name in PoolUsage.__slots__:
                assert getattr(self.machine.usage[pool], name) == getattr(copy.usage[pool], name), (pool, name)
            for kind in range(len(KINDS)):
                for name in (*OF_KINDS, "entitled", "on_slack", "waiting", "firm_waiting", "revocable_waiting"):
                    ours, theirs = (each.usage.of_kind(pool, kind) for each in (self.machine, copy))
                    assert getattr(ours, name) == getattr(theirs, name), (pool, kind, name)
        for pool in {*dict(self.machine.order.items()), *dict(copy.order.items())}:
            for name in ("waiting", "forms", "borrowed", "claims", "refused"):
                assert getattr(self.machine.order[pool], name) == getattr(copy.order[pool], name), (pool, name)
        assert set(mine.aside) == set(other.aside)
        assert mine.open_jobs == other.open_jobs
        tasks = Counter[int]()
        for row in mine.jobs.values():
            there = Counter(mine.part_of(row, slot - row.base) for slot in mine.present(row).tolist())
            assert {key: part.tasks for key, part in row.parts.items()} == there
            for key, part in row.parts.items():
                tasks[key // ROLES] += part.tasks if key % ROLES != GANG else 0
            gang = mine.arena["shape"][row.base : row.base + row.gang_min].tolist()
            tasks.update(gang)
        assert {number: row.tasks for number, row in mine.shapes.table.items()} == tasks

    def later(self, ms: int, step: int = 250) -> list[Event]:
        said: list[Event] = []
        for _ in range(0, ms, step):
            self.now += step
            said += self.quiet()
        return said

    def capacity(self, capacity: Amounts, hosts: int = 1) -> list[Event]:
        self._version = getattr(self, "_version", 0) + 1
        return self.peer("placement", CapacityChanged(capacity=capacity, hosts=hosts, version=self._version))

    def define(self, path: str, command_id: str = "", **spec: object) -> PoolAnswered:
        command_id = command_id or f"define-{self.offset}"
        said = self.fact(PoolDefined(path=path, command_id=command_id, **spec))
        return one(said, PoolAnswered)

    def remove(self, path: str, command_id: str = "") -> PoolAnswered:
        said = self.fact(PoolRemoved(path=path, command_id=command_id or f"remove-{self.offset}"))
        return one(said, PoolAnswered)

    def configure(self, **settings: object) -> PoolAnswered:
        said = self.fact(CellConfigured(command_id=f"configure-{self.offset}", **settings))
        return one(said, PoolAnswered)

    def submit(
        self, job_id: str, pool: str = "/p", instances: int = 1, need: Amounts | None = None, **spec: object
    ) -> list[Run]:
        """Returns the runs admitted in answer."""
        gang = int(spec.get("gang_min", 0))
        need = need or cpu(1)
        accepted = JobAccepted(
            job_id=job_id, jobs_offset=0, pool=pool, **({"kind": "batch", "instances": instances} | shaped(need) | spec)
        )
        instances = accepted.instances
        parts = [(job_id, 0, gang, 1, 1)] if gang > 1 else []
        rest = instances - gang if gang > 1 else instances
        parts += [(job_id, instances - rest, rest, 1, 0)] if rest else []
        return self._queue(parts, accepted)

    def requeue(self, *runs: Run, shape: TaskShape | None = None, kept: int = 0) -> list[Run]:
        """Tasks wait again; `shape`: they ask something else than before."""
        parts = [(job, instance, 1, run, 0) for job, instance, run in runs]
        return self._queue(parts, shapes=[shape] * len(parts) if shape else [], kept=kept)

    def requeue_gang(self, job_id: str, members: int, run: int, shape: TaskShape | None = None) -> list[Run]:
        return self._queue([(job_id, 0, members, run, 1)], shapes=[shape] if shape else [])

    def _queue(self, parts: list[Range], *before: Event, shapes: Sequence[TaskShape] = (), kept: int = 0) -> list[Run]:
        return admitted(self.peer("lifecycle", *before, queued(parts, kept, shapes)))

    def end(self, *runs: Run, kept: int = 0, outcome: int = 0) -> list[Run]:
        zeros, outcomes = (pack_ints([value] * len(runs)) for value in (0, outcome))
        event = RunsEnded(**columns(runs), outcome=outcomes, exit_code=zeros, kept=pack_ints([kept] * len(runs)))
        return admitted(self.peer("lifecycle", event))

    def place(self, *runs: Run) -> list[Event]:
        """Placement has found hosts for runs."""
        zeros = pack_ints([0] * len(runs))
        hosts = {"host_ids": ("h",), "host_session": pack_longs([1]), "host": zeros}
        return self.peer("placement", TasksPlaced(**columns(runs), **hosts))

    def give_back(self, job_id: str, first: int, count: int, run: int, code: str, gang: int = 0) -> list[Event]:
        fields = ranges([(job_id, first, count, run, gang)])
        return self.peer("placement", GangsReturned(**fields, code=code))

    def over(self, job_id: str) -> None:
        self.peer("lifecycle", JobChanged(job_id=job_id, state="SUCCEEDED"))

    def holds(self, pool: str) -> int:
        """CPU that a leaf holds."""
        return self.machine.usage[pool].allocation[0]

    def entitled(self, pool: str) -> Vector:
        return self.machine.reports.row(pool).entitlement


def admitted(said: Sequence[Event]) -> list[Run]:
    return [
        (job, instance, run)
        for event in of(said, GangsAdmitted)
        for job, first, count, run, _ in ranges_of(event)
        for instance in range(first, first + count)
    ]


def preempted(said: Sequence[Event]) -> list[Run]:
    return [run for event in of(said, PreemptionsOrdered) for run in runs_of(event)]


def ranked(said: Sequence[Event], entitled: int) -> list[Run]:
    """The runs that are entitled from now on (1), or borrowed (0)."""
    return [
        (job, instance, run)
        for event in of(said, AdmissionsRanked)
        for (job, first, count, run, _), is_entitled in zip(
            ranges_of(event), ints(event.entitled).tolist(), strict=True
        )
        for instance in range(first, first + count)
        if is_entitled == entitled
    ]


def borrowed(said: Sequence[Event]) -> list[Run]:
    """The runs that were admitted beyond the entitlement of their pools."""
    return [
        (job, instance, run)
        for event in of(said, GangsAdmitted)
        for (job, first, count, run, _), is_entitled in zip(
            ranges_of(event), ints(event.entitled).tolist(), strict=True
        )
        for instance in range(first, first + count)
        if not is_entitled
    ]


def waits(said: Sequence[Event]) -> list[tuple[str, str]]:
    """The jobs that were told why they wait, and the codes."""
    return [(job_id, str(event.code)) for event in of(said, GangsHeld) for job_id in event.job_ids]


def told(said: Sequence[Event], job_id: str) -> GangsHeld:
    """What a job was told last of why it waits."""
    return [event for event in of(said, GangsHeld) if job_id in event.job_ids][-1]
