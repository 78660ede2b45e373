"""The records of `schemas/task-states`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class TaskStateChanged(Event, frozen=True, kw_only=True):
    """The state of the newest run of a task changed. Key: JOB/INSTANCE."""

    topic: ClassVar[str] = "paceline.task-states"

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
    """Place of the run in the decision, from 0."""

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    job_id: str
    """The job."""

    instance: int
    """Instance of the job, from 0."""

    run: int
    """Number of the run, from 1."""

    state: str
    """QUEUED, ORDERED (on a host), RUNNING, STOPPING or ENDED."""

    host_id: str | None
    """The host, for ORDERED and STOPPING."""

    outcome: str | None
    """Of ENDED, and what STOPPING leads to: SUCCEEDED, FAILED, STOPPED, PREEMPTED, LOST or WITH_GANG."""

    exit_code: int | None
    """Exit code of ENDED; 128 + n after signal n; null: none."""


ALL: tuple[type[Event], ...] = (TaskStateChanged,)
