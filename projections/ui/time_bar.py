"""The time bar: what has happened in a day, and where in it one looks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from projections.queries.log_time import round_of
from projections.queries.marks import Mark, marks
from projections.queries.series import cell_series
from projections.ui.lines import Drawn, drawn
from projections.ui.scene import Page, Scene
from projections.ui.words import iso

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
GRID_MS = 5 * MINUTE_MS
"""The bar moves on in steps of so long."""
POINTS = DAY_MS // GRID_MS
HEIGHT = 26
"""The line of events is drawn in a box of so many points by this."""
TICKS_MS = 3 * HOUR_MS
PLACEMENT = "placement"
"""The machine whose rounds are stepped through."""


class Shown(NamedTuple):
    """The moment that a page shows: its time, and the views of the cell then."""

    at_ms: int
    connection: Connection
    past: bool


def live(scene: Scene) -> dict[str, Any]:
    """The bar of the present."""
    context, connection = scene.first()
    return {"time": bar(context.cell, connection, scene.now_ms, Shown(scene.now_ms, connection, past=False))}


def bar(cell: int, present: Connection, now_ms: int, shown: Shown) -> dict[str, Any]:
    """The bar of a cell: `at_ms`, `round` and `past` of what is shown, `from_ms` and `to_ms` of the bar, and what lies
    on it, in percent of its width.
    """
    newest, number = round_of(present, PLACEMENT), round_of(shown.connection, PLACEMENT)
    to_ms = _end(now_ms, shown)
    from_ms = to_ms - DAY_MS
    at_ms = shown.at_ms if shown.past else to_ms
    return {
        "cell": cell,
        "at_ms": shown.at_ms,
        "past": shown.past,
        "round": number,
        "ago_ms": now_ms - shown.at_ms,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "now_ms": now_ms,
        "x": max(0.0, (at_ms - from_ms) * 100 / DAY_MS),
        "back": {
            "hour": iso(shown.at_ms - HOUR_MS),
            "min": iso(shown.at_ms - MINUTE_MS),
            "round": _round(cell, number - 1) if number > 1 else None,
        },
        "on": {
            "round": _round(cell, number + 1) if number < newest else None,
            "min": iso(shown.at_ms + MINUTE_MS) if shown.at_ms + MINUTE_MS < now_ms else None,
            "hour": iso(shown.at_ms + HOUR_MS) if shown.at_ms + HOUR_MS < now_ms else None,
        },
        "points": POINTS,
        "spark": _spark(present, from_ms, min(to_ms, -(-now_ms // GRID_MS) * GRID_MS)),
        "marks": [_mark(cell, each, from_ms) for each in marks(present, from_ms, to_ms)],
        "ticks": list(_ticks(from_ms, to_ms)),
    }


def _end(now_ms: int, shown: Shown) -> int:
    """Where the bar ends: now; half a day after a moment that was longer ago than the bar is long."""
    now = -(-now_ms // GRID_MS) * GRID_MS
    return now if shown.at_ms > now - DAY_MS else min(now, shown.at_ms // GRID_MS * GRID_MS + DAY_MS // 2)


def _round(cell: int, number: int) -> str:
    return f"{cell}/{PLACEMENT}/round/{number}"


def _spark(connection: Connection, from_ms: int, to_ms: int) -> Drawn:
    """The line of events."""
    series = cell_series(connection, from_ms, to_ms, (to_ms - from_ms) // GRID_MS)
    return drawn([sum(counts) for counts in zip(*series.events.values(), strict=True)], HEIGHT)


def _mark(cell: int, mark: Mark, from_ms: int) -> dict[str, Any]:
    x = (mark.at_ms - from_ms) * 100 / DAY_MS
    return {"shape": mark.shape, "x": f"{x:.2f}", "text": mark.text, "at": f"{cell}/{mark.position}", "ms": mark.at_ms}


def _ticks(from_ms: int, to_ms: int) -> Iterator[tuple[str, str]]:
    for at in range(-(-from_ms // TICKS_MS) * TICKS_MS, to_ms, TICKS_MS):
        x = (at - from_ms) * 100 / DAY_MS
        if 2 < x < 98:
            yield f"{x:.2f}", f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M}"


PART = Page("/time", "time_bar.html", live, "")
"""What the stream calls the bar: it is part of every page."""
