"""Faults of hosts in history: the times in which whatever started on a host failed at once.

Such a failure belongs to the host and the time, not to the task: in a branch it befalls whatever starts there then, and
the tasks that it befell in history run elsewhere as they did when it had passed (decision 122).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from events.codes import RunReport
from paceline.plans.run_reports import RunId
from paceline.whatif.run_table import NATURAL, NEVER, Run, RunTable

SOON_MS = 60_000
"""A run that fails within so long fails at once; a pause of so long between two starts ends a fault."""
JOBS_MIN = 3
"""Runs of so many jobs make a fault."""


class Fault(NamedTuple):
    """A fault of a host: the rows of the runs that failed, by the times of their orders."""

    from_ms: int
    to_ms: int
    rows: Sequence[int]


class HostFaults:
    """The faults in a table of runs.

    The failure of a job that has failed on another host too is the job's own. A start that went well ends a fault.
    """

    def __init__(self, table: RunTable) -> None:
        self.rows: set[int] = set()
        """The runs that a fault has ended."""
        self._table = table
        self._by_host: dict[str, list[Fault]] = defaultdict(list)
        starts = _starts(table)
        for host, rows in starts.items():
            self._find(table.hosts[host], sorted(rows))

    def at(self, run: RunId, host_id: str, at_ms: int) -> int:
        """The row that tells how a run fails that starts then and there: its own, or that of the run that started last
        before it, or first in that fault. NEVER: there is no fault.
        """
        for fault in self._by_host.get(host_id, ()):
            if fault.from_ms <= at_ms <= fault.to_ms:
                if (row := self._table.row_of(run)) in self.rows:
                    return row
                ordered = self._table.column("ordered_ms")
                return fault.rows[max(0, bisect_right(fault.rows, at_ms, key=ordered.__getitem__) - 1)]
        return NEVER

    def _find(self, host_id: str, rows: Sequence[tuple[int, int, str, bool]]) -> None:
        """Looks for faults of one host among its starts: time, row, job, and whether it failed at once."""
        together: list[tuple[int, int, str, bool]] = []
        for start in [*rows, (1 << 62, NEVER, "", False)]:
            if not start[3] or (together and start[0] - together[-1][0] > SOON_MS):
                if len({job_id for _, _, job_id, _ in together}) >= JOBS_MIN:
                    members = [row for _, row, _, _ in together]
                    self._by_host[host_id].append(Fault(together[0][0], together[-1][0], members))
                    self.rows.update(members)
                together = []
            if start[3]:
                together.append(start)


def _starts(table: RunTable) -> dict[int, list[tuple[int, int, str, bool]]]:
    """By host its runs: when each was ordered, its row, its job, and whether it failed at once though its job fails on
    no other host. Those that were cut short as soon say nothing and are left out.
    """
    starts: dict[int, list[tuple[int, int, str, bool]]] = defaultdict(list)
    for job in table.jobs.values():
        rows = [row for rows in job.runs.values() for row in rows]
        runs = list(zip(rows, map(table.run, rows), strict=True))
        hosts = {run.host for _, run in runs if _fails(run)}
        for row, run in runs:
            end_ms = run.reported_ms if run.report in NATURAL else run.over_ms
            soon = end_ms != NEVER and end_ms - run.ordered_ms <= SOON_MS
            if run.report in NATURAL or not soon:
                starts[run.host].append((run.ordered_ms, row, job.job_id, soon and _fails(run) and len(hosts) == 1))
    return starts


def _fails(run: Run) -> bool:
    return run.report in NATURAL and (run.report != RunReport.EXITED or run.code != 0)
