"""The rows of entitlement's tables. Amounts are vectors over the kinds that the cell knows (`events/resources.py`)."""

import msgspec
from msgspec.structs import replace

from events.cell_settings import DEFAULTS, Settings, SettingsChange, change_of, changed
from events.host_pools import kind_number
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobChanged, RunsEnded
from events.records.parts import Cause, HostPoolCapacity
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved, RebalanceRequested
from events.resources import REVOCABLE, STANDARD, STANDARD_KINDS, Kinds, Vector, in_order
from events.work_classes import precedence_of
from processors.entitlement.access_rows import AccessEvent, AccessFact, access_fact
from processors.state.causes import CauseRow, all_recorded, newest
from processors.state.record_rows import row_of


class CreditRow(msgspec.Struct, frozen=True, array_like=True):
    """The credit that a pool saves for a gang that needs more than its share: `credit` at `since_ms`, in amounts times
    milliseconds, `rate` what is added to it each millisecond, `full` what suffices for a turn (0: not short of it).
    """

    credit: Vector
    rate: Vector
    full: Vector
    since_ms: int


class TurnRow(msgspec.Struct, frozen=True, array_like=True):
    """The gang whose turn it is in a pool, and what the pool is entitled to at least meanwhile."""

    job_id: str
    first: int
    count: int
    run: int
    floor: Vector
    since_ms: int


class PoolRow(msgspec.Struct, array_like=True):
    """A pool. `served` grows with each admission of the cell; of a pool it is that of its last one."""

    reservation: Vector
    limit: Vector
    """`UNLIMITED` where there is none."""
    share: Vector
    share_default: int = 1
    """The share of kinds that its definition doesn't name."""
    open_jobs_max: int = 0
    open_tasks_max: int = 0
    static: tuple[str, ...] = ()
    """The kinds whose reservation isn't lent."""
    preemption_delay_ms: int | None = None
    """None: as the cell has it; -1: others never leave for it."""
    controllers_percent: int = 100
    closed: bool = False
    owners: tuple[str, ...] = ()
    description: str = ""
    served: int = 0
    credit: CreditRow | None = None
    turn: TurnRow | None = None
    goes_on: bool = False
    """The last turn ended with credit left: the next one begins at once."""
    slack_percent: int = 20
    """The part of its reservation, CPU aside, that revocable work may be entitled to."""
    strategy: str = ""
    """The strategy of jobs that name none; empty: that of the pool above."""
    host_pools: tuple[str, ...] = ()
    """The host pools that its jobs may use, the first choice first; empty: those of the pool above."""

    @property
    def is_saving(self) -> bool:
        """Whether it saves for a gang that needs more than its share."""
        return self.credit is not None and any(self.credit.full)

    def widened(self, kinds: Kinds) -> "PoolRow":
        """The row as it is when the cell knows more kinds."""
        credit, turn = self.credit, self.turn
        if credit is not None:
            saved, rate, full = (kinds.widened(each) for each in (credit.credit, credit.rate, credit.full))
            credit = CreditRow(saved, rate, full, credit.since_ms)
        return replace(
            self,
            reservation=kinds.widened(self.reservation),
            limit=kinds.widened(self.limit, UNLIMITED),
            share=kinds.widened(self.share, self.share_default),
            credit=credit,
            turn=turn and replace(turn, floor=kinds.widened(turn.floor)),
        )


UNLIMITED = -1


def root_row() -> PoolRow:
    """The row of the root, which each cell has."""
    kinds = len(STANDARD_KINDS)
    return PoolRow((0,) * kinds, (UNLIMITED,) * kinds, (1,) * kinds)


MEANINGS = ("entitlement", "demand", "allocation", "placed")


class ReportedRow(msgspec.Struct, array_like=True):
    """The numbers of a pool in the last EntitlementsSet about it."""

    entitlement: Vector
    demand: Vector
    allocation: Vector
    placed: Vector

    def widened(self, kinds: Kinds) -> "ReportedRow":
        """The row as it is when the cell knows more kinds."""
        return ReportedRow(*(kinds.widened(getattr(self, meaning)) for meaning in MEANINGS))


class RefusalRow(msgspec.Struct, frozen=True, array_like=True):
    """Why units weren't admitted: a code (`Code`), and the pool whose bound it is."""

    code: str
    at: str


