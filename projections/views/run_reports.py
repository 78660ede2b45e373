"""Reports of hosts about runs beside their states: reasons, how processes ended, and what they used.

The views take nothing else from the topic of tasks: how tasks stand is what lifecycle decided.
"""

from collections.abc import Iterator

import numpy as np

from events.columns import I32, I64, ints, longs, same_length
from events.records.tasks import RunsReported

Row = tuple[str, int, int, int, int, str, int, int, int, int]
"""A `RunReportRow`."""


def rows_of(event: RunsReported, offset: int) -> Iterator[Row]:
    """A row for each run of which more is said than its state. A record whose columns don't fit has none."""
    if not same_length(event.job_ids, event.job, event.instance, event.run, event.state):
        return
    items = len(ints(event.job))
    columns_said = (ints(event.reason), ints(event.signal), ints(event.out_of_memory))
    used = (longs(event.cpu_ms), longs(event.memory_kib))
    reason, *columns = [
        *(_filled(column, items) for column in columns_said),
        *(_filled(column, items) for column in used),
    ]
    if any(len(column) != items for column in (reason, *columns)):
        return
    reason = np.where((reason > 0) & (reason <= len(event.reasons)), reason, 0)
    some = np.flatnonzero(np.any([reason, *columns], axis=0))
    job, instance, run, state = (ints(column) for column in (event.job, event.instance, event.run, event.state))
    texts = ("", *event.reasons)
    for at in some.tolist():
        key = event.job_ids[job[at]], int(instance[at]), int(run[at])
        signal, out_of_memory, cpu_ms, memory_kib = (int(column[at]) for column in columns)
        yield *key, offset, int(state[at]), texts[reason[at]], signal, out_of_memory, cpu_ms, memory_kib


def _filled(column: I32 | I64, items: int) -> I32 | I64:
    """A column, or as many zeros as are needed where it is empty."""
    return column if len(column) else np.zeros(items, dtype=np.int64)
