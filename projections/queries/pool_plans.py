"""The effects of a change of pools, without changing them: whether entitlement would take it, what each pool could use
then, which work could be let in and which may have to leave for it, beside what is so already.

The rules and the shares are those of the machine itself, run on the pools as the views have them.

Decision 036.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from events.codec import decode
from events.codes import ENDED_JOBS, IN_EFFECT, Code
from events.pool_paths import ROOT
from events.quantities import write_amounts
from events.reasons import LASTING
from events.records.jobs import JobSubmitted
from events.records.pools import PoolDefined
from events.resources import Kinds
from events.spec.pool import PoolSpec, from_event
from paceline.client.json_type import Json
from paceline.client.pool_models import CellPlan, FieldChange, JobOutlook, PoolChange, PoolOutlook
from processors.entitlement.pools import Entry, Tree, answer, pool_row
from processors.entitlement.rows import DefinedRow, root_row
from processors.state.record_rows import row_of
from projections.queries.pages import rows_of
from projections.queries.pool_outlook import Known, Outlook, Work
from projections.queries.pool_tree import capacity_of, pool_rows, spec_of, to_share
from projections.queries.resources import kinds_of, settings_of
from projections.views import tables
from projections.views.rows import JobRow, amounts_in
from projections.views.sharing_rows import TurnRow


class PoolWish(NamedTuple):
    """A pool as it shall be."""

    path: str
    spec: PoolSpec


def plan(connection: Connection, cell: int, wishes: Sequence[PoolWish]) -> CellPlan:
    """The effects of these pools in their cell, defined one after another."""
    kinds, capacity = kinds_of(connection), capacity_of(connection)
    rows = {row.path: row for row in pool_rows(connection)}
    specs = {path: spec_of(row) for path, row in rows.items()}
    before = _tree(cell, kinds, specs.values())
    after = _tree(cell, kinds, specs.values())
    whole, shared = (
        kinds.vector({name: amount for name, amount in amounts.items() if name in kinds.units})
        for amounts in (capacity.amounts, to_share(connection))
    )
    open_jobs = dict(map(tuple, connection.execute(select(tables.pool_use.c.path, tables.pool_use.c.open_jobs))))
    settings = settings_of(connection)
    changes = []
    for wish in wishes:
        event = wish.spec.to_event(wish.path, "dry run", cell)
        fact = row_of(DefinedRow, event)
        decision = answer(0, fact, after, open_jobs, False, settings, whole if capacity.hosts else ())
        if decision.code == Code.DONE:
            after.take(fact)
        changes.append(_change_json(event, specs.get(wish.path), decision.code, decision.message, kinds))
    work = list(_work(connection, kinds))
    turns = rows_of(connection, TurnRow, select(tables.turns))
    floors = {row.pool: kinds.vector(amounts_in(row.floor)) for row in turns}
    state = Known(kinds, shared, work, floors, _firmness(connection))
    now, then = Outlook(before, state), Outlook(after, state)
    first_to_leave = sorted(work, key=lambda each: (each.row.priority, -each.row.number))
    return {
        "cell": cell,
        "changes": changes,
        "pools": list(_pools_json(now, then, kinds)),
        "lets_in": list(_more(work, now.lets_in, then.lets_in)),
        "preempts": list(_more(first_to_leave, now.preempts, then.preempts)),
    }


def _tree(cell: int, kinds: Kinds, specs: Iterable[PoolDefined]) -> Tree:
    entries = [Entry(ROOT, root_row().widened(kinds))]
    for spec in specs:
        own = spec.cell == cell
        row = pool_row(row_of(DefinedRow, spec), kinds) if own else None
        entries.append(Entry(spec.path, row, None if own else spec.cell))
    return Tree(cell, kinds, entries)


def _change_json(event: PoolDefined, old: PoolDefined | None, code: str, message: str, kinds: Kinds) -> PoolChange:
    new = from_event(event, kinds.units)
    was = from_event(old, kinds.units) if old else {}
    fields: dict[str, FieldChange] = {
        name: {"before": was.get(name), "after": value} for name, value in new.items() if was.get(name) != value
    }
    fine = code in IN_EFFECT
    kind = ("create" if old is None else "change" if fields else "unchanged") if fine else "refuse"
    return {"path": event.path, "change": kind, "fields": fields, "code": code, "message": message}


def _work(connection: Connection, kinds: Kinds) -> Iterator[Work]:
    """The jobs that wait or hold something, in the order of the queues."""
    jobs, waiting, holds = tables.jobs.c, tables.waiting.c, tables.holds.c
    joined = tables.waiting.outerjoin(tables.holds, waiting.standing == holds.number)
    query = select(waiting.job_id, waiting.standing, waiting.tasks, holds.code).select_from(joined)
    claims: Counter[str] = Counter()
    aside: Counter[str] = Counter()
    for job_id, standing, tasks, code in connection.execute(query):
        if standing < 0:
            claims[job_id] += tasks
        elif code in LASTING:
            aside[job_id] += tasks
    live = jobs.ordered + jobs.running + jobs.stopping_tasks
    going = select(tables.jobs).where(live + jobs.queued > 0, jobs.state.not_in(ENDED_JOBS), jobs.base >= 0)
    for values in connection.execute(going.order_by(jobs.priority.desc(), jobs.accepted, jobs.offset)):
        row = JobRow(*values)
        need = {name: each for name, each in amounts_in(row.need).items() if name in kinds.units}
        holding = row.ordered + row.running + row.stopping_tasks + claims[row.job_id]
        waits = max(0, row.queued - claims[row.job_id] - aside[row.job_id])
        yield Work(row, kinds.vector(need), waits, holding)


def _firmness(connection: Connection) -> Callable[[Work], bool]:
    """Whether a job isn't preemptible: of those that wait entitlement has said it, of others the submission does."""
    waiting, holds, submissions = tables.waiting.c, tables.holds.c, tables.submissions.c
    query = select(waiting.job_id, holds.firm)
    query = query.select_from(tables.waiting.join(tables.holds, waiting.standing == holds.number))
    known = {job_id: bool(firm) for job_id, firm in connection.execute(query)}

    def is_firm(each: Work) -> bool:
        row = each.row
        if row.job_id not in known:
            value = connection.execute(select(submissions.value).where(submissions.offset == row.offset)).scalar_one()
            event = decode(value)
            known[row.job_id] = isinstance(event, JobSubmitted) and not event.preemptible
        return known[row.job_id]

    return is_firm


def _pools_json(before: Outlook, after: Outlook, kinds: Kinds) -> Iterator[PoolOutlook]:
    """The pools whose entitlement the change changes."""

    def write(outlook: Outlook, path: str) -> Json | None:
        return write_amounts(kinds.amounts(outlook.may[path]), kinds.units) if path in outlook.may else None

    for path in sorted(after.may):
        was, will_be = write(before, path), write(after, path)
        if path != ROOT and (was or {}) != (will_be or {}):
            allocation = after.held.get(path)
            yield {
                "path": path,
                "entitlement": {"before": was, "after": will_be},
                "allocation": write_amounts(kinds.amounts(allocation), kinds.units) if allocation else {},
            }


def _more(work: Iterable[Work], before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[JobOutlook]:
    """The tasks of jobs that the change adds to what is so already."""
    for each in work:
        job_id = each.row.job_id
        tasks = after.get(job_id, 0) - before.get(job_id, 0)
        if tasks > 0:
            yield {"job_id": job_id, "pool": each.row.pool, "priority": each.row.priority, "tasks": tasks}