class PartRow(msgspec.Struct, array_like=True):
    """A part of a job (`queues.py`): counts of its tasks, and why none of them can be admitted before hosts or pools
    change.
    """

    first: int
    """Its first instance when it came."""
    tasks: int
    queued: int = 0
    entitled: int = 0
    """Those that hold and are entitled."""
    borrowed: int = 0
    """Those that hold and are not."""
    claims: int = 0
    """Entitled ones without a place."""
    loans: int = 0
    """Borrowed ones without a place."""
    returned: str = ""
    """The code with which placement gave it back for good; it is aside then, and claims nothing."""
    refusal: RefusalRow | None = None
    """The reason in the last GangsHeld about it."""
    limited_ms: int = 0
    """Since when a limit holds up the first of it, as it was told; 0: none does."""

    @property
    def held(self) -> int:
        """Those that hold."""
        return self.entitled + self.borrowed


class JobRow(msgspec.Struct, array_like=True):
    """A job. `instances` is its highest instance plus 1; `parts` are by their keys."""

    number: int
    base: int
    instances: int
    pool: str
    priority: int
    preemptible: bool
    controller: bool
    service: bool
    gang_min: int
    parts: dict[int, PartRow]
    daemon: bool = False
    """Its tasks are outside of the shares: bounded by limits alone, ahead of other work, and never preempted."""

    @property
    def precedence(self) -> int:
        """Its priority; that of daemons is above all others."""
        return precedence_of(self.priority, self.daemon)

    @property
    def kind(self) -> int:
        """Its kind for host pools."""
        return kind_number(self.service, self.preemptible)


class BackoffRow(msgspec.Struct, frozen=True, array_like=True):
    """Units of a shape and size of which borrowed ones were returned to a pool: none is lent to before `until_ms`; then
    for `delay_ms` a return doubles that.
    """

    until_ms: int
    delay_ms: int


class OrderRow(msgspec.Struct, array_like=True):
    """An order to preempt that isn't answered. Its runs have its number in the column `leaving`."""

    for_pool: str
    for_job: str
    for_first: int
    for_count: int
    for_run: int
    job_ids: tuple[str, ...]
    """The jobs of the runs that leave."""
    until_ms: int
    """From when on those that haven't left are late; `hold_for` counts as it was when the order was given."""
    limit: bool
    """Amounts are freed under a limit, not hosts."""


class KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """The amount that placement keeps free on reserved hosts, by the first instance of a gang and its job."""

    run: int
    amount: Vector

    def widened(self, kinds: Kinds) -> "KeptRow":
        """The row as it is when the cell knows more kinds."""
        return KeptRow(self.run, kinds.widened(self.amount))


class IdleRow(msgspec.Struct, frozen=True, array_like=True):
    """The least that was idle in each of the last stretches of time; `number` is that of the newest one."""

    number: int = 0
    least: list[Vector] = []


class SteadyRow(msgspec.Struct, frozen=True, array_like=True):
    """The most that was claimed in each of the last stretches of time, by what was said then; `number` is that of the
    newest one, `last` what was said last.
    """

    number: int
    most: list[Vector]
    last: Vector = ()

    def widened(self, kinds: Kinds) -> "SteadyRow":
        """The row as it is when the cell knows more kinds."""
        return SteadyRow(self.number, [kinds.widened(each) for each in self.most], kinds.widened(self.last))


class HostPoolRow(msgspec.Struct, frozen=True, array_like=True):
    """A host pool: the kinds of jobs that use it by themselves, and the amounts that its hosts have for others than
    daemons, by name of the resource.
    """

    kinds: tuple[str, ...]
    capacity: dict[str, int]


def host_pool_row(report: HostPoolCapacity) -> HostPoolRow:
    """The row of a host pool; daemons stand beside what pools share."""
    amounts = {name: amount - report.daemons.get(name, 0) for name, amount in in_order(report.capacity).items()}
    return HostPoolRow(report.kinds, {name: max(0, amount) for name, amount in amounts.items()})


