"""Reports of hosts about runs beside their states: reasons, how processes ended, and what they used.

The views take nothing else from the topic of tasks: how tasks stand is what lifecycle decided.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from events.codes import LIVE_REPORTS, RunReport
from events.columns import I32, I64, same_length
from events.records.tasks import RunsReported

Row = tuple[str, int, int, int, str, int, str, int, int, int, int, int, int, int, int]
"""A `RunReportRow`."""
TOLD_TO_END = (RunReport.STOPPED, RunReport.SILENCED)
"""Reports of which no decision says the exit code: it tells how a run obeyed, not how it fared."""


def rows_of(event: RunsReported, offset: int) -> Iterator[Row]:
    """A row for each run of which more is said than its state. A record whose columns don't fit has none."""
    if not same_length(event.job_ids, event.job, event.instance, event.run, event.state) or not event.host_ids:
        return
    items = len(event.job_array)
    reason, job, instance = event.reason_array, event.job_array, event.instance_array
    host = event.host_array.clip(0, len(event.host_ids) - 1)
    columns: list[I32 | I64] = [event.signal_array, event.out_of_memory_array]
    columns += [event.cpu_ms_array, event.memory_kib_array]
    columns += [event.throttled_ms_array, event.read_kib_array, event.written_kib_array]
    if any(len(column) != items for column in (reason, event.exit_code_array, host, *columns)):
        return
    reason = np.where((reason > 0) & (reason <= len(event.reasons)), reason, 0)
    run, state = event.run_array, event.state_array
    obeyed = np.isin(state, TOLD_TO_END)
    exit_code = np.where(obeyed, event.exit_code_array, -1)
    some = np.flatnonzero(np.any([obeyed, reason, *columns], axis=0))
    texts = ("", *event.reasons)
    for at in some.tolist():
        key = event.job_ids[job[at]], int(instance[at]), int(run[at])
        process = *(int(column[at]) for column in columns), int(exit_code[at])
        yield *key, offset, event.host_ids[host[at]], int(state[at]), texts[reason[at]], *process


def subject_of(row: Row) -> tuple[Any, ...]:
    """The run that a row is about, who says so, and the use of it where the row tells that it is over, and what it
    used.
    """
    *_, host_id, state = row[:6]
    use = row[9:14]
    return (*row[:3], host_id, use) if state not in LIVE_REPORTS and any(use) else (*row[:3], host_id)
