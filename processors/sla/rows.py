"""The rows of sla's tables."""

import msgspec

from processors.state.causes import CauseRow


class JobRow(msgspec.Struct, array_like=True):
    """A job with an SLA: its place in the arena and how many of its instances may be unavailable. `instances`: its
    highest instance plus 1.

    Invariant: what sla allows leaves no more than `max_unavailable` unavailable. Only what nobody asked for (a failure,
    the loss of a host, a stricter SLA) leads to more.
    """

    base: int
    instances: int
    max_unavailable: int
    changed_by: CauseRow | None = None
    """The last change in it, or in the disruptions of it, while one waited."""
