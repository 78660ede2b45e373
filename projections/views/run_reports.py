"""What hosts say of runs in words: the reasons in reports.

The views take nothing else from the topic of tasks: how tasks stand is what lifecycle decided.
"""

from collections.abc import Iterator

from events.columns import ints, same_length
from events.records.tasks import RunsReported


def reasons_of(event: RunsReported) -> Iterator[tuple[str, int, int, str]]:
    """Job, instance, run and reason of each run with a reason. A record whose columns don't fit has none."""
    if not event.reason or not same_length(event.job_ids, event.job, event.instance, event.run, event.reason):
        return
    job, instance, run, reason = (ints(column) for column in (event.job, event.instance, event.run, event.reason))
    for at in (reason > 0).nonzero()[0].tolist():
        if reason[at] <= len(event.reasons):
            yield event.job_ids[job[at]], int(instance[at]), int(run[at]), event.reasons[reason[at] - 1]
