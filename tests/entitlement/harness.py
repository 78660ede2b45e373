"""Feeds entitlement with facts and other machines' decisions, and lets it decide until it is quiet."""

from collections.abc import Sequence

from events.columns import ints, pack_ints
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, JobAccepted, JobChanged, JobsForgotten, RunsEnded
from events.records.parts import Amounts
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from processors.entitlement.machine import Entitlement
from processors.entitlement.rows import NOTHING, Amount4, plus
from processors.machine import Decided, Fact, PeerRound
from processors.table import RowChange, State

Run = tuple[str, int, int]
START_MS = 1_700_000_000_000


def cpu(cores: int) -> Amounts:
    return Amounts(cpu_milli=cores)


def runs_of(event: GangsAdmitted | PreemptionsOrdered) -> list[Run]:
    """The runs that a decision names."""
    if isinstance(event, PreemptionsOrdered):
        rows = zip(ints(event.job), ints(event.instance), ints(event.run), strict=True)
        return [(event.job_ids[job], int(instance), int(run)) for job, instance, run in rows]
    ranges = zip(ints(event.job), ints(event.first), ints(event.count), ints(event.run), strict=True)
    return [
        (event.job_ids[job], int(instance), int(run))
        for job, first, count, run in ranges
        for instance in range(first, first + count)
    ]


def _columns(runs: Sequence[Run]) -> dict[str, object]:
    names = sorted({job for job, _, _ in runs})
    return {
        "job_ids": tuple(names),
        "job": pack_ints([names.index(job) for job, _, _ in runs]),
        "instance": pack_ints([instance for _, instance, _ in runs]),
        "run": pack_ints([run for _, _, run in runs]),
    }


def _ranges(ranges: Sequence[tuple[str, int, int, int, int]]) -> dict[str, object]:
    """Columns of (job, first, count, run, gang)."""
    names = sorted({job for job, *_ in ranges})
    columns = {
        name: pack_ints([each[at] for each in ranges]) for at, name in enumerate(("first", "count", "run", "gang"), 1)
    }
    return {"job_ids": tuple(names), "job": pack_ints([names.index(each[0]) for each in ranges]), **columns}


