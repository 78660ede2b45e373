"""Alarms: those rules of `deploy/prometheus/alerts.yaml` that the views can tell, as they hold now."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from projections.host_states import HostState
from projections.queries import job_metrics, machine_lag, maintenance_metrics, pool_metrics, preemption_loops, stalls
from projections.queries.machine_lag import MachineLag
from projections.queries.metric_families import Samples

PAGE, TICKET = "page", "ticket"
CIRCLES, STALLS = "PacelinePreemptsInCircles", "PacelineWorkStalls"


class Rule(NamedTuple):
    """An alarm holds where a sample of a metric with these last label values is above a bound."""

    name: str
    metric: str
    labels: tuple[str, ...]
    above: float
    severity: str
    text: str
    """`{label}` is the first label after the cell, `{value}` the sample."""


RULES = (
    Rule("PacelineMachineStands", machine_lag.LATE.name, (), 0, PAGE,
         "{label} doesn't decide: the oldest record that it leaves unread has waited for {value} s"),
    Rule("PacelineHostsSuspected", "paceline_hosts", (HostState.SUSPECTED,), 0, TICKET,
         "{value} hosts are suspected and take no new tasks"),
    Rule("PacelineHostsShrunk", "paceline_hosts_shrunk", (), 0, TICKET,
         "{value} hosts offer less than their runs hold and take no tasks"),
    Rule("PacelineHostsHeld", "paceline_hosts_held", (), 0, TICKET,
         "{value} hosts aren't well and take tasks, since no more hosts are avoided at a time"),
    Rule("PacelineCheckBroken", "paceline_checks_broken", (), 0, TICKET,
         "{value} checks are bad on more than a tenth of the hosts at once: no host is drained for them"),
    Rule("PacelinePoolStarves", "paceline_pool_under_entitlement_seconds", (), 3600, TICKET,
         "pool {label} waits below its entitlement for {value} s"),
    Rule("PacelineClaimWaits", "paceline_pool_oldest_wait_seconds", ("place",), 900, TICKET,
         "entitled work of pool {label} has no host for {value} s"),
    Rule("PacelineStartsSlow", "paceline_pool_oldest_wait_seconds", ("start",), 1800, TICKET,
         "a task of pool {label} was ordered {value} s ago"),
    Rule("PacelinePreemptionSlow", "paceline_preemption_oldest_seconds", (), 600, TICKET,
         "an order to preempt is unanswered for {value} s"),
    Rule(CIRCLES, preemption_loops.ORDERS.name, (), 0, TICKET, "{label}"),
    Rule(STALLS, stalls.STALLED.name, (), 0, TICKET, "{label}"),
    Rule("PacelineUpdateStands", "paceline_update_oldest_seconds", (), 3600, TICKET,
         "an update, {label}, has made no progress for {value} s"),
    Rule("PacelineMaintenancePaused", "paceline_maintenances", ("PAUSED",), 0, TICKET,
         "{value} maintenances are paused: hosts have failed, or an operator paused them"),
    Rule("PacelineDrainStands", "paceline_drain_oldest_seconds", (), 14400, TICKET,
         "a host has been draining for {value} s"),
    Rule("PacelineDisruptionWaits", "paceline_disruption_oldest_seconds", (), 7200, TICKET,
         "a run that is to leave has waited for {value} s: {label}"),
    Rule("PacelineSlaNeverAllows", "paceline_disruption_jobs_waiting", ("SLA_NEVER_ALLOWS",), 0, TICKET,
         "{value} jobs never let a run leave that is to"),
)  # fmt: skip
BEHIND_MAX = 10_000


class Alarm(NamedTuple):
    """An alarm that holds."""

    name: str
    severity: str
    text: str


def alarms(
    connection: Connection, cell: int, now_ms: int, behind: Mapping[str, int], lags: Sequence[MachineLag]
) -> list[Alarm]:
    """The alarms that hold. `behind`: how many records the views don't have yet, per topic; `lags`: of the machines."""
    of_metrics = (pool_metrics, preemption_loops, stalls, job_metrics, maintenance_metrics)
    families = (machine_lag.LATE, *(family for each in of_metrics for family in each.FAMILIES))
    samples: Samples = {family.name: [] for family in families}
    machine_lag.look(lags, str(cell), now_ms, samples)
    pool_metrics.look(connection, str(cell), now_ms, samples)
    circles = preemption_loops.loops(connection, now_ms)
    preemption_loops.look(circles, str(cell), samples)
    standing = stalls.stalls(connection)
    stalls.look(standing, str(cell), samples)
    sentences = {loop.name: loop.sentence for loop in circles} | {each.job_id: each.sentence for each in standing}
    job_metrics.look(connection, str(cell), now_ms, samples)
    maintenance_metrics.look(connection, str(cell), now_ms, samples)
    out = []
    if sum(behind.values()) > BEHIND_MAX:
        out.append(Alarm("PacelineViewsBehind", PAGE, f"the views are {sum(behind.values())} records behind"))
    for rule in RULES:
        for labels, value in samples[rule.metric]:
            if value > rule.above and labels[len(labels) - len(rule.labels) :] == rule.labels:
                label = labels[1] if len(labels) > 1 else ""
                text = rule.text.format(label=sentences.get(label, label), value=round(value))
                out.append(Alarm(rule.name, rule.severity, text))
    return out
