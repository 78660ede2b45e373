"""Runs on an axis of time as the page draws them: a lane for runs that don't overlap, percents of the axis."""

from typing import Any

from projections.queries.job_runs import TROUBLE, HostRuns, JobRun, RunsByHost
from projections.ui.colours import OUTCOMES
from projections.ui.format import moment, time_of_day
from projections.ui.page_values import PageValues

LANES = 12
TICKS = 4
DAY_S = 86_400
LANE_HEIGHT = 3.05
_TROUBLE = frozenset(each.name for each in TROUBLE)


def drawn(runs_by_host: RunsByHost, newest: int, now_ms: int) -> PageValues:
    """The hosts with their lanes, and the axis."""
    runs = [run for host in runs_by_host.shown for run in host.runs]
    first = min((run.ordered_s for run in runs), default=0)
    last = max([now_ms // 1000 if any(not run.outcome for run in runs) else 0, *(run.ended_s for run in runs)])
    length = max(1, last - first)

    def at(second: int) -> float:
        return round((second - first) / length * 100, 3)

    return {
        "hosts": [_host(host, newest, last, at) for host in runs_by_host.shown],
        "all": runs_by_host.hosts,
        "partial": runs_by_host.partial,
        "ticks": [
            (at(second), (moment if length > DAY_S else time_of_day)(second * 1000))
            for second in range(first, last, max(1, length // TICKS))
        ][1:TICKS],
    }


def _host(host: HostRuns, newest: int, last: int, at: Any) -> PageValues:
    lanes = _lanes(host.runs, last)
    more = max(0, len(lanes) - LANES)
    note = ", ".join(f"{count} {name.lower()}" for name, count in host.trouble.items())
    return {
        "host_id": host.host_id,
        "note": note or f"{len(host.runs)} {'run' if len(host.runs) == 1 else 'runs'}",
        "more": more,
        "height": round(max(1, min(len(lanes), LANES)) * LANE_HEIGHT + 2, 1),
        "runs": [
            _bar(run, 1 + lane * LANE_HEIGHT, newest, last, at)
            for lane, runs in enumerate(lanes[:LANES])
            for run in runs
        ],
    }


def _lanes(runs: list[JobRun], last: int) -> list[list[JobRun]]:
    """Runs so that those of one lane follow each other; lanes with trouble come first."""
    lanes: list[list[JobRun]] = []
    ends: list[int] = []
    for run in runs:
        free = next((lane for lane, end in enumerate(ends) if end <= run.ordered_s), len(lanes))
        if free == len(lanes):
            lanes.append([])
            ends.append(0)
        lanes[free].append(run)
        ends[free] = (run.ended_s if run.outcome else last) + 1
    return sorted(lanes, key=lambda lane: not any(run.outcome in _TROUBLE for run in lane))


def _bar(run: JobRun, y: float, newest: int, last: int, at: Any) -> PageValues:
    end_s = run.ended_s if run.outcome else last
    ordered, x, end = at(run.ordered_s), at(run.started_s or end_s), at(end_s)
    outcome = run.outcome.lower().replace("_", " ") or "running"
    return {
        "x": x,
        "y": round(y, 2),
        "width": max(0.2, round(end - x, 3)),
        "ordered_x": ordered,
        "ordered_width": round(x - ordered, 3),
        "colour": "running" if run.version in (newest, 0) else "old",
        "end": OUTCOMES.get(run.outcome, ""),
        "end_x": max(0.0, round(end - 0.3, 3)),
        "instance": run.instance,
        "title": f"task {run.instance}, run {run.run}, version {run.version}: {outcome}",
    }
