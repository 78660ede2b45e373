"""A pool over time: what it was entitled to, had and wanted, and when it was changed."""

from collections.abc import Sequence

from sqlalchemy import Connection

from events.resources import Unit
from paceline.client.cell_models import Mark, PoolSeries, Values
from projections.queries.marks import marks
from projections.queries.series import pool_series
from projections.queries.series_points import times_of
from projections.ui.format import GIB
from projections.ui.page_values import PageValues

CHANGE = "policy"
WITHOUT_HOSTS = "without hosts"
LINES: tuple[tuple[str, str, dict[str, bool]], ...] = (
    ("held", "running", {}),
    (WITHOUT_HOSTS, "backoff", {"line": True}),
    ("demand", "waiting", {"line": True, "dash": True}),
    ("entitled", "ink", {"line": True}),
)
"""Series of a plot: their colours, and how they are drawn; what isn't a line is an area."""


def plots(
    connection: Connection,
    path: str,
    between_ms: tuple[int, int],
    kinds: Sequence[tuple[str, Unit]],
    at_ms: Sequence[int],
) -> PageValues:
    """A plot for each resource, see `plots.js`; `at_ms`: when to put marks."""
    points = times_of(connection, *between_ms)
    pool = pool_series(connection, [path], points).get(path)
    times = [each // 1000 for each in points.times] if pool else []
    unknown: Values = [None] * len(times)

    def series(name: str, unit: Unit) -> list[PageValues]:
        values = _values(pool, name, unknown) if pool else {}
        return [
            {"name": field, "colour": colour, "values": _scaled(values[field], unit), **more}
            for field, colour, more in LINES
            if field in values
        ]

    marks_s = [each // 1000 for each in at_ms]
    return {name: {"times": times, "marks": marks_s, "series": series(name, unit)} for name, unit in kinds}


def _values(pool: PoolSeries, name: str, unknown: Values) -> dict[str, Values]:
    """The series that are drawn of a resource, by name."""
    without = without_hosts(pool, name)
    values = {
        "held": pool["placed"].get(name, unknown),
        "demand": pool["demand"].get(name, unknown),
        "entitled": pool["entitlement"].get(name, unknown),
    }
    return values | ({WITHOUT_HOSTS: without} if any(without) else {})


def without_hosts(pool: PoolSeries, name: str) -> Values:
    """The amount of a resource that was admitted in a pool and has no host yet."""
    both = zip(pool["allocation"].get(name, ()), pool["placed"].get(name, ()), strict=True)
    return [None if admitted is None or placed is None else max(0, admitted - placed) for admitted, placed in both]


def _scaled(values: Sequence[int | None], unit: Unit) -> list[float | None]:
    factor = GIB if unit is Unit.MIB else 1000
    return [None if each is None else round(each / factor, 3) for each in values]


def changes(connection: Connection, path: str, begin_ms: int, end_ms: int) -> list[Mark]:
    """When a pool was changed, the newest first."""
    all_marks = marks(connection, begin_ms, end_ms)
    return [each for each in reversed(all_marks) if each["shape"] == CHANGE and ["pool", path] in each["links"]]
