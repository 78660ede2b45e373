"""The time bar: what has happened in the last day, and where in it one looks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection

from paceline.client.cell_models import Mark
from projections.queries.log_time import begin_ms, round_of
from projections.queries.marks import marks
from projections.queries.series import cell_series
from projections.queries.series_points import times_of
from projections.ui.format import iso
from projections.ui.lines import Drawn, drawn
from projections.ui.lockdowns import lockdowns_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
SHORTEST_MS = 10 * MINUTE_MS
"""The bar shows a day, or as long as the cell has been there, but not less than this."""
GRIDS_MS = (10_000, MINUTE_MS, 5 * MINUTE_MS)
"""The bar moves on in steps of one of these, and its line has a point for each."""
POINTS_MAX = DAY_MS // GRIDS_MS[-1]
HEIGHT = 26
"""The line of events is drawn in a box of so many points by this."""
TICKS_MS = tuple(minutes * MINUTE_MS for minutes in (2, 5, 10, 30, 60, 180))
TICKS_MAX = 8
PLACEMENT = "placement"
"""The machine whose rounds are stepped through."""


class Shown(NamedTuple):
    """The moment that a page shows: its time, and the newest round of placement then, if that is known."""

    at_ms: int
    round: int | None
    past: bool


def live(scene: Scene) -> PageValues:
    """The bar of the present."""
    context, connection = scene.first()
    time = bar(context.cell, connection, scene.now_ms, now(connection, scene.now_ms))
    return {"time": time | {"lockdowns": lockdowns_of(scene)}}


def now(connection: Connection, now_ms: int) -> Shown:
    """The present as what is shown."""
    return Shown(now_ms, round_of(connection, PLACEMENT), past=False)


def bar(cell: int, present: Connection, now_ms: int, place: Shown) -> PageValues:
    """The bar of a cell: `at_ms`, `round` and `past` of what is shown, `from_ms` and `to_ms` of the bar, and what lies
    on it, in percent of its width.
    """
    newest, number = round_of(present, PLACEMENT), place.round
    begin = begin_ms(present)
    from_ms, to_ms, grid_ms = _span(begin, now_ms, place)
    at_ms = place.at_ms if place.past else to_ms
    return {
        "cell": cell,
        "at_ms": place.at_ms,
        "past": place.past,
        "round": number,
        "ago_ms": now_ms - place.at_ms,
        "begin_ms": begin,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "now_ms": now_ms,
        "x": max(0.0, (at_ms - from_ms) * 100 / (to_ms - from_ms)),
        "handle": (to_ms - from_ms) // min(grid_ms, MINUTE_MS),
        "back": _back(cell, begin, place),
        "on": {
            "round": _round(cell, number + 1) if number is not None and number < newest else None,
            "min": iso(place.at_ms + MINUTE_MS) if place.at_ms + MINUTE_MS < now_ms else None,
            "hour": iso(place.at_ms + HOUR_MS) if place.at_ms + HOUR_MS < now_ms else None,
        },
        "points": (to_ms - from_ms) // grid_ms,
        "spark": _spark(present, from_ms, min(to_ms, -(-now_ms // grid_ms) * grid_ms), grid_ms),
        "marks": [_mark(cell, each, from_ms, to_ms) for each in marks(present, from_ms, to_ms)],
        "ticks": list(_ticks(from_ms, to_ms)),
    }


def _span(begin: int, now_ms: int, place: Shown) -> tuple[int, int, int]:
    """Where the bar begins and ends, and its steps. It ends now; half a day after a moment that was longer ago than the
    bar is long. It begins a day before, or with the cell.
    """
    coarse = GRIDS_MS[-1]
    end = now_ms if place.at_ms > now_ms - DAY_MS + coarse else min(now_ms, place.at_ms + DAY_MS // 2)
    start = min(max(begin, end - DAY_MS + coarse) if begin else end, place.at_ms, end - SHORTEST_MS)
    grid = next((each for each in GRIDS_MS if end - start + 2 * each <= POINTS_MAX * each), coarse)
    return start // grid * grid, -(-end // grid) * grid, grid


def _back(cell: int, begin: int, place: Shown) -> dict[str, str | None]:
    """Where the steps back lead: to the beginning of the cell where there is less before the moment."""
    before = begin and place.at_ms > begin
    return {
        "hour": iso(max(begin, place.at_ms - HOUR_MS)) if before else None,
        "min": iso(max(begin, place.at_ms - MINUTE_MS)) if before else None,
        "round": _round(cell, place.round - 1) if place.round and place.round > 1 else None,
    }


def _round(cell: int, number: int) -> str:
    return f"{cell}/{PLACEMENT}/round/{number}"


def _spark(connection: Connection, from_ms: int, to_ms: int, grid_ms: int) -> Drawn:
    """The line of events."""
    series = cell_series(connection, times_of(connection, from_ms, to_ms, (to_ms - from_ms) // grid_ms))
    return drawn([sum(counts) for counts in zip(*series["events"].values(), strict=True)], HEIGHT)


def _mark(cell: int, mark: Mark, from_ms: int, to_ms: int) -> PageValues:
    x = (mark["at_ms"] - from_ms) * 100 / (to_ms - from_ms)
    at = f"{cell}/{mark['position']}"
    return {"shape": mark["shape"], "x": f"{x:.2f}", "text": mark["text"], "at": at, "ms": mark["at_ms"]}


def _ticks(from_ms: int, to_ms: int) -> Iterator[tuple[str, str]]:
    span = to_ms - from_ms
    tick = next((each for each in TICKS_MS if span <= TICKS_MAX * each), TICKS_MS[-1])
    for at in range(-(-from_ms // tick) * tick, to_ms, tick):
        x = (at - from_ms) * 100 / span
        if 2 < x < 98:
            yield f"{x:.2f}", f"{datetime.fromtimestamp(at / 1000, UTC):%H:%M}"


PART = Page("/time", "time_bar.html", live, "")
"""The bar as a page of the stream: it is part of every page."""
