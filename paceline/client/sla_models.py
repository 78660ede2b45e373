"""SLAs in the API's answers: budgets, what is used of them, and what waits for them."""

from typing import Any, TypedDict


class SlaBounds(TypedDict):
    """The bounds of a budget, each a number or a percentage such as 25%; null: there is none."""

    max_unavailable: int | str | None
    min_available: int | str | None


class SlaUse(TypedDict):
    """Instances that are missing, all for one reason."""

    what: str
    """Why, in words: stops for an update; waits for a place; runs on a silent host."""
    tasks: int
    instances: str
    """The first ranges of them."""
    until: str | None
    """When they count as available again, where that is known."""


class SlaWait(TypedDict):
    """Instances that are to be disrupted, and that sla doesn't let go now, all by one `code`."""

    code: str
    message: str
    tasks: int
    cause: str
    """The cause, such as DRAIN, PREEMPT or UPDATE; empty: not known."""
    since: str | None
    """Since when the first one is to go."""
    until: str | None
    """When they may go next, where that is known."""


class SlaHour(TypedDict):
    """The disruptions by others within the last hour, and how many are allowed."""

    allowed: int
    used: int
    until: str | None
    """When the first of these is an hour ago; null: there is none."""


class SlaGroupUse(TypedDict):
    """The group of a job, as far as its own budget depends on it."""

    group: str
    defined: bool
    """false: nobody has set it, so it has no budget."""
    allowed: int | None
    unavailable: int


class SlaState(TypedDict):
    """The budget of a job. Of its `wanted` instances `unavailable` are, by `used`, where `allowed` may be for planned
    disruptions; `slack` more may go now. `sla` is as in its specification; null: it has none, so nobody asks.
    """

    job_id: str
    pool: str
    kind: str
    sla: dict[str, Any] | None
    wanted: int
    available: int
    unavailable: int
    allowed: int
    slack: int
    used: list[SlaUse]
    waits: list[SlaWait]
    hour: SlaHour | None
    group: SlaGroupUse | None
    window: str | None
    """When it may be disrupted next, where its windows are closed now; null: at any time, or they are open."""
    at_risk: bool
    risk: str
    """Why its next planned disruption would be refused, or that it is below its bound; empty: neither."""


class SlaGroup(TypedDict):
    """A budget that jobs share. `allowed` of the `wanted` instances of all its jobs may be unavailable."""

    group: str
    bounds: SlaBounds
    set_at: str | None
    wanted: int
    unavailable: int
    allowed: int
    slack: int
    jobs: list[SlaState]
    """Empty in lists."""
    members: int


class SlasPage(TypedDict):
    """A page of the SLAs of open jobs, by job."""

    slas: list[SlaState]
    next_page_token: str


class SlaGroupList(TypedDict):
    """All groups, by name."""

    groups: list[SlaGroup]
