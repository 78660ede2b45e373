"""The records of `schemas/job-states`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class JobStateChanged(Event, frozen=True, kw_only=True):
    """The state of a job changed. Key: the job; with the code ID_TAKEN paceline.jobs:OFFSET of the submission that was
    refused, for the job of that id goes on.
    """

    topic: ClassVar[str] = "paceline.job-states"

    event_id: str
    """CELL/MACHINE/ROUND/INDEX/ITEM, here and in the header paceline-event-id; the same for a repeat and for no other
    event.
    """

    cell: int
    """The cell."""

    machine: str
    """lifecycle."""

    round: int
    """Number of the round, growing."""

    index: int
    """Place of the decision in its round, from 0."""

    item: int
    """Place of the job in the decision, from 0."""

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    job_id: str
    """The job."""

    state: str
    """PENDING (accepted), REJECTED, RUNNING, KILLING, SUCCEEDED, FAILED or KILLED."""

    code: str
    """Reason code of a refusal; empty: none."""

    message: str
    """The refusal with its numbers; else empty."""

    jobs_offset: int | None
    """Where the submission stands in the topic of jobs, for PENDING by acceptance and REJECTED."""

    pool: str | None
    """The pool of a job that was accepted just now."""

    instances: int | None
    """Number of tasks of a job that was accepted just now."""

    succeeded: int
    """Tasks that have succeeded."""

    failed: int
    """Tasks that have failed for good."""

    killed: int
    """Tasks that were stopped."""


ALL: tuple[type[Event], ...] = (JobStateChanged,)
