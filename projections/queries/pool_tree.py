"""Pools as the API shows them: the tree with what each may use, demands and holds, and who waits in its queues."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, case, func, or_, select

from events.codec import decode
from events.pool_paths import ROOT, levels_of, parent_of, path_to
from events.quantities import write_amounts
from events.records.pools import PoolDefined
from events.resources import REVOCABLE, Amounts, Kinds, in_order
from events.spec.pool import from_event
from events.words import over_reserved
from events.work_classes import CONTROLLERS, DAEMONS, FIRM, NAMES, REVOCABLES
from paceline.client.models import Amounts as Written
from paceline.client.pool_models import (
    CellCapacity,
    Credit,
    PlainPool,
    Pool,
    PoolSpecification,
    Queue,
    QueueClass,
    QueuedGang,
    QueueLine,
    SharedAmounts,
    Turn,
)
from projections.queries.cell_capacity import Capacity, capacity_of
from projections.queries.pages import rows_of
from projections.queries.resources import kinds_of, shares_json
from projections.queries.sentences import amount
from projections.queries.strategies import named_strategies, strategy_of_pool
from projections.queries.tasks import waiting_ranges
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow, PoolRow, amounts_in
from projections.views.sharing_rows import CreditRow, TurnRow, WaitReasonRow
from projections.views.waiting import Standing

NOBODY = {"entitled": 0, "borrowed": 0}
SHARED = ("entitlement", "demand", "allocation")


Shown = Callable[[str], bool]
"""Whether the pool of a path is shown."""


def _all(path: str) -> bool:
    return True


def to_share(connection: Connection) -> Amounts:
    """The amounts that pools share, as entitlement last said of the root: those of the cell less those of daemons."""
    return amounts_in(_root(connection).entitlement) or capacity_of(connection).amounts


def _root(connection: Connection) -> PoolRow:
    rows = rows_of(connection, PoolRow, select(tables.pools).where(tables.pools.c.path == ROOT))
    return rows[0] if rows else PoolRow(ROOT, 0, b"")


def beside(connection: Connection, path: str) -> dict[str, Amounts]:
    """The demand within their reservations of the pools beside one, and beside each above it."""
    own, pools = path_to(path), tables.pools
    parents = [parent_of(each) for each in own]
    near = [pools.c.path.like(f"{'' if each == ROOT else each}/%") for each in parents]
    rows = rows_of(connection, PoolRow, select(pools).where(or_(*near), pools.c.path.not_in(own))) if near else []
    demand = {}
    for row in rows:
        if parent_of(row.path) in parents and row.spec:
            wants = amounts_in(row.demand)
            wants_here = {name: min(most, wants.get(name, 0)) for name, most in spec_of(row).reservation.items()}
            demand[row.path] = {name: most for name, most in wants_here.items() if most}
    return {name: each for name, each in demand.items() if each}


def spec_of(row: PoolRow) -> PoolDefined:
    """The definition of a pool."""
    spec = decode(row.spec)
    assert isinstance(spec, PoolDefined)
    return spec


def pool_rows(connection: Connection, path: str = "") -> list[PoolRow]:
    """Pools by path but for the root, those of other cells among them; one pool where a path is given."""
    pools = tables.pools
    query = select(pools).where(pools.c.path != ROOT).order_by(pools.c.path)
    return rows_of(connection, PoolRow, query.where(pools.c.path == path) if path else query)


def hostless(connection: Connection) -> set[str]:
    """The pools that have, or have below them, entitled tasks that wait for a host now. Those that wait before they are
    tried again keep their admission and wait for no host.
    """
    waiting, jobs = tables.waiting.c, tables.jobs.c
    query = select(jobs.pool).distinct().where(waiting.job_id == jobs.job_id, waiting.tasks > 0)
    rows = connection.execute(query.where(waiting.standing == Standing.ENTITLED)).scalars()
    return {level for pool in rows for level in (ROOT, *path_to(pool))}


def pools_json(connection: Connection, path: str = "", is_shown: Shown = _all) -> list[PlainPool]:
    """The same as the API shows them, without what waits in them. Open jobs and tasks are those of all pools below too:
    where there are some, jobs go to them alone.
    """
    use = tables.pool_use.c
    query = select(use.path, use.open_jobs, use.open_tasks)
    jobs, tasks = Counter[str](), Counter[str]()
    if path:
        query = query.where((use.path == path) | (use.path > f"{path}/") & (use.path < f"{path}0"))
    for each, open_jobs, open_tasks in connection.execute(query):
        for level in path_to(each):
            jobs[level] += open_jobs
            tasks[level] += open_tasks
    kinds = kinds_of(connection)
    waiting = hostless(connection)
    return [
        _pool_json(row, kinds, jobs[row.path], tasks[row.path], row.path in waiting)
        for row in pool_rows(connection, path)
        if is_shown(row.path)
    ]


def pools_in_full(connection: Connection, path: str = "", is_shown: Shown = _all) -> list[Pool]:
    """The same with their queues, turns and credits."""
    kinds, queues, placing = kinds_of(connection), _queues(connection, path), _placing(connection, path)
    turns = {row.pool: row for row in rows_of(connection, TurnRow, select(tables.turns))}
    credits = {row.pool: row for row in rows_of(connection, CreditRow, select(tables.credits))}
    strategies = named_strategies(connection, levels_of(path) if path else ())
    return [
        {
            **pool,
            "strategy_in_effect": strategy_of_pool(pool["path"], strategies),
            "queue": queues.get(pool["path"], {}),
            "waiting_for_place": placing.get(pool["path"], NOBODY),
            "turn": _turn_json(turns.get(pool["path"]), kinds),
            "credit": _credit_json(credits.get(pool["path"])),
        }
        for pool in pools_json(connection, path, is_shown)
    ]


def cell_json(connection: Connection, cell: int) -> CellCapacity:
    """The capacity of a cell, its use, and warnings about reservations."""
    kinds, capacity = kinds_of(connection), capacity_of(connection)
    _, use = _shared(_root(connection), kinds)
    return {
        "cell": cell,
        "hosts": capacity.hosts,
        "capacity": write_amounts(in_order(capacity.amounts), kinds.units),
        **use,
        "warnings": [*_warnings(connection, cell, capacity, kinds)],
    }


def _warnings(connection: Connection, cell: int, capacity: Capacity, kinds: Kinds) -> Iterable[str]:
    """That pools of the first level reserve more than the cell has."""
    reserved: Amounts = {}
    pools = tables.pools
    first = select(pools).where(pools.c.path != ROOT, pools.c.path.not_like("/%/%"))
    for row in rows_of(connection, PoolRow, first):
        spec = spec_of(row)
        if spec.cell == cell:
            for name, most in spec.reservation.items():
                reserved[name] = reserved.get(name, 0) + most
    have = {name: capacity.amounts.get(name, 0) for name in reserved}
    over = [(name, most) for name, most in in_order(reserved).items() if most > have[name]]
    if over:
        yield over_reserved([(amount(name, most, kinds), amount(name, have[name], kinds)) for name, most in over])


def _pool_json(row: PoolRow, kinds: Kinds, open_jobs: int, open_tasks: int, hostless: bool) -> PlainPool:
    spec = spec_of(row)
    entitlement, use = _shared(row, kinds)
    return {
        "path": row.path,
        "cell": spec.cell,
        "parent": parent_of(row.path),
        **cast(PoolSpecification, from_event(spec, kinds.units)),
        "share": shares_json(spec.share, spec.share_default, kinds),
        "open_jobs": open_jobs,
        "open_tasks": open_tasks,
        "entitlement": entitlement,
        **use,
        "admitted": row.admitted,
        "preempted": row.preempted,
        "over_since": at(row.over_since_ms),
        "under_since": at(row.under_since_ms) if hostless else None,
        "defined_at": at(row.at_ms),
        "position": f"paceline.pools:{row.offset}",
    }


def _shared(row: PoolRow, kinds: Kinds) -> tuple[Written, SharedAmounts]:
    """The entitlement of a pool, and its demand and use."""
    shared = {name: amounts_in(getattr(row, name)) for name in SHARED}
    placed = amounts_in(row.placed)
    without = {name: most - placed.get(name, 0) for name, most in shared["allocation"].items()}
    shared |= {"held": placed, "without_hosts": {name: rest for name, rest in without.items() if rest}}
    written = {name: write_amounts(amounts, kinds.units) for name, amounts in shared.items()}
    return written.pop("entitlement"), cast(SharedAmounts, written)


def _turn_json(row: TurnRow | None, kinds: Kinds) -> Turn | None:
    if row is None:
        return None
    floor = write_amounts(in_order(amounts_in(row.floor)), kinds.units)
    return {
        "job_id": row.job_id,
        "first": row.first,
        "count": row.count,
        "floor": floor,
        "since": at(row.since_ms),
    }


def _credit_json(row: CreditRow | None) -> Credit | None:
    """The part of a turn's cost that a pool has saved, in percent of the resource of which it has least, and since
    when.
    """
    credit, _, full = row.amounts() if row is not None else ([], [], [])
    if row is None or not full:
        return None
    least = 100 if row.goes_on else min(100 * have // most for have, most in zip(credit, full, strict=True))
    return {"percent": max(0, min(100, least)), "saves": row.suffices_ms() is not None, "at": at(row.at_ms)}


_waiting, _holds, _jobs = tables.waiting.c, tables.holds.c, tables.jobs.c
_IN_LINE = tables.waiting.join(tables.holds, _waiting.standing == _holds.number)
_IN_LINE = _IN_LINE.join(tables.jobs, _waiting.job_id == _jobs.job_id)
_ORDER = (_jobs.priority.desc(), _jobs.accepted, _jobs.offset)
_OF_FLAGS = FIRM * _holds.firm + CONTROLLERS * _holds.controllers
CLASS: Any = case(
    (_jobs.kind == "daemon", DAEMONS),
    (func.instr(_jobs.need, f'"{REVOCABLE}"') > 0, REVOCABLES),
    else_=_OF_FLAGS,
)
"""The class of a job that waits for admission (`class_of`)."""


def _queues(connection: Connection, path: str) -> dict[str, dict[str, QueueLine]]:
    """By pool and class what waits for admission: jobs, tasks, and the head that isn't let in, with its code. What
    stands aside until hosts or pools change is no head as long as others wait.
    """
    classes = (_holds.pool, CLASS.label("kind"))
    first = func.row_number().over(partition_by=classes, order_by=(_holds.aside, *_ORDER)).label("first")
    tasks = func.sum(_waiting.tasks).over(partition_by=classes)
    query = select(*classes, first, _waiting.job_id, _holds.code, _holds.at, tasks.label("tasks")).select_from(_IN_LINE)
    if path:
        query = query.where(_holds.pool == path)
    count = select(*classes, func.count(_waiting.job_id.distinct())).select_from(_IN_LINE).group_by(*classes)
    jobs = {
        tuple(key): number for *key, number in connection.execute(count.where(_holds.pool == path) if path else count)
    }
    out: dict[str, dict[str, QueueLine]] = {}
    ranked = query.subquery()
    for pool, kind, _, job_id, code, says, number in connection.execute(ranked.select().where(ranked.c.first == 1)):
        line: QueueLine = {
            "jobs": jobs[pool, kind],
            "tasks": number,
            "head": {"job_id": job_id, "code": code, "pool": says},
        }
        out.setdefault(pool, {})[NAMES[kind]] = line
    return out


def _placing(connection: Connection, path: str) -> dict[str, dict[str, int]]:
    """By pool the tasks that are admitted and have no place."""
    query = select(_jobs.pool, _waiting.standing, func.sum(_waiting.tasks)).where(_waiting.standing < 0)
    query = query.select_from(tables.waiting.join(tables.jobs, _waiting.job_id == _jobs.job_id))
    query = query.group_by(_jobs.pool, _waiting.standing)
    out: dict[str, dict[str, int]] = {}
    for pool, standing, tasks in connection.execute(query.where(_jobs.pool == path) if path else query):
        out.setdefault(pool, dict(NOBODY))[Standing(standing).name.lower()] = tasks
    return out


def queue_json(connection: Connection, path: str, size: int) -> Queue:
    """The first gangs of each class that wait in a pool, with their codes; those that stand aside at their places."""
    lines = _queues(connection, path).get(path, {})
    kinds = kinds_of(connection)
    classes: dict[str, QueueClass] = {}
    for kind, name in NAMES.items():
        if name in lines:
            gangs = _gangs(connection, kinds, path, kind, size)
            classes[name] = {"jobs": lines[name]["jobs"], "tasks": lines[name]["tasks"], "gangs": gangs}
    placing = _placing(connection, path).get(path, NOBODY)
    return {"path": path, "classes": classes, "waiting_for_place": placing}


def _gangs(connection: Connection, kinds: Kinds, path: str, kind: int, size: int) -> list[QueuedGang]:
    query = select(tables.jobs, tables.holds).select_from(_IN_LINE).order_by(*_ORDER, _waiting.standing)
    query = query.where(_holds.pool == path, kind == CLASS)
    out: list[QueuedGang] = []
    width = len(tables.jobs.c)
    for values in connection.execute(query.limit(size)):
        job, hold = JobRow(*values[:width]), WaitReasonRow(*values[width:])
        for first, count, since_s in waiting_ranges(connection, job, hold.number, size - len(out)):
            out.append(_gang_json(job, hold, kinds, first, count, since_s))
        if len(out) >= size:
            break
    return out


def _gang_json(job: JobRow, hold: WaitReasonRow, kinds: Kinds, first: int, count: int, since_s: int) -> QueuedGang:
    numbers: Mapping[str, Any] = msgspec.json.decode(hold.numbers)
    return {
        "job_id": job.job_id,
        "priority": job.priority,
        "first": first,
        "count": count,
        "code": hold.code,
        "pool": hold.at,
        "since": at(since_s * 1000),
        "asked": write_amounts(in_order(dict(numbers["asked"])), kinds.units),
        "not_before": at(numbers.get("not_before_ms", 0)),
    }


def pool_pending(connection: Connection, path: str) -> bool:
    """Whether a fact about a pool isn't answered yet."""
    facts = tables.pool_facts.c
    return connection.execute(select(facts.offset).where(facts.path == path).limit(1)).first() is not None
