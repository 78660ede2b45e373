"""The first page answers: is the cell deciding, and is anybody stuck."""

from typing import NamedTuple

import orjson
from sqlalchemy import Connection, select, union

from events.codes import ENDED_JOBS, Code
from events.log.port import LogError
from events.reasons import REASONS, WAIT, kind_of
from paceline.client.cell_models import Mark
from paceline.client.models import Job, Reason
from projections.queries.entities import jobs_json
from projections.queries.job_filter import JobFilter
from projections.queries.log_time import oldest_ms
from projections.queries.machine_lag import MachineLag, ends_of, machine_lags, views_unread
from projections.queries.marks import marks
from projections.queries.pages import rows_of
from projections.queries.series import cell_series
from projections.queries.series_points import times_of
from projections.ui import overview_figures, overview_plots
from projections.ui.alarms import circles_and_stalls
from projections.ui.format import lasts, linked, ms_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene
from projections.views import tables
from projections.views.rows import JobRow

DAY_MS, HOUR_MS, SHORTEST_MS = 86_400_000, 3_600_000, 600_000
"""Plots show a day, or as long as the cell has been there, but not less than ten minutes."""
OLDEST, INCIDENTS = 8, 8
"""Waiting jobs and incidents that are shown."""
MINUTES = 60
_ANY_JOB = select(tables.jobs.c.job_id).limit(1)
_LOOKED_AT = 200
"""Jobs that may be stuck are looked at in full, the oldest so many of each of these kinds."""
_FAILING = (
    select(tables.jobs)
    .where(tables.jobs.c.backoff > 0, tables.jobs.c.kind != "batch", tables.jobs.c.failed_instance >= 0)
    .order_by(tables.jobs.c.number)
    .limit(_LOOKED_AT)
)
"""Services of which tasks wait after a failure."""
_OF_SOMEBODY = [kind.code for kind in REASONS.values() if kind.actor not in (WAIT, "")]
_explained, _waiting_for, _holds = tables.explanations.c, tables.waiting.c, tables.holds.c
_UNPLACED = select(_explained.job_id).where(_explained.tasks > 0, _explained.code.in_(_OF_SOMEBODY))
_NOT_ADMITTED = select(_waiting_for.job_id).where(
    _waiting_for.standing == _holds.number, _waiting_for.tasks > 0, _holds.code.in_(_OF_SOMEBODY)
)
_IN_NEED = (
    select(tables.jobs)
    .where(tables.jobs.c.job_id.in_(union(_UNPLACED, _NOT_ADMITTED)), tables.jobs.c.state.not_in(ENDED_JOBS))
    .order_by(tables.jobs.c.number)
    .limit(_LOOKED_AT)
)
"""Jobs of which tasks wait for what somebody can change, however young they are."""
_ANY_POOL = select(tables.pools.c.path).where(tables.pools.c.path.not_in(("/", "/system"))).limit(1)


class Lags(NamedTuple):
    """The lag of the machines and the views behind the log; `fault`: why that can't be said."""

    machines: list[MachineLag]
    views: int
    fault: str = ""

    @property
    def late(self) -> list[MachineLag]:
        """Those that don't decide."""
        return [each for each in self.machines if each.late_since_ms]


def load(scene: Scene) -> PageValues:
    """The present of a cell, and its last day, `day`."""
    context, connection = scene.first()
    now_ms = scene.now_ms
    begin_ms = min(max(oldest_ms(connection), now_ms - DAY_MS), now_ms - SHORTEST_MS)
    times = times_of(connection, begin_ms, now_ms)
    day = cell_series(connection, times)
    hour = cell_series(connection, times_of(connection, now_ms - HOUR_MS, now_ms, MINUTES))
    waiting_jobs = context.texts.page(connection, JobFilter(waiting=True), OLDEST, None)
    oldest = [_waiting(orjson.loads(each.text), now_ms) for each in waiting_jobs.rows]
    resources = overview_plots.resources(connection, day)
    choice = scene.query.get("resource", "cpu")
    resource = choice if choice in resources else next(iter(resources), "cpu")
    pools = overview_plots.pools_of_day(connection, times)
    found_marks = marks(connection, now_ms - DAY_MS, now_ms, INCIDENTS)
    lags, hosts = _lags(scene), overview_figures.hosts(day)
    return {
        "lags": lags,
        "now_ms": now_ms,
        "machines": [(each, overview_figures.machine(hour, each.machine)) for each in lags.machines],
        "oldest": oldest,
        "most": OLDEST,
        "looked_at": _LOOKED_AT,
        "stuck": _stuck(connection, now_ms),
        "circles_and_stalls": circles_and_stalls(scene, scene.first()),
        "figures": overview_figures.figures(day, hour, pools, _longest(oldest)),
        "plots": {
            "waiting": overview_plots.waiting(times, day),
            "tasks": overview_plots.tasks(times, day),
            "pools": overview_plots.pools(times, day, pools, resource, resources.get(resource, "")),
        },
        "resource": resource,
        "resources": resources,
        "hosts": hosts,
        "host_bar": overview_figures.host_bar(hosts),
        "incidents": [_incident(context.cell, each) for each in reversed(found_marks)],
        "has_jobs": connection.execute(_ANY_JOB).first() is not None,
        "has_pools": connection.execute(_ANY_POOL).first() is not None,
    }


def _lags(scene: Scene) -> Lags:
    context, connection = scene.first()
    try:
        ends = ends_of(context.log)
        lags = machine_lags(connection, context.log, ends, scene.now_ms, context.alarm_unread_ms)
        return Lags(list(lags), views_unread(connection, ends))
    except LogError as error:
        return Lags([], 0, str(error))


def _stuck(connection: Connection, now_ms: int) -> list[PageValues]:
    """The jobs that go on only when somebody acts, of all that wait, and services that fail again and again."""
    rows = {row.job_id: row for query in (_IN_NEED, _FAILING) for row in rows_of(connection, JobRow, query)}
    return [
        _waiting(job, now_ms) if job["waiting_since"] else {**job, "waits": ""}
        for job in jobs_json(connection, list(rows.values()))
        if job["reason"] and (job["reason"]["code"] == Code.CRASH_LOOP or _needs_somebody(job["reason"]))
    ]


def _waiting(job: Job, now_ms: int) -> PageValues:
    since_ms = ms_of(job["waiting_since"])
    waits_ms = now_ms - since_ms
    return {**job, "since_ms": since_ms, "waits_ms": waits_ms, "waits": lasts(waits_ms)}


def _longest(oldest: list[PageValues]) -> tuple[str, int]:
    return (oldest[0]["job_id"], oldest[0]["waits_ms"]) if oldest else ("", 0)


def _needs_somebody(reason: Reason) -> bool:
    """Whether what waits for that goes on only when somebody acts."""
    kind = kind_of(reason["code"])
    return reason["actor"] != WAIT and not (kind.passes and reason["actor"] == kind.actor)


def _incident(cell: int, mark: Mark) -> PageValues:
    """A mark, its sentence in pieces, and the moment that it leads to."""
    return {"mark": mark, "text": list(linked(mark["text"], mark["links"])), "at": f"{cell}/{mark['position']}"}


PAGES = (Page("/", "overview.html", load, "Overview"),)
