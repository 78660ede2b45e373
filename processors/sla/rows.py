"""The rows of sla's tables."""

import msgspec

from events.sla import Bounds
from processors.state.causes import CauseRow
from processors.state.record_rows import SlaRow

NO_POLICY = SlaRow()


class JobRow(msgspec.Struct, array_like=True):
    """A job with an SLA: its place in the arena and how many of its instances may be unavailable. `instances`: its
    highest instance plus 1.

    Invariant: what sla allows leaves no more unavailable than the limit and what there is of healthy surplus. Only what
    nobody asked for (a failure, the loss of a host, a stricter SLA) leads to more.
    """

    base: int
    instances: int
    max_unavailable: int | None
    policy: SlaRow | None = None
    kind: str = ""
    """That of JobAccepted; empty: the job got its SLA later, and it isn't known."""
    priority: int = 0
    surplus: int = 0
    """So many more instances than wanted were set."""
    serial: int = 0
    """The number of times that its surplus became more than 0."""
    hour: list[tuple[int, int]] = []
    """The seconds at which others were allowed to disrupt it within the last hour, ascending, with how many at each."""
    closes_s: int = 0
    """The second since 1970 at which its windows are closed, as looked at last; 0: they are."""
    opens_s: int = 0
    """The second at which one opens next; 0: none does."""
    changed_by: CauseRow | None = None
    """The last change in it, or in the disruptions of it, while one waited."""
    surplus_by: CauseRow | None = None
    """The last change in it while it replaced before."""

    @property
    def rules(self) -> SlaRow:
        """Its policy, or that of a job without one."""
        return self.policy or NO_POLICY


class GroupRow(msgspec.Struct, frozen=True, array_like=True):
    """A budget that jobs share."""

    max_unavailable: int | None = None
    max_unavailable_percent: int | None = None
    min_available: int | None = None
    min_available_percent: int | None = None

    @property
    def bounds(self) -> Bounds:
        """Its bounds."""
        return Bounds.of(self.max_unavailable, self)


class HostRow(msgspec.Struct, array_like=True):
    """A host with runs of jobs with an SLA; the column `host` has its number plus 1."""

    number: int
    session: int
    silent_s: int = 0
    """Since when it isn't heard; 0: it is."""
