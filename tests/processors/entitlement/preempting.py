"""The part of entitlement that preempts, by itself: who is admitted, and what pools are entitled to, is given."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from events.codes import Way
from events.columns import ints, pack_ints, pack_longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, PreemptionRefused, PreemptionsOrdered, RightsSet
from events.records.lifecycle import GangsQueued, JobAccepted, JobChanged, PreemptionAnswered, RunsEnded
from events.records.parts import Cause
from events.records.placement import PreemptionAsked, TasksPlaced
from events.records.rounds import TimerPassed
from events.resources import STANDARD_KINDS, Vector
from processors.entitlement.preemption.confirm import PreemptionRequests
from processors.entitlement.preemption.rights import Claims, GiverRow, RightRow, Rights
from processors.entitlement.preemption.victims import PlacedRuns
from processors.entitlement.records import TaskRecords
from processors.entitlement.reports.pools import Reports
from processors.entitlement.rows import ReportedRow, root_row
from processors.entitlement.state import State
from processors.machine import Decided, Input, PeerRound
from processors.state.budget import Budget
from processors.state.causes import CurrentInput
from processors.state.conversion import Conversions
from processors.state.displacements import Task
from processors.state.steps import Pass
from processors.state.table import Table
from tests.helpers.machines import Alone, Run, columns, of, ranges, shaped

KINDS = 4


class Given(State):
    """Everything may be admitted."""

    def _is_refused(self, *unit: Any) -> bool:
        return False


class Preempting:
    """See `processors.machine.Machine`. What pools are entitled to is what was reported, at once."""

    name: ClassVar[str] = "entitlement"
    facts: ClassVar[tuple[str, ...]] = ()
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "placement")
    logic: ClassVar[int] = 1
    state: ClassVar[int] = 1
    conversions: ClassVar[Conversions] = {}

    def __init__(self) -> None:
        state = self.shared = Given()
        self.pools, self.cell, self.queues = state.pools, state.cells, state.queues
        self.displacements = state.displacements
        self.task_records = TaskRecords(state)
        self.reports = Reports(state)
        state.shares = self  # type: ignore[assignment]
        self.claims = Claims(state)
        self.rights = Rights(state, self.claims)
        self.requests = PreemptionRequests(state, self.claims, PlacedRuns(state.queues))
        self._input = CurrentInput()

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        queues = self.queues
        return (
            *(self.pools, self.cell, self.shared.reported, self.task_records.orders, self.displacements.table),
            *(queues.jobs, queues.shapes.table, queues.arena.table, *self.rights.tables, self.requests.table),
        )

    def restored(self) -> None:
        self.shared.restored()
        self.queues.restored(STANDARD_KINDS, False)
        self.task_records.restored()
        self.displacements.restored()
        self.requests.restored()
        self.rights.restored()

    def entitlement(self, path: str) -> Vector:
        row: ReportedRow = self.shared.reported[path]
        return row.entitlement

    def apply(self, record: Input) -> None:
        match record:
            case PeerRound(machine, number, now, decisions):
                for index, decision in enumerate(decisions):
                    self._input.at = (machine, number, index)
                    self._apply(decision, now)
            case Decided(now, decision, number, index):
                self._input.at = (self.name, number, index)
                self._apply(decision, now)

    def _apply(self, event: Event, now: int) -> None:
        match event:
            case JobAccepted():
                self.queues.add(event)
            case JobChanged():
                self.queues.drop(event.job_id)
                self.displacements.dropped(event.job_id)
            case GangsQueued():
                self.task_records.queued(event, now)
            case GangsAdmitted():
                self.task_records.admitted(event, now)
            case TasksPlaced():
                self.task_records.placed(event, now)
            case RunsEnded():
                self.displacements.ended(event, now)
                self.task_records.ended(event, now)
            case PreemptionAnswered():
                self.displacements.answered(event, now, self.cell["cell"].settings.defer_for_ms)
                self.task_records.answered(event, now)
            case PreemptionAsked():
                self.requests.add(event, self._input.cause)
            case PreemptionsOrdered():
                self.requests.close(event, now)
                self.displacements.ordered(event)
                self.task_records.ordered(event, now)
            case PreemptionRefused():
                self.requests.close(event, now)
            case RightsSet():
                self.rights.set(event, now)
            case EntitlementsSet():
                self.reports.set(event, now)
                self.rights.mark_reported(event)
            case TimerPassed():
                self.cell.change("cell").timer_ms = now
                self.displacements.expire(now)
                self.rights.expire(now)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        this = Pass(now, caught_up, now, Budget(budget))
        if len(self.requests.table):
            return self.requests.decide(this)
        out = self.rights.decide(this)
        due = self.rights.next_ms()
        if not out and due is not None and due <= now:
            out.append(TimerPassed(machine=self.name, due_ms=now))
        return out

    def next_wakeup(self) -> int | None:
        return self.rights.next_ms()


class World(Alone[Preempting]):
    """What is said to it. Amounts are CPU and memory."""

    def __init__(self, budget: int = 1000) -> None:
        super().__init__(Preempting, budget)
        self.numbers = 0
        self.rights: dict[Task, RightRow] = {}
        """As placement knows them."""
        self.givers: dict[str, GiverRow] = {}

    def pool(self, path: str, reservation: Sequence[int] = (0, 0), **fields: Any) -> None:
        row = self.machine.pools.put(path, root_row())
        row.reservation = wide(reservation)
        for name, value in fields.items():
            setattr(row, name, value)
        self.restart_copies()

    def settings(self, **fields: Any) -> None:
        row = self.machine.cell.change("cell")
        row.settings = msgspec.structs.replace(row.settings, **fields)
        self.restart_copies()

    def entitle(self, **pools: Sequence[int]) -> list[Event]:
        vectors = [wide(amount) for amount in pools.values()]
        column = pack_longs([amount for vector in vectors for amount in vector])
        event = EntitlementsSet(
            pools=tuple(f"/{name}" for name in pools),
            resources=STANDARD_KINDS.names,
            entitlement=column,
            demand=column,
            allocation=column,
            placed=column,
        )
        return self.hear(self.decided(event))

    def submit(self, job_id: str, pool: str, instances: int, need: Sequence[int], **spec: Any) -> None:
        amounts = {name: amount for name, amount in zip(("cpu", "memory"), need, strict=False) if amount}
        fields = {"kind": "batch", "instances": instances} | shaped(amounts) | spec
        self.peer("lifecycle", JobAccepted(job_id=job_id, jobs_offset=0, pool=pool, **fields))

    def admit(self, job_id: str, first: int, count: int, run: int = 1, entitled: int = 1, gang: int = 0) -> list[Event]:
        rows = ranges([(job_id, first, count, run, gang)])
        self.peer("lifecycle", GangsQueued(**rows, admitted=pack_ints([0])))
        return self.hear(self.decided(GangsAdmitted(**rows, entitled=pack_ints([entitled]))))

    def place(self, *runs: Run) -> list[Event]:
        fields = {"host_ids": ("h",), "host_session": pack_longs([1]), "host": pack_ints([0] * len(runs))}
        return self.hear(self.peer("placement", TasksPlaced(**columns(runs), **fields)))

    def run(self, job_id: str, pool: str, instances: int, need: Sequence[int], entitled: int = 1, **spec: Any) -> None:
        """Submits, admits and places."""
        self.submit(job_id, pool, instances, need, **spec)
        gang = int(spec.get("gang_min", 0) > 1)
        self.admit(job_id, 0, instances, entitled=entitled, gang=gang)
        self.place(*((job_id, instance, 1) for instance in range(instances)))

    def end(self, *runs: Run, outcome: int = 1) -> list[Event]:
        zeros = pack_ints([0] * len(runs))
        event = RunsEnded(**columns(runs), outcome=pack_ints([outcome] * len(runs)), exit_code=zeros, kept=zeros)
        return self.hear(self.peer("lifecycle", event))

    def ask(
        self, job_id: str, first: int, count: int, *victims: tuple[str, int, int, Way], run: int = 1
    ) -> PreemptionsOrdered | PreemptionRefused:
        fields = columns([victim[:3] for victim in victims])
        fields["victim_run"] = fields.pop("run")
        event = PreemptionAsked(
            job_id=job_id,
            first=first,
            count=count,
            run=run,
            host_ids=("h",),
            tasks=pack_ints([count]),
            way=pack_ints([way for *_, way in victims]),
            **fields,
        )
        said = self.hear(self.peer("placement", event))
        (answer,) = of(said, PreemptionsOrdered) + of(said, PreemptionRefused)
        return answer

    def answered(self, order: PreemptionsOrdered, code: str, *runs: Run) -> list[Event]:
        cause = Cause(machine="entitlement", round=1, index=0)
        event = PreemptionAnswered(
            number=order.order, order=cause, code=code, victims=len(order.run) // 4, **columns(runs)
        )
        return self.hear(self.peer("lifecycle", event))

    def leave(self, order: PreemptionsOrdered) -> list[Event]:
        """The runs of an order are preempted, and it is answered."""
        names = zip(ints(order.job).tolist(), ints(order.instance).tolist(), ints(order.run).tolist(), strict=True)
        self.end(*((order.job_ids[job], instance, run) for job, instance, run in names), outcome=4)
        return self.answered(order, "LEFT")

    def pass_time(self, ms: int) -> list[Event]:
        """Time passes, from one wake-up to the next."""
        end, said = self.now + ms, []
        while (wakeup := self.machine.next_wakeup()) is not None and wakeup <= end:
            self.now = max(self.now, wakeup)
            said += self.quiet()
        self.now = end
        return self.hear(said + self.quiet())

    def hear(self, said: list[Event]) -> list[Event]:
        """Follows the rights as placement does: by what was said, and by nothing else."""
        for event in of(said, RightsSet):
            mirror = Rights(self.machine.shared, self.machine.claims)
            mirror._takers, mirror._givers, mirror._untimed = {}, {}, {}  # it marks nothing for the machine
            for task, right in self.rights.items():
                mirror.rights.put(task, right)
            for pool, giver in self.givers.items():
                mirror.givers.put(pool, giver)
            mirror.restored()
            mirror.set(event, self.now)
            self.rights, self.givers = dict(mirror.rights.items()), dict(mirror.givers.items())
        return said


def wide(amount: Sequence[int]) -> Vector:
    """CPU and memory as a vector over all kinds."""
    return tuple(amount) + (0,) * (KINDS - len(amount))
