"""Notes about the SLA of a job that is submitted: it is taken all the same, and does what its user may not expect."""

from collections.abc import Iterator

from sqlalchemy import Connection

from events.bounds import INSTANCES_MAX
from events.codes import Code
from events.records.jobs import JobSubmitted
from events.sla import hourly, limit, never_allows, replaces_first, strictest
from events.words import plural
from projections.queries.slas import bounds_in, group_row


def sla_warnings(connection: Connection, event: JobSubmitted) -> Iterator[str]:
    """That a budget never allows a disruption, never that of its gang, or is that of a group that nobody has set."""
    most, policy, instances = event.max_unavailable, event.sla, event.instances
    if event.kind == "daemon":
        instances = 0 if policy is not None else 1  # percentages are of the hosts that match it, which come and go
    gang = event.gang_min if event.gang_min > 1 else 0
    rate, allowed = hourly(policy, instances), limit(most, policy, instances)
    if never_allows(most, policy, instances):
        bound = strictest(most, policy, instances) if not allowed else "max_disruptions_per_hour is 0"
        or_else = " or set `replace: before`" if not allowed and event.kind == "stateless" else ""
        yield (
            f"the SLA never lets an instance go: {bound}. Drains wait until you relax it{or_else} "
            f"({Code.SLA_NEVER_ALLOWS})"
        )
    elif gang > allowed and not replaces_first(policy):
        yield (
            f"the gang of {plural(gang, 'task')} leaves whole, and the SLA lets {allowed} be unavailable: it never "
            f"lets the gang go ({Code.SLA_NEVER_ALLOWS})"
        )
    elif rate is not None and gang > rate:
        yield (
            f"the gang of {plural(gang, 'task')} leaves whole, and the SLA lets {rate} be disrupted in an hour: it "
            f"never lets the gang go ({Code.SLA_NEVER_ALLOWS})"
        )
    if policy is None or not policy.group:
        return
    row = group_row(connection, policy.group)
    if row is None:
        sets = f"`paceline sla group set {policy.group}` sets it"
        yield f"SLA group {policy.group} isn't set, so it bounds nothing yet: {sets}"
    elif not bounds_in(row).limit(INSTANCES_MAX):
        yield f"SLA group {policy.group} never lets an instance go: {bounds_in(row).words()} ({Code.SLA_NEVER_ALLOWS})"
