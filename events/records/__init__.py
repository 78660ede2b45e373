"""Every record by name."""

from events.records import entitlement, hosts, jobs, lifecycle, placement, pools, rounds, sla, tasks
from events.records.base import Event

BY_NAME: dict[str, type[Event]] = {
    record.__name__: record
    for module in (jobs, pools, hosts, tasks, lifecycle, entitlement, placement, sla, rounds)
    for record in module.ALL
}
