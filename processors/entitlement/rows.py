"""The rows of entitlement's tables, and arithmetic on amounts: four integers, CPU, memory, disk, GPU."""

from collections.abc import Mapping, Sequence

import msgspec

from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobChanged, RunsEnded
from events.records.parts import Cause
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.resources import STANDARD_KINDS
from processors.state.causes import CauseRow, newest
from processors.state.cell_settings import KindRow, SettingsRow
from processors.state.record_rows import row_of

Amount4 = tuple[int, int, int, int]
NOTHING: Amount4 = (0, 0, 0, 0)
NO_LIMIT: Amount4 = (-1, -1, -1, -1)


def four(amounts: Mapping[str, int], default: int = 0) -> Amount4:
    """An amount of a record; `default` is what those have that it leaves out."""
    cpu, memory, disk, gpu = (amounts.get(name, default) for name in STANDARD_KINDS.names)
    return cpu, memory, disk, gpu


def named(amounts: Sequence[int]) -> dict[str, int]:
    """An amount as records hold it."""
    return STANDARD_KINDS.amounts(amounts)


def plus(a: Sequence[int], b: Sequence[int], times: int = 1) -> Amount4:
    """A + times * b."""
    return a[0] + times * b[0], a[1] + times * b[1], a[2] + times * b[2], a[3] + times * b[3]


UNBOUNDED = 1 << 40


def fits(need: Sequence[int], room: Sequence[int]) -> int:
    """How often `need` goes into `room`; `UNBOUNDED` where nothing is needed."""
    times = UNBOUNDED
    for want, have in zip(need, room, strict=True):
        if want > 0:
            times = min(times, have // want)
    return max(0, times)


class PoolRow(msgspec.Struct, array_like=True):
    """A pool. `served` grows with each admission of the cell; of a pool it is that of its last one. `starving_ms` is
    since when work of it waits while it is below its reservation; 0: it doesn't, `WEIGHED`: nobody can leave for it
    until something changes.
    """

    reservation: Amount4
    limit: Amount4
    share: Amount4
    open_jobs_max: int = 0
    open_tasks_max: int = 0
    served: int = 0
    starving_ms: int = 0
    starving_by: CauseRow | None = None
    """The EntitlementsSet since which it starves, or the RunsAvailable by which others can give again."""

    def starve(self, since_ms: int, by: CauseRow | None) -> None:
        """Since when, and by which decision, it starves; 0 and None: it doesn't."""
        self.starving_ms, self.starving_by = since_ms, by


WEIGHED = -1
ORDERED = 1
"""Tasks of a job were ordered to leave, and no task of it has become available since."""
DEFERRED = 2
"""Sla has deferred such an order: its tasks aren't chosen until one of them becomes available."""


class SaidRow(msgspec.Struct, array_like=True):
    """What EntitlementsSet last said of a pool."""

    entitlement: Amount4 = NOTHING
    demand: Amount4 = NOTHING
    allocation: Amount4 = NOTHING


class JobRow(msgspec.Struct, array_like=True):
    """A job. `instances` is its highest instance plus 1; `queued`, `held` count its tasks that wait and hold. A job
    that was returned, or would be refused by an empty cell, is aside: until `not_before_ms`, or with `for_change` until
    hosts or pools change. `returned` is why, `said` the code of its last GangsHeld.
    """

    number: int
    base: int
    instances: int
    pool: str
    need: Amount4
    priority: int
    preemptible: bool
    gang_min: int
    queued: int = 0
    held: int = 0
    not_before_ms: int = 0
    for_change: bool = False
    returned: str = ""
    said: str = ""
    preempting: int = 0
    """Whether tasks of it may be ordered to leave: 0, or `ORDERED`, they may; `DEFERRED`: they may not."""

    @property
    def aside(self) -> bool:
        """Whether it doesn't stand in line."""
        return self.for_change or self.not_before_ms > 0


class CellRow(msgspec.Struct, array_like=True):
    """The cell: what its hosts have together, and the settings that entitlement decides by."""

    capacity: Amount4 = NOTHING
    version: int = 0
    hosts: int = 0
    preemption_delay_ms: int = 2_000
    said_ms: int = 0
    """When EntitlementsSet was said last."""
    served: int = 0
    """Counts admissions."""
    resources: tuple[KindRow, ...] = ()
    """The kinds that were added to the four."""
    last_by: CauseRow | None = None
    """The last change of queues, pools or capacity."""
    room_by: CauseRow | None = None
    """The last one that gave room."""
    changed_by: list[CauseRow] = []
    """The changes of pools and capacity since EntitlementsSet was said last."""

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What leads to the next EntitlementsSet."""
        last = [self.last_by] if self.last_by else []
        return tuple(change.record for change in self.changed_by or last)

    def note(self, event: Event, cause: CauseRow) -> None:
        """Remembers what changed queues, pools or capacity, for the decisions that it leads to."""
        self.last_by = cause
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


class RemovedRow(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """A PoolRemoved."""

    command_id: str
    path: str


class ConfiguredRow(msgspec.Struct, frozen=True, array_like=True, tag="configured"):
    """A CellConfigured."""

    command_id: str
    settings: SettingsRow


PoolFact = DefinedRow | RemovedRow | ConfiguredRow


class AskRow(msgspec.Struct, array_like=True):
    """A fact about pools that waits for its answer."""

    fact: PoolFact


def ask_row(event: PoolDefined | PoolRemoved | CellConfigured) -> AskRow:
    """The row of a fact."""
    match event:
        case PoolRemoved():
            return AskRow(RemovedRow(event.command_id, event.path))
        case CellConfigured():
            return AskRow(ConfiguredRow(event.command_id, row_of(SettingsRow, event)))
    return AskRow(row_of(DefinedRow, event))
