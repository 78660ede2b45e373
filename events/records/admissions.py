"""The records of `schemas/admissions`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class GangAdmitted(Event, frozen=True, kw_only=True):
    """A gang may be placed; its pool holds its needs from now on. Key: JOB/FIRST INSTANCE."""

    topic: ClassVar[str] = "paceline.admissions"

    event_id: str
    """CELL/MACHINE/ROUND/INDEX/ITEM, here and in the header paceline-event-id; the same for a repeat and for no other
    event.
    """

    cell: int
    """The cell."""

    machine: str
    """entitlement."""

    round: int
    """Number of the round, growing."""

    index: int
    """Place of the decision in its round, from 0."""

    item: int
    """Place of the gang in the decision, from 0."""

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    job_id: str
    """The job."""

    first: int
    """Its first instance."""

    count: int
    """Instances in the gang, admitted and placed whole; 1: a gang of one."""

    run: int
    """The run that each instance is at."""

    entitled: bool = True
    """Whether it is within the entitlement of its pool; false: borrowed, it runs on what others don't use now."""


ALL: tuple[type[Event], ...] = (GangAdmitted,)
