"""The rows of SLAs: of each open job that has one, and the budgets that jobs share.

Each column has one owning topic, see `rows.py`.
"""

import msgspec


class SlaRow(msgspec.Struct):
    """The SLA of a job that isn't over."""

    job_id: str
    max_unavailable: int
    """-1: it isn't a number."""
    policy: str
    """The rest, an `SlaPolicy` as JSON; empty: there is none."""
    shared: str
    """The group whose budget it shares; empty: none."""
    first_surplus: int = -1
    """The first instance that it has beyond the wanted ones, while some are replaced; -1: none."""
    started_s: int = 0
    """The second in which one of its runs became available last, or it got an SLA."""


class SlaGroupRow(msgspec.Struct):
    """A budget that jobs share; `bounds` are its `Bounds` as JSON."""

    name: str
    bounds: str
    set_ms: int
