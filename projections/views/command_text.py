"""The text by which lists find a job, beside its id."""

from events.records.jobs import JobSubmitted

SEARCHED_MAX = 200
"""Characters of a command: it stands in an index."""


def searched(job: JobSubmitted) -> str:
    """The beginning of its command."""
    return " ".join(job.command)[:SEARCHED_MAX]
