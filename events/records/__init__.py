"""Every record by name."""

from events.records import (
    admissions,
    entitlement,
    forecasts,
    hosts,
    job_states,
    jobs,
    lifecycle,
    placement,
    placements,
    pools,
    preemptions,
    quarantine,
    rounds,
    sla,
    task_states,
    tasks,
)
from events.records.base import Event

BY_NAME: dict[str, type[Event]] = {
    record.__name__: record
    for module in (
        *(jobs, pools, hosts, tasks, forecasts, lifecycle, entitlement, placement, sla, rounds),
        *(placements, preemptions, admissions, job_states, task_states, quarantine),
    )
    for record in module.ALL
}
