"""Why placement would refuse a drain or a campaign, as the views stand: dry runs are refused alike."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from events.codes import Code, Stage
from events.maintenance_refusals import NO_FORCE, campaign_exists, campaign_refused, drain_refused, no_window
from events.records.hosts import HostsDrainRequested, MaintenanceRequested
from projections.queries.host_maintenance import stages_of
from projections.queries.resources import settings_of
from projections.views import tables

_FREE = (Stage.UP, Stage.CORDONED)
Refusal = tuple[Code, str]


def of_drain(connection: Connection, fact: HostsDrainRequested) -> Refusal | None:
    """Why a drain of hosts that are there is refused; None: it isn't."""
    if (fact.force or fact.escalate == "force") and not settings_of(connection).drain_force:
        return Code.FORCE_NOT_ALLOWED, NO_FORCE
    stages = stages_of(connection, fact.host_ids)
    refused = {each: Code.HOST_IN_CAMPAIGN for each in fact.host_ids if each in stages and stages[each].step}
    if not refused or (fact.most and _has_free(connection, fact.host_ids)):
        return None
    return drain_refused(refused, len(fact.host_ids))


def of_campaign(connection: Connection, fact: MaintenanceRequested) -> Refusal | None:
    """Why a campaign over hosts that are there is refused; None: it isn't."""
    columns = tables.maintenances.c
    state = connection.scalar(select(columns.state).where(columns.maintenance_id == fact.maintenance_id))
    if state is not None:
        return Code.WRONG_STATE, campaign_exists(fact.maintenance_id, state)
    if fact.plan.drain.escalate == "force" and not settings_of(connection).drain_force:
        return Code.FORCE_NOT_ALLOWED, NO_FORCE
    windows, window_id = tables.maintenance_windows.c, fact.plan.window_id
    if window_id and connection.scalar(select(windows.window_id).where(windows.window_id == window_id)) is None:
        return Code.NOT_FOUND, no_window(window_id)
    stages = stages_of(connection, fact.host_ids)
    refused = {each: Code.HOSTS_BUSY for each in fact.host_ids if each in stages and stages[each].step}
    return campaign_refused(refused, len(fact.host_ids)) if refused else None


def _has_free(connection: Connection, host_ids: Sequence[str]) -> bool:
    """Whether the cheapest of hosts are chosen among such as nobody has."""
    stages = stages_of(connection, host_ids)
    return any(each not in stages or (stages[each].stage in _FREE and not stages[each].step) for each in host_ids)
