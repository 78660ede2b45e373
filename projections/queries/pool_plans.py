"""What a change of pools would do, without doing it: whether entitlement would take it, what each pool could use then,
which work could be let in and which may have to leave for it.

The rules and the shares are those of the machine itself, run on the pools as the views have them. Work is chosen by
amounts: which runs leave is decided with the hosts, so that these are the first that may.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from events.codec import decode
from events.codes import ENDED_JOBS, Code
from events.pool_spec import PoolSpec, from_event
from events.quantities import write_amounts
from events.records.jobs import JobSubmitted
from events.records.pools import PoolDefined
from events.resources import Kinds, Vector, add, fits, scale, subtract
from processors.entitlement.pool_commands import answer
from processors.entitlement.pool_tree import Entry, Tree, pool_row
from processors.entitlement.rows import DefinedRow, root_row
from processors.entitlement.share_tree import ShareTree
from processors.state.record_rows import row_of
from projections.queries.pages import Json
from projections.queries.pool_tree import ROOT, capacity_of, pool_rows, spec_of
from projections.queries.resources import kinds_of, settings_of
from projections.queries.situations import LASTING
from projections.views import tables
from projections.views.rows import JobRow, amounts_in


class PoolWish(NamedTuple):
    """A pool as it shall be."""

    path: str
    spec: PoolSpec


class Work(NamedTuple):
    """A job as far as a plan looks at it."""

    row: JobRow
    need: Vector
    """Of one task."""
    waiting: int
    """Tasks that wait for admission."""
    holding: int
    """Tasks that are admitted."""


def plan(connection: Connection, cell: int, wishes: Sequence[PoolWish]) -> Json:
    """What would come of these pools in their cell, taken one after another."""
    kinds, capacity = kinds_of(connection), capacity_of(connection)
    rows = {row.path: row for row in pool_rows(connection)}
    specs = {path: spec_of(row) for path, row in rows.items()}
    before = _tree(cell, kinds, specs.values())
    after = _tree(cell, kinds, specs.values())
    whole = kinds.vector({name: amount for name, amount in capacity.amounts.items() if name in kinds.units})
    open_jobs = dict(map(tuple, connection.execute(select(tables.pool_use.c.path, tables.pool_use.c.open_jobs))))
    settings = settings_of(connection)
    changes = []
    for wish in wishes:
        event = wish.spec.to_event(wish.path, "dry run", cell)
        fact = row_of(DefinedRow, event)
        told = answer(0, fact, after, open_jobs, False, settings, whole if capacity.hosts else ())
        if told.code == Code.DONE:
            after.take(fact)
        changes.append(_change_json(event, specs.get(wish.path), told.code, told.message, kinds))
    work = list(_work(connection, kinds))
    pools = Shares(before, after, kinds, whole, work)
    return {
        "cell": cell,
        "changes": changes,
        "pools": pools.json(),
        "lets_in": list(pools.lets_in()),
        "preempts": list(pools.preempts(connection)),
    }


def _tree(cell: int, kinds: Kinds, specs: Iterable[PoolDefined]) -> Tree:
    entries = [Entry(ROOT, root_row().widened(kinds))]
    for spec in specs:
        own = spec.cell == cell
        row = pool_row(row_of(DefinedRow, spec), kinds) if own else None
        entries.append(Entry(spec.path, row, None if own else spec.cell))
    return Tree(cell, kinds, entries)


def _change_json(event: PoolDefined, old: PoolDefined | None, code: str, message: str, kinds: Kinds) -> Json:
    new = from_event(event, kinds.units)
    was = from_event(old, kinds.units) if old else {}
    fields = {name: {"before": was.get(name), "after": value} for name, value in new.items() if was.get(name) != value}
    fine = code in (Code.DONE, Code.REPEATED)
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


class Shares:
    """What pools may use before and after a change, with what they want and hold."""

    def __init__(self, before: Tree, after: Tree, kinds: Kinds, capacity: Vector, work: list[Work]) -> None:
        self._kinds, self._capacity, self._work = kinds, capacity, work
        self._nothing: Vector = (0,) * len(kinds)
        self._held: dict[str, Vector] = {}
        self._want: dict[str, Vector] = {}
        for each in work:
            pool = each.row.pool
            self._held[pool] = add(self._held.get(pool, self._nothing), each.need, each.holding)
            self._want[pool] = add(self._want.get(pool, self._nothing), each.need, each.holding + each.waiting)
        self._before, self._after = (self._entitlements(tree) for tree in (before, after))

    def json(self) -> list[Json]:
        """The pools whose entitlement the change changes."""
        return [
            {
                "path": path,
                "entitlement": {
                    "before": self._write(self._before.get(path)),
                    "after": self._write(self._after.get(path)),
                },
                "allocation": self._write(self._held.get(path, self._nothing)),
            }
            for path in sorted(self._before.keys() | self._after.keys())
            if path != ROOT and self._before.get(path) != self._after.get(path)
        ]

    def lets_in(self) -> Iterator[Json]:
        """Work that waits and that its pool could let in then."""
        room = {pool: subtract(self._may(pool), held) for pool, held in self._held.items()}
        for each in self._work:
            pool, gang = each.row.pool, each.row.gang_min
            size = gang if 1 < gang <= each.waiting else 1
            tasks = min(each.waiting, fits(scale(each.need, size), room[pool]) * size)
            if tasks > 0:
                room[pool] = subtract(room[pool], scale(each.need, tasks))
                yield _work_json(each, tasks)

    def preempts(self, connection: Connection) -> Iterator[Json]:
        """Work that may have to leave: of pools that hold more than they may use then, as far as others can use it."""
        lacks = used = self._nothing
        for pool, held in self._held.items():
            used = add(used, held)
            lacks = add(lacks, _positive(subtract(tuple(map(min, self._may(pool), self._want[pool])), held)))
        lacks = _positive(subtract(lacks, _positive(subtract(self._capacity, used))))
        over = {pool: subtract(held, self._may(pool)) for pool, held in self._held.items()}
        for each in sorted(self._work, key=lambda one: (one.row.priority, -one.row.number)):
            most = tuple(map(min, over[each.row.pool], lacks))
            needs = [-(-room // need) for need, room in zip(each.need, most, strict=True) if need and room > 0]
            tasks = min(each.holding, max(needs, default=0))
            if tasks and _preemptible(connection, each.row):
                amount = scale(each.need, tasks)
                over[each.row.pool] = subtract(over[each.row.pool], amount)
                lacks = _positive(subtract(lacks, amount))
                yield _work_json(each, tasks)

    def _entitlements(self, tree: Tree) -> dict[str, Vector]:
        shares = ShareTree(self._kinds)
        shares.set_capacity(self._capacity)
        for path in sorted(tree.pools, key=lambda each: (each.count("/") if each != ROOT else 0, each)):
            shares.define(path, tree.pools[path])
            if path in self._want:
                shares.set_want(path, self._want[path])
        return shares.all()

    def _may(self, pool: str) -> Vector:
        return self._after.get(pool, self._nothing)

    def _write(self, vector: Vector | None) -> dict[str, Any] | None:
        return None if vector is None else write_amounts(self._kinds.amounts(vector), self._kinds.units)


def _positive(vector: Vector) -> Vector:
    return tuple(max(0, each) for each in vector)


def _work_json(each: Work, tasks: int) -> Json:
    return {"job_id": each.row.job_id, "pool": each.row.pool, "priority": each.row.priority, "tasks": tasks}


def _preemptible(connection: Connection, row: JobRow) -> bool:
    submissions = tables.submissions.c
    event = decode(connection.execute(select(submissions.value).where(submissions.offset == row.offset)).scalar_one())
    return isinstance(event, JobSubmitted) and event.preemptible
