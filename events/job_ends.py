"""Whether a job is over."""

from events.codes import ENDED_JOBS
from events.records.lifecycle import JobChanged

_ENDED = frozenset(map(str, ENDED_JOBS))


def is_over(event: JobChanged) -> bool:
    """Whether no run of a job can begin any more. A service that was stopped has ended too, and can be started."""
    return event.state in _ENDED and not event.kept
