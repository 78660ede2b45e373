"""The rows of entitlement's tables. Amounts are vectors over the kinds that the cell knows (`events/resources.py`)."""

import msgspec
from msgspec.structs import replace

from events.cell_settings import DEFAULTS, Settings, SettingsChange, change_of, changed
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobChanged, RunsEnded
from events.records.parts import Cause
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.resources import STANDARD_KINDS, Kinds, Vector
from processors.state.causes import CauseRow, newest
from processors.state.record_rows import row_of
from processors.state.shapes import MIXED


class PoolRow(msgspec.Struct, array_like=True):
    """A pool. `served` grows with each admission of the cell; of a pool it is that of its last one. `starving_ms` is
    since when work of it waits while it is below its reservation; 0: it doesn't, `WEIGHED`: nobody can leave for it
    until something changes.
    """

    reservation: Vector
    limit: Vector
    """`UNLIMITED` where there is none."""
    share: Vector
    share_default: int = 1
    """The share of kinds that its definition doesn't name."""
    open_jobs_max: int = 0
    open_tasks_max: int = 0
    served: int = 0
    starving_ms: int = 0
    starving_by: CauseRow | None = None
    """The EntitlementsSet since which it starves, or the RunsAvailable by which others can give again."""

    def starve(self, since_ms: int, by: CauseRow | None) -> None:
        """Since when, and by which decision, it starves; 0 and None: it doesn't."""
        self.starving_ms, self.starving_by = since_ms, by

    def widened(self, kinds: Kinds) -> "PoolRow":
        """The row as it is when the cell knows more kinds."""
        return replace(
            self,
            reservation=kinds.widened(self.reservation),
            limit=kinds.widened(self.limit, UNLIMITED),
            share=kinds.widened(self.share, self.share_default),
        )


WEIGHED = -1
UNLIMITED = -1
ORDERED = 1
"""Tasks of a job were ordered to leave, and no task of it has become available since."""
DEFERRED = 2
"""Sla has deferred such an order: its tasks aren't chosen until one of them becomes available."""


def root_row() -> PoolRow:
    """The row of the root, which each cell has."""
    kinds = len(STANDARD_KINDS)
    return PoolRow((0,) * kinds, (UNLIMITED,) * kinds, (1,) * kinds)


MEANINGS = ("entitlement", "demand", "allocation")


class ReportedRow(msgspec.Struct, array_like=True):
    """What EntitlementsSet last said of a pool."""

    entitlement: Vector
    demand: Vector
    allocation: Vector

    def widened(self, kinds: Kinds) -> "ReportedRow":
        """The row as it is when the cell knows more kinds."""
        return ReportedRow(*(kinds.widened(getattr(self, meaning)) for meaning in MEANINGS))


class PartRow(msgspec.Struct, array_like=True):
    """A part of a job: its tasks of one shape. `queued`, `held` count those that wait and that hold. A part that was
    returned, or would be refused by an empty cell, is aside: until `not_before_ms`, or with `for_change` until hosts or
    pools change. `returned` is why, `reported_code` the code of its last GangsHeld.
    """

    first: int
    """Its first instance when it came."""
    tasks: int
    queued: int = 0
    held: int = 0
    not_before_ms: int = 0
    for_change: bool = False
    returned: str = ""
    reported_code: str = ""

    @property
    def aside(self) -> bool:
        """Whether it doesn't stand in line."""
        return self.for_change or self.not_before_ms > 0


class JobRow(msgspec.Struct, array_like=True):
    """A job. `instances` is its highest instance plus 1; `parts` are by shape."""

    number: int
    base: int
    instances: int
    pool: str
    priority: int
    preemptible: bool
    gang_min: int
    parts: dict[int, PartRow]
    preempting: int = 0
    """Whether tasks of it may be ordered to leave: 0, or `ORDERED`, they may; `DEFERRED`: they may not."""

    @property
    def shape(self) -> int:
        """The number of the shape that all its tasks have, or `MIXED`."""
        return next(iter(self.parts)) if len(self.parts) == 1 else MIXED


class CellRow(msgspec.Struct, array_like=True):
    """The cell: what it has, its hosts together and its licences, and its settings."""

    capacity: Vector = (0,) * len(STANDARD_KINDS)
    version: int = 0
    hosts: int = 0
    settings: Settings = DEFAULTS
    reported_ms: int = 0
    """When EntitlementsSet was said last."""
    served: int = 0
    """Counts admissions."""
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

    def configure(self, change: SettingsChange) -> Kinds:
        """Changes settings; returns the kinds that the cell knows with them."""
        self.settings = changed(self.settings, change)
        kinds = Kinds(self.settings.resources)
        self.capacity = kinds.widened(self.capacity)
        return kinds

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
    change: SettingsChange


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
            return AskRow(ConfiguredRow(event.command_id, change_of(event)))
    return AskRow(row_of(DefinedRow, event))
