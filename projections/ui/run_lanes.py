"""Runs as bars on a time axis, one beside another where they overlap."""

from collections.abc import Sequence

from events.codes import Outcome
from projections.queries.host_runs import HostRun
from projections.ui.colours import OUTCOMES
from projections.ui.format import lasts, moment
from projections.ui.page_values import PageValues

LANES = 24
LANE_PX = 7
COLOURS = {"": "running"} | OUTCOMES | {Outcome.REPLACED.name: "old"}
"""By outcome; of one that goes on it is empty."""
TICKS = 6


def drawn(runs: Sequence[HostRun], begin_ms: int, end_ms: int) -> PageValues:
    """Bars in percent of the time to its end, from its begin or the first run; the axis; how many found no room."""
    begin_ms = max(begin_ms, min(run.ordered_s for run in runs) * 1000)
    span = max(1, end_ms - begin_ms)

    def at(second: int) -> float:
        return round(max(0.0, min(100.0, 100 * (second * 1000 - begin_ms) / span)), 3)

    free: list[int] = []
    bars = []
    for run in sorted(runs, key=lambda each: each.ordered_s):
        end = run.ended_s or end_ms // 1000 + 1
        lane = next((lane for lane, since in enumerate(free) if since <= run.ordered_s), len(free))
        if lane == LANES:
            continue
        free[lane : lane + 1] = [end]
        x, started, right = at(run.ordered_s), at(run.started_s or end), at(end)
        bars.append(
            {
                "x": started,
                "width": max(0.15, round(right - started, 3)),
                "ordered_x": x,
                "ordered_width": round(started - x, 3),
                "y": 2 + lane * LANE_PX,
                "colour": COLOURS[run.outcome],
                "title": _title(run, end_ms),
            }
        )
    ticks = [(round(100 * each / TICKS, 2), moment(begin_ms + span * each // TICKS)) for each in range(TICKS)]
    colours_used = {COLOURS[run.outcome]: run.outcome.lower().replace("_", " ") or "running" for run in runs}
    return {
        "bars": bars,
        "height": 6 + LANE_PX * max(1, len(free)),
        "left_out": len(runs) - len(bars),
        "ticks": ticks,
        "keys": sorted(colours_used.items()),
    }


def _title(run: HostRun, end_ms: int) -> str:
    outcome = run.outcome.lower().replace("_", " ") or "goes on"
    ended_ms = run.ended_s * 1000 or end_ms
    text = f"{run.job_id} task {run.instance}, run {run.run}: {outcome}"
    if not run.started_s:
        return f"{text}, {lasts(ended_ms - run.ordered_s * 1000)} from its order at {moment(run.ordered_s * 1000)}"
    return f"{text}, {lasts(ended_ms - run.started_s * 1000)} from {moment(run.started_s * 1000)}"
