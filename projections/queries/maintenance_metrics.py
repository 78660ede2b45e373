"""Metrics of maintenance: hosts by stage, campaigns by state, disruptions that wait for sla, and budgets left."""

from collections import Counter

from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, func, select

from events.codes import VERDICT_CODES, Stage
from projections.queries.host_maintenance import DRAINS
from projections.queries.metric_families import Family, Samples
from projections.queries.slas import Budgets, jobs_of, sla_rows
from projections.views import tables

STATES = ("RUNNING", "PAUSED", "ABORTING")
_G = GaugeMetricFamily
FAMILIES = (
    Family(_G, "paceline_hosts_in_maintenance", "Hosts whose stage isn't UP, by stage.", ("stage",)),
    Family(_G, "paceline_drain_oldest_seconds", "The longest time that a host has been draining."),
    Family(_G, "paceline_maintenances", "Campaigns that aren't over, by state.", ("state",)),
    Family(_G, "paceline_disruptions_waiting", "Runs that are to leave and wait, by the code of sla.", ("code",)),
    Family(_G, "paceline_disruption_jobs_waiting", "Jobs whose runs are to leave and wait, by that code.", ("code",)),
    Family(_G, "paceline_disruption_oldest_seconds", "The longest time that a run has waited so.", ("code",)),
    Family(_G, "paceline_sla_budget_left", "Instances that may be disrupted now, of all jobs with an SLA.", ("pool",)),
    Family(_G, "paceline_sla_jobs_at_risk", "Jobs whose next planned disruption would be refused.", ("pool",)),
)


def look(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    """Adds the samples of a cell."""
    hosts = tables.host_stages.c
    counts = dict(map(tuple, connection.execute(select(hosts.stage, func.count()).group_by(hosts.stage))))
    samples["paceline_hosts_in_maintenance"] += [
        ((cell, stage.name), counts.get(stage, 0)) for stage in Stage if stage != Stage.UP
    ]
    oldest = connection.execute(select(func.min(hosts.begun_ms)).where(hosts.stage.in_(DRAINS))).scalar()
    samples["paceline_drain_oldest_seconds"].append(((cell,), _age(now_ms, oldest)))
    campaigns = tables.maintenances.c
    states = select(campaigns.state, func.count()).where(campaigns.ended_ms == 0).group_by(campaigns.state)
    of_state = dict(map(tuple, connection.execute(states)))
    samples["paceline_maintenances"] += [((cell, state), of_state.get(state, 0)) for state in STATES]
    _waiting(connection, cell, now_ms, samples)
    _budgets(connection, cell, now_ms, samples)


def _budgets(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    """Adds them up by pool: jobs are too many for series of their own."""
    rows = sla_rows(connection)
    jobs = jobs_of(connection, [row.job_id for row in rows])
    slack, at_risk = Counter[str](), Counter[str]()
    for state in Budgets(connection, now_ms).states([(jobs[row.job_id], row) for row in rows if row.job_id in jobs]):
        slack[state["pool"]] += state["slack"]
        at_risk[state["pool"]] += state["at_risk"]
    samples["paceline_sla_budget_left"] += [((cell, pool), count) for pool, count in sorted(slack.items())]
    samples["paceline_sla_jobs_at_risk"] += [((cell, pool), count) for pool, count in sorted(at_risk.items())]


def _waiting(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    runs = tables.disruptions.c
    numbers = (func.count(), func.count(runs.job_id.distinct()), func.min(runs.since_s))
    waiting = (runs.run > 0) & (runs.judged_run == runs.run) & (runs.code != "")
    query = select(runs.code, *numbers).where(waiting).group_by(runs.code)
    by_code = {code: numbers for code, *numbers in connection.execute(query)}
    for code in VERDICT_CODES:
        count, jobs, since_s = by_code.get(code, (0, 0, 0))
        samples["paceline_disruptions_waiting"].append(((cell, code), count))
        samples["paceline_disruption_jobs_waiting"].append(((cell, code), jobs))
        samples["paceline_disruption_oldest_seconds"].append(((cell, code), _age(now_ms, since_s * 1000)))


def _age(now_ms: int, since_ms: int | None) -> float:
    return max(0, now_ms - since_ms) / 1000 if since_ms else 0
