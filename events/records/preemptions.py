"""The records of `schemas/preemptions`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class TaskPreempted(Event, frozen=True, kw_only=True):
    """A run must leave for a gang that is entitled to what it holds. Key: JOB/INSTANCE."""

    topic: ClassVar[str] = "paceline.preemptions"

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
    """Place of the run in the decision, from 0."""

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    job_id: str
    """The job."""

    instance: int
    """Instance of the job, from 0."""

    run: int
    """Number of the run, from 1."""

    for_pool: str
    """The pool of the gang."""

    from_pool: str
    """The pool of the run; the same as for_pool where a gang of its own pool gets it."""

    code: str
    """Reason code."""

    order: int = 0
    """Number of the order in its cell: all of its runs leave, or none."""

    for_job: str = ""
    """The job that gets what the run holds."""


ALL: tuple[type[Event], ...] = (TaskPreempted,)
