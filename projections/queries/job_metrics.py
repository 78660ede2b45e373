"""Metrics of jobs, tasks, updates and hosts, by the states in which they are."""

from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, func, select

from events.codes import UpdateState
from projections.host_states import HostState
from projections.queries.entities import host_state, surplus
from projections.queries.host_conditions import beyond_caps
from projections.queries.metric_families import Family, Samples
from projections.queries.pages import rows_of
from projections.queries.pool_metrics import GOING
from projections.queries.resources import kinds_of, settings_of
from projections.views import tables
from projections.views.named_tasks import COUNTS
from projections.views.rows import HostRow

PAUSED = "PAUSED"
UPDATE_STATES = (UpdateState.ROLLING, PAUSED, UpdateState.CANARY)
_G = GaugeMetricFamily
FAMILIES = (
    Family(_G, "paceline_jobs", "Jobs that have not ended, by state.", ("state",)),
    Family(_G, "paceline_tasks", "Their tasks, by state.", ("state",)),
    Family(_G, "paceline_updates", "Updates in progress, by state.", ("state",)),
    Family(_G, "paceline_update_oldest_seconds", "The longest time that one has made no progress.", ("state",)),
    Family(_G, "paceline_hosts", "Hosts, by state.", ("state",)),
    Family(_G, "paceline_hosts_shrunk", "Hosts that offer less than their runs hold."),
    Family(_G, "paceline_hosts_held", "Hosts that aren't well and take tasks, since no more hosts are avoided."),
    Family(_G, "paceline_checks_broken", "Checks that are bad on so many hosts that none is drained for them."),
)


def look(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    """Adds the samples of a cell."""
    jobs = tables.jobs.c
    going = jobs.state.in_(GOING)
    found = connection.execute(select(jobs.state, func.count()).where(going).group_by(jobs.state))
    counts: dict[str, int] = dict(map(tuple, found))
    samples["paceline_jobs"] += [((cell, state), counts.get(state, 0)) for state in GOING]
    sums = select(*(func.coalesce(func.sum(jobs[name]), 0) for name in COUNTS.values())).where(going)
    tasks = connection.execute(sums).one()
    samples["paceline_tasks"] += [((cell, state.name), count) for state, count in zip(COUNTS, tasks, strict=True)]
    _updates(connection, cell, now_ms, samples)
    hosts = rows_of(connection, HostRow, select(tables.hosts))
    states = [host_state(row) for row in hosts]
    samples["paceline_hosts"] += [((cell, state), states.count(state)) for state in HostState]
    kinds = kinds_of(connection)
    samples["paceline_hosts_shrunk"].append(((cell,), sum(1 for row in hosts if surplus(row, kinds))))
    present = sum(state in (HostState.UP, HostState.SUSPECTED) for state in states)
    ill, broken = beyond_caps(hosts, present, settings_of(connection), now_ms)
    samples["paceline_hosts_held"].append(((cell,), ill))
    samples["paceline_checks_broken"].append(((cell,), broken))


def _updates(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    updates = tables.updates.c
    going = select(updates.state, updates.paused_ms, updates.started_ms, updates.moved_ms).where(updates.ended_ms == 0)
    since_ms: dict[str, list[int]] = {state: [] for state in UPDATE_STATES}
    for state, paused_ms, started_ms, moved_ms in connection.execute(going):
        since_ms[PAUSED if paused_ms else state].append(paused_ms or max(started_ms, moved_ms))
    for state, times in since_ms.items():
        samples["paceline_updates"].append(((cell, state), len(times)))
        age = max(0, now_ms - min(times, default=now_ms)) / 1000
        samples["paceline_update_oldest_seconds"].append(((cell, state), age))
