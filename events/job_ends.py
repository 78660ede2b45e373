"""Whether a job is over."""

from events.codes import ENDED_JOBS
from events.records.lifecycle import JobChanged


def is_over(event: JobChanged) -> bool:
    """Whether no run of a job can begin any more. A service that was stopped has ended too, and can be started."""
    return event.state in ENDED_JOBS and not event.kept
