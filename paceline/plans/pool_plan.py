"""The end of a branch in which pools were changed, or were not, for `projections.queries.pool_plans`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from events.cell_settings import preemption_delay_ms
from events.codes import Code
from events.records.entitlement import GangsAdmitted, PreemptionsOrdered
from events.records.pools import PoolDefined
from events.topics import POOLS
from paceline.client.pool_models import PoolChange
from paceline.plans.branch import Branch, Decision
from paceline.plans.job_plan import MARGIN_MS
from paceline.plans.planning import Copy
from projections.queries import entities, pool_tree
from projections.queries.pool_plans import Outlook, change_json, outlook
from projections.queries.resources import kinds_of, settings_of
from projections.views.projector import Projector

AHEAD_MAX_MS = 10 * 60_000
"""A plan of pools looks no further ahead than this, in simulated time."""


def plan_pools(copy: Copy, events: Sequence[PoolDefined], until_s: float) -> Outlook:
    """The end of a branch in which these pools are defined, one after the other. `until_s`: see `Branch`."""
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()
    projector = Projector(copy.log, copy.views)
    projector.fold_whole()
    with projector.views.read() as connection:
        specs = {row.path: pool_tree.spec_of(row) for row in pool_tree.pool_rows(connection)}
        allocations = {pool["path"]: pool["allocation"] for pool in pool_tree.pools_json(connection)}
        ahead = ahead_ms(connection, {**specs, **{event.path: event for event in events}})
    before = len(branch.decisions)
    offsets = branch.append(events)
    branch.settle()
    while branch.advance(ahead):
        pass
    projector.fold_whole()
    preempted, admitted = _tasks(branch.decisions[before:])
    with projector.views.read() as connection:
        changes = _changes(connection, specs, events, offsets)
        return outlook(connection, changes, allocations, admitted, preempted)


def ahead_ms(connection: Connection, specs: Mapping[str, PoolDefined]) -> int:
    """The simulated time within which claims of all pools have had others preempted, in milliseconds."""
    settings = settings_of(connection)
    delays = [preemption_delay_ms(settings, spec.preemption_delay_ms) for spec in specs.values()]
    return min(AHEAD_MAX_MS, max(delays, default=0) + MARGIN_MS)


def _changes(
    connection: Connection, specs: Mapping[str, PoolDefined], events: Sequence[PoolDefined], offsets: Sequence[int]
) -> list[PoolChange]:
    """The planned pools, with the answers of entitlement. `specs`: the pools before."""
    kinds, changes = kinds_of(connection), []
    for event, offset in zip(events, offsets, strict=True):
        answer = entities.answer(connection, POOLS.name, offset)
        code, message = (answer.code, answer.message) if answer else (Code.NOT_YET_EVALUATED, "")
        changes.append(change_json(event, specs.get(event.path), code, message, kinds))
    return changes


def _tasks(decisions: Iterable[Decision]) -> tuple[dict[str, int], dict[str, int]]:
    """By job how many tasks were preempted, and how many others were admitted."""
    ordered: dict[tuple[str, int], None] = {}
    let_in: dict[tuple[str, int], None] = {}
    for each in decisions:
        event = each.event
        if isinstance(event, PreemptionsOrdered | GangsAdmitted):
            jobs, instances, _ = (column.tolist() for column in event.items())
            tasks = ordered if isinstance(event, PreemptionsOrdered) else let_in
            tasks |= {(event.job_ids[job], instance): None for job, instance in zip(jobs, instances, strict=True)}
    return (
        dict(Counter(job_id for job_id, _ in ordered)),
        dict(Counter(job_id for job_id, instance in let_in if (job_id, instance) not in ordered)),
    )