class World:
    def __init__(self, capacity: Amounts | None = None, budget: int = 100_000) -> None:
        self.budget = budget
        self.now = START_MS
        self.offset = -1
        self.stored: dict[tuple[str, bytes], bytes] = {}
        self.said: list[Event] = []
        self._start()
        if capacity:
            self.capacity(capacity)

    def _start(self) -> None:
        self.machine = Entitlement()
        self.state = State(self.machine.tables, self.machine.peers)

    def fact(self, event: Event) -> list[Event]:
        self.offset += 1
        self.machine.apply(Fact("paceline.pools", self.offset, self.now, event))
        return self.quiet()

    def peer(self, machine: str, *decisions: Event) -> list[Event]:
        self.machine.apply(PeerRound(machine, 1, self.now, decisions))
        return self.quiet()

    def quiet(self) -> list[Event]:
        """Decides until nothing is left; checks that deciding changes nothing and that the sums are right."""
        said: list[Event] = []
        for _ in range(10_000):
            self._store()
            before = self.state.rehash()
            assert before == self.state.hash, "a row changed and nobody said so"
            decisions = self.machine.decide(self.now, True, self.budget)
            assert self.machine.decide(self.now, True, self.budget) == decisions
            assert self.state.rehash() == before, "deciding changed the state"
            self._check_sums()
            if not decisions:
                self.said += said
                wakeup = self.machine.next_wakeup()
                assert wakeup is None or wakeup > self.now, "a due timer decided nothing"
                return said
            for decision in decisions:
                self.machine.apply(Decided(self.now, decision))
            said += decisions
        raise AssertionError("entitlement never comes to rest")

    def _store(self) -> None:
        for change in self.state.take_changes():
            if change.row is None:
                self.stored.pop((change.table, change.key), None)
            else:
                self.stored[change.table, change.key] = change.row

    def _check_sums(self) -> None:
        """The allocation of each pool is the sum of the needs of the runs that hold."""
        sums: dict[str, Amount4] = {}
        arena = self.machine.queues.arena
        for row in self.machine.queues.jobs.values():
            stretch = slice(row.base, row.base + row.instances)
            held, queued = int((arena["held"][stretch] > 0).sum()), int((arena["queued"][stretch] > 0).sum())
            assert (row.held, row.queued) == (held, queued)
            sums[row.pool] = plus(sums.get(row.pool, NOTHING), row.need, held)
        for pool, amount in self.machine.queues.allocation.items():
            assert amount == sums.get(pool, NOTHING)

    def restart(self) -> None:
        """Another process takes over from the rows, in whatever order a store gives them."""
        self._start()
        self.state.load([RowChange(table, key, row) for (table, key), row in sorted(self.stored.items())])
        self.machine.restored()

    # In users' words.

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
        said = self.fact(PoolDefined(path=path, command_id=command_id, **spec))  # type: ignore[arg-type]
        return one(said, PoolAnswered)  # type: ignore[return-value]

    def remove(self, path: str, command_id: str = "") -> PoolAnswered:
        said = self.fact(PoolRemoved(path=path, command_id=command_id or f"remove-{self.offset}"))
        return one(said, PoolAnswered)  # type: ignore[return-value]

    def configure(self, **settings: int) -> PoolAnswered:
        said = self.fact(CellConfigured(command_id=f"configure-{self.offset}", **settings))
        return one(said, PoolAnswered)  # type: ignore[return-value]

    def submit(
        self, job_id: str, pool: str = "/p", instances: int = 1, need: Amounts | None = None, **spec: object
    ) -> list[Run]:
        """Returns the runs admitted in answer."""
        gang = int(spec.get("gang_min", 0))  # type: ignore[call-overload]
        need = need or cpu(1)
        accepted = JobAccepted(
            job_id=job_id, jobs_offset=0, pool=pool, kind="batch", instances=instances, need=need, **spec  # type: ignore[arg-type]
        )  # fmt: skip
        parts = [(job_id, 0, gang, 1, 1)] if gang > 1 else []
        rest = instances - gang if gang > 1 else instances
        parts += [(job_id, instances - rest, rest, 1, 0)] if rest else []
        return self._queue(parts, accepted)

    def requeue(self, *runs: Run) -> list[Run]:
        return self._queue([(job, instance, 1, run, 0) for job, instance, run in runs])

    def requeue_gang(self, job_id: str, members: int, run: int) -> list[Run]:
        return self._queue([(job_id, 0, members, run, 1)])

    def _queue(self, parts: list[tuple[str, int, int, int, int]], *before: Event) -> list[Run]:
        queued = GangsQueued(**_ranges(parts), admitted=pack_ints([0] * len(parts)))  # type: ignore[arg-type]
        return admitted(self.peer("lifecycle", *before, queued))

    def end(self, *runs: Run, kept: int = 0) -> list[Run]:
        zeros = pack_ints([0] * len(runs))
        event = RunsEnded(**_columns(runs), outcome=zeros, exit_code=zeros, kept=pack_ints([kept] * len(runs)))  # type: ignore[arg-type]
        return admitted(self.peer("lifecycle", event))

    def give_back(
        self, job_id: str, first: int, count: int, run: int, code: str, not_before_ms: int, gang: int = 0
    ) -> list[Event]:
        columns = _ranges([(job_id, first, count, run, gang)])
        return self.peer("placement", GangsReturned(**columns, code=code, not_before_ms=not_before_ms))  # type: ignore[arg-type]

    def over(self, job_id: str) -> None:
        self.peer("lifecycle", JobChanged(job_id=job_id, state="SUCCEEDED"))

    def forget(self, *job_ids: str) -> None:
        self.peer("lifecycle", JobsForgotten(job_ids=job_ids))

    def holds(self, pool: str) -> int:
        """CPU that a leaf holds."""
        return self.machine.queues.allocation.get(pool, NOTHING)[0]

    def entitled(self, pool: str) -> Amount4:
        return self.machine.shares()[pool].entitlement


def admitted(said: Sequence[Event]) -> list[Run]:
    return [run for event in said if isinstance(event, GangsAdmitted) for run in runs_of(event)]


def preempted(said: Sequence[Event]) -> list[Run]:
    return [run for event in said if isinstance(event, PreemptionsOrdered) for run in runs_of(event)]


def waits(said: Sequence[Event]) -> list[tuple[str, str]]:
    """The jobs that were told why they wait, and the codes."""
    return [(event.job_id, str(event.code)) for event in said if isinstance(event, GangsHeld)]


def kinds(said: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in said if not isinstance(event, EntitlementsSet)]


def one(said: Sequence[Event], kind: type[Event]) -> Event:
    found = [event for event in said if isinstance(event, kind)]
    assert len(found) == 1, kinds(said)
    return found[0]