class CellRow(msgspec.Struct, array_like=True):
    """The cell: what it has, its hosts together and its licences, and its settings."""

    capacity: Vector = (0,) * len(STANDARD_KINDS)
    version: int = 0
    hosts: int = 0
    settings: Settings = DEFAULTS
    largest: Vector = ()
    """The most that one host offers of each kind, and of licences what the cell has; empty: not known."""
    idle: IdleRow = msgspec.field(default_factory=IdleRow)
    """The least amount that was idle lately."""
    reported_ms: int = 0
    """When EntitlementsSet was said last."""
    is_news: bool = False
    """Whether a pool may have other numbers since."""
    served: int = 0
    """Counts admissions."""
    orders: int = 0
    """Counts orders to preempt."""
    timer_ms: int = 0
    """When TimerPassed was said last."""
    last_by: CauseRow | None = None
    """The last change of queues, pools or capacity."""
    room_by: CauseRow | None = None
    """The last one that gave room."""
    changed_by: list[CauseRow] = []
    """The changes of pools and capacity since EntitlementsSet was said last."""
    host_pools: dict[str, HostPoolRow] = {}
    """The host pools of the cell, by name; none: pools may use all hosts."""
    waits: dict[str, dict[str, int]] = {}
    """By host pool the amounts of which HostPoolsWanted said last that they wait."""

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the next EntitlementsSet."""
        last = [self.last_by] if self.last_by else []
        return all_recorded(self.changed_by or last)

    def lacks(self, need: Vector) -> dict[int, int]:
        """The kinds of which no host has enough for a task, and the most that one has."""
        pairs = enumerate(zip(need, self.largest or need, strict=True))
        return {kind: most for kind, (want, most) in pairs if want > most}

    def owned(self, need: Vector) -> Vector:
        """A need without what it asks of the slack of hosts."""
        names = [kind.name for kind in self.settings.resources]
        at = len(STANDARD) + names.index(REVOCABLE) if REVOCABLE in names else -1
        return tuple([0 if kind == at else want for kind, want in enumerate(need)])

    def configure(self, change: SettingsChange) -> Kinds:
        """Changes settings; returns the kinds that the cell knows with them."""
        self.settings = changed(self.settings, change)
        kinds = Kinds(self.settings.resources)
        self.capacity = kinds.widened(self.capacity)
        self.largest = self.largest and kinds.widened(self.largest)
        self.idle = IdleRow(self.idle.number, [kinds.widened(each) for each in self.idle.least])
        return kinds

    def note(self, event: Event, cause: CauseRow, is_news: bool) -> None:
        """Remembers what changed queues, pools or capacity, for the decisions that it leads to; `is_news`: sums of
        pools are others.
        """
        self.last_by = cause
        self.is_news = self.is_news or is_news
        if isinstance(event, RunsEnded | GangsReturned | JobChanged | PoolAnswered | CapacityChanged):
            self.room_by = cause
        if isinstance(event, PoolAnswered | CapacityChanged):
            self.changed_by = newest(self.changed_by, cause)


class DefinedRow(msgspec.Struct, frozen=True, array_like=True, tag="defined"):
    """A PoolDefined."""

    command_id: str
    path: str
    reservation: dict[str, int]
    limit: dict[str, int]
    share: dict[str, int]
    share_default: int
    open_jobs_max: int
    open_tasks_max: int
    cell: int
    static: tuple[str, ...] = ()
    preemption_delay_ms: int | None = None
    controllers_percent: int = 100
    closed: bool = False
    owners: tuple[str, ...] = ()
    description: str = ""
    slack_percent: int = 20
    strategy: str = ""
    host_pools: tuple[str, ...] = ()


class RemovedRow(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """A PoolRemoved."""

    command_id: str
    path: str


class ConfiguredRow(msgspec.Struct, frozen=True, array_like=True, tag="configured"):
    """A CellConfigured."""

    command_id: str
    change: SettingsChange


class RebalanceRow(msgspec.Struct, frozen=True, array_like=True, tag="rebalance"):
    """A RebalanceRequested."""

    command_id: str
    job_id: str
    max_moves: int = 0
    by_setting: bool = False


PoolFact = DefinedRow | RemovedRow | ConfiguredRow


PoolEvent = PoolDefined | PoolRemoved | CellConfigured | RebalanceRequested


class AskRow(msgspec.Struct, array_like=True):
    """A fact about pools, or about who may what in them, that waits for its answer."""

    fact: PoolFact | AccessFact | RebalanceRow


def ask_row(event: PoolEvent | AccessEvent) -> AskRow:
    """The row of a fact."""
    match event:
        case PoolDefined():
            return AskRow(row_of(DefinedRow, event))
        case PoolRemoved():
            return AskRow(RemovedRow(event.command_id, event.path))
        case RebalanceRequested():
            return AskRow(RebalanceRow(event.command_id, event.job_id, event.max_moves, event.by_setting))
        case CellConfigured():
            return AskRow(ConfiguredRow(event.command_id, change_of(event)))
    return AskRow(access_fact(event))
