"""The pool tree: facts about pools are answered by its rules, and followed once they are.

The pools below a pool and the sums of their reservations are kept up, so that no fact goes through all pools.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList

from events.bounds import INT_MAX, LABELS_MAX, MS_MAX, POOLS_MAX, SHARE_MAX, WORD_MAX
from events.cell_settings import Settings, SettingsChange, change_fault, changed
from events.codes import Code
from events.host_pools import POOLS_MAX as HOST_POOLS_MAX
from events.host_pools import missing_text, name_fault
from events.pool_paths import parent_of
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.resources import (
    REVOCABLE,
    Kinds,
    Unit,
    UnknownResource,
    Vector,
    add,
    amount_text,
    amounts_fault,
    names_fault,
    subtract,
)
from events.strategies import DEFAULT, STRATEGIES
from events.words import over_reserved
from processors.entitlement.access import Access
from processors.entitlement.access_rows import AccessFact
from processors.entitlement.rows import (
    UNLIMITED,
    AskRow,
    ConfiguredRow,
    DefinedRow,
    PoolFact,
    PoolRow,
    RebalanceRow,
    RemovedRow,
)
from processors.entitlement.state import State
from processors.state.table import Table, struct_table
from processors.state.widening import widen


def pool_row(fact: DefinedRow, kinds: Kinds) -> PoolRow:
    """The row of a definition. Raises `UnknownResource`."""
    return PoolRow(
        kinds.vector(fact.reservation),
        kinds.vector(fact.limit, UNLIMITED),
        kinds.vector(fact.share, fact.share_default),
        fact.share_default,
        fact.open_jobs_max,
        fact.open_tasks_max,
        tuple(name for name in kinds.names if name in fact.static),
        fact.preemption_delay_ms,
        fact.controllers_percent,
        fact.closed,
        fact.owners,
        fact.description,
        slack_percent=fact.slack_percent,
        strategy=fact.strategy,
        host_pools=fact.host_pools,
    )


class Entry(NamedTuple):
    """The meaning of a path: a pool of this cell, one of another, or nothing."""

    path: str
    row: PoolRow | None = None
    cell: int | None = None


class Tree:
    """The pools as a cell knows them: its own with their rows as they were defined, the others by path and cell."""

    def __init__(self, cell: int, kinds: Kinds, entries: Iterable[Entry]) -> None:
        self.cell = cell
        self.kinds = kinds
        self.pools: dict[str, PoolRow] = {}
        self.foreign: SortedDict[str, int] = SortedDict()
        self._below: dict[str, SortedList[str]] = {}
        self._reserved: dict[str, Vector] = {}
        for entry in entries:
            self.put(entry)

    def __len__(self) -> int:
        """The number of pools, without the root."""
        return len(self.pools) - 1 + len(self.foreign)

    def cell_of(self, path: str) -> int | None:
        """The cell of a pool; None: there is no such pool, or it is the root, which each cell has."""
        if path == "/":
            return None
        return self.cell if path in self.pools else self.foreign.get(path)

    def children(self, path: str) -> Sequence[str]:
        """The pools right below one of this cell, by path."""
        below: Sequence[str] = self._below.get(path, ())
        return below

    def reserved(self, path: str) -> Vector:
        """The amount that the pools right below one reserve together."""
        return self._reserved.get(path, (0,) * len(self.kinds))

    def foreign_below(self, path: str) -> Iterable[str]:
        """The pools of other cells below a path, by path."""
        below: Iterable[str] = self.foreign.irange(f"{path}/", f"{path}0", inclusive=(True, False))
        return below

    def take(self, fact: PoolFact) -> Entry | None:
        """Follows a fact that was answered DONE; returns what to `put` so that it is as before."""
        if isinstance(fact, ConfiguredRow):
            return None
        before = Entry(fact.path, self.pools.get(fact.path), self.foreign.get(fact.path))
        if not isinstance(fact, DefinedRow):
            self.put(Entry(fact.path))
        elif fact.cell == self.cell:
            self.put(Entry(fact.path, row=pool_row(fact, self.kinds)))
        else:
            self.put(Entry(fact.path, cell=fact.cell))
        return before

    def put(self, entry: Entry) -> None:
        """Lets a path stand for something else."""
        path, row, cell = entry
        old = self.pools.pop(path, None)
        self.foreign.pop(path, None)
        if row is not None:
            self.pools[path] = row
        if cell is not None:
            self.foreign[path] = cell
        if path == "/":
            return
        parent = parent_of(path)
        if old is not None:
            self._below[parent].remove(path)
            self._reserved[parent] = subtract(self.reserved(parent), old.reservation)
        if row is not None:
            if parent not in self._below:
                self._below[parent] = SortedList()
            self._below[parent].add(path)
            self._reserved[parent] = add(self.reserved(parent), row.reservation)


PATH = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){1,8}")

DEFINED = (
    *("reservation", "limit", "share", "share_default", "open_jobs_max", "open_tasks_max", "static"),
    *("preemption_delay_ms", "controllers_percent", "slack_percent", "closed", "owners", "description"),
    *("strategy", "host_pools"),
)
"""The fields of a pool that its definition sets."""
DESCRIPTION_MAX = 1000

Verdict = tuple[Code, str]


def answer(
    offset: int,
    fact: PoolFact,
    tree: Tree,
    open_jobs: Mapping[str, int],
    repeated: bool,
    settings: Settings,
    capacity: Vector = (),
    host_pools: Collection[str] = (),
) -> PoolAnswered:
    """The answer to one fact, as the tree is now; `repeated`: its command was done before; `settings`: those of the
    cell before this fact; `capacity`: what the cell has, empty while it has no hosts; `host_pools`: those that there
    are.
    """
    path = "/" if isinstance(fact, ConfiguredRow) else fact.path
    if verdict := _of_command(fact, repeated):
        code, message = verdict
    elif isinstance(fact, DefinedRow):
        code, message = _defined(fact, tree, open_jobs)
        if code == Code.DONE and fact.cell == tree.cell:
            unknown = missing_text(fact.host_pools, host_pools)
            message = ". ".join(filter(None, (_warning(path, fact, tree, capacity), unknown)))
    elif isinstance(fact, RemovedRow):
        code, message = _removed(path, tree, open_jobs)
    else:
        code, message = _configured(fact, settings)
    return PoolAnswered(
        path=path,
        pools_offset=offset,
        command_id=fact.command_id,
        code=code,
        message=message,
        host_pools=_host_pools(fact, tree) if code == Code.DONE else None,
    )


def _host_pools(fact: PoolFact, tree: Tree) -> tuple[str, ...] | None:
    """The host pools of a pool of this cell by a fact that is followed; None: it is about something else."""
    if isinstance(fact, DefinedRow):
        return fact.host_pools if fact.cell == tree.cell else None
    return () if isinstance(fact, RemovedRow) and fact.path in tree.pools else None


def access_answer(offset: int, fact: AccessFact, tree: Tree, access: Access, repeated: bool, now: int) -> PoolAnswered:
    """The answer to a fact about who may what, as the tree and what was bound are now."""
    code, message = _of_command(fact, repeated) or access.judge(fact, tree, now)
    path = access.path_of(fact)
    return PoolAnswered(path=path, pools_offset=offset, command_id=fact.command_id, code=code, message=message)


def _of_command(fact: PoolFact | AccessFact | RebalanceRow, repeated: bool) -> Verdict | None:
    """The answer by the id of its command alone; None: there is none."""
    if len(fact.command_id) > WORD_MAX:
        characters = len(fact.command_id)
        code = Code.INVALID_ACCESS if isinstance(fact, AccessFact) else Code.INVALID_POOL
        return code, f"command_id has {characters} characters, at most {WORD_MAX} are allowed"
    return (Code.REPEATED, "this command was done before") if repeated else None


def _defined(fact: DefinedRow, tree: Tree, open_jobs: Mapping[str, int]) -> Verdict:
    path, pools = fact.path, tree.pools
    if not PATH.fullmatch(path) or len(path) > WORD_MAX:
        return (
            Code.INVALID_POOL,
            f"{path[:200]!r} is no path of a pool; one looks like /maps/tiles and has at most {WORD_MAX} characters",
        )
    if fault := _bounds_fault(fact):
        return Code.INVALID_POOL, fault
    if tree.cell_of(path) is None and len(tree) >= POOLS_MAX:
        return Code.INVALID_POOL, f"the cell knows {len(tree)} pools, at most {POOLS_MAX} are allowed; remove one first"
    misplaced = _misplaced(fact, tree)
    if misplaced:
        return misplaced
    if fact.cell != tree.cell:
        return Code.DONE, f"the pool is known here as one of cell {fact.cell}"
    if fault := _fault(fact, tree.kinds.units):
        return Code.INVALID_POOL, fault
    if unknown := tree.kinds.unknown([*fact.reservation, *fact.limit, *fact.share, *fact.static]):
        return Code.UNKNOWN_RESOURCE, str(UnknownResource(unknown, tree.kinds.names))
    parent = parent_of(path)
    if parent not in pools:
        return Code.NO_SUCH_POOL, f"the pool above, {parent}, doesn't exist; define it first"
    old, new = pools.get(path), pool_row(fact, tree.kinds)
    if old is not None and _same(old, new):
        return Code.REPEATED, "the pool is defined like this already"
    if parent != "/" and open_jobs.get(parent, 0):
        return Code.POOL_NOT_A_LEAF, f"{parent} has {open_jobs[parent]} open jobs, so it can't get pools below it"
    return _amounts(path, new, tree) or (Code.DONE, "")


def _misplaced(fact: DefinedRow, tree: Tree) -> Verdict | None:
    """A pool stays in its cell until it is removed, and the pools below it are there too."""
    path, cell = fact.path, fact.cell
    present, above = tree.cell_of(path), tree.cell_of(parent_of(path))
    if present is not None and present != cell:
        return Code.WRONG_CELL, f"{path} belongs to cell {present}, not {cell}; a pool moves by being removed first"
    if above is not None and above != cell:
        return Code.WRONG_CELL, f"{parent_of(path)} belongs to cell {above}, so do the pools below it, not to {cell}"
    if present is None:
        for below in tree.foreign_below(path):
            if tree.foreign[below] != cell:
                return Code.WRONG_CELL, f"{below}, below it, belongs to cell {tree.foreign[below]}, not {cell}"
    return None


def _bounds_fault(fact: DefinedRow) -> str:
    """Why numbers or texts of a definition are beyond their bounds; empty: they are within."""
    for name in ("open_jobs_max", "open_tasks_max", "cell"):
        if not 0 <= getattr(fact, name) <= INT_MAX:
            return f"{name} is {getattr(fact, name)}, it must be 0 to {INT_MAX}"
    if fact.preemption_delay_ms is not None and not -1 <= fact.preemption_delay_ms <= MS_MAX:
        return f"preemption_delay_ms is {fact.preemption_delay_ms}, it must be -1 to {MS_MAX}"
    if not 0 <= fact.controllers_percent <= 100:
        return f"controllers_percent is {fact.controllers_percent}, it must be 0 to 100"
    if not 0 <= fact.slack_percent <= 100:
        return f"slack_percent is {fact.slack_percent}, it must be 0 to 100"
    if fact.strategy and fact.strategy not in (DEFAULT, *STRATEGIES):
        return f"strategy is {fact.strategy[:40]!r}, it must be one of {', '.join(STRATEGIES)}"
    if len({*fact.host_pools}) < len(fact.host_pools) or len(fact.host_pools) > HOST_POOLS_MAX:
        return f"host_pools: at most {HOST_POOLS_MAX} host pools are allowed, each once"
    if fault := next(filter(None, map(name_fault, fact.host_pools)), ""):
        return f"host_pools: {fault}"
    if fact.reservation.get(REVOCABLE):
        return f"nothing of {REVOCABLE} can be reserved: it is what others have reserved and don't use"
    if len(fact.owners) > LABELS_MAX:
        return f"{len(fact.owners)} owners are named, at most {LABELS_MAX} are allowed"
    if not all(1 <= len(owner) <= WORD_MAX for owner in fact.owners):
        return f"owners must have 1 to {WORD_MAX} characters"
    if len(fact.description) > DESCRIPTION_MAX:
        return f"the description has {len(fact.description)} characters, at most {DESCRIPTION_MAX} are allowed"
    return ""


def _fault(fact: DefinedRow, units: Mapping[str, Unit]) -> str:
    """Why amounts of a definition are beyond their bounds, whatever the tree is; empty: they are within."""
    for what, amounts in (("reservation", fact.reservation), ("limit", fact.limit)):
        if fault := amounts_fault(amounts, units):
            return f"{what}: {fault}"
    if fault := names_fault(fact.share):
        return f"share: {fault}"
    for name, share in (*fact.share.items(), ("share_default", fact.share_default)):
        if not 0 <= share <= SHARE_MAX:
            return f"share: {name} is {share}, it must be 0 to {SHARE_MAX}"
    return ""


def _same(old: PoolRow, new: PoolRow) -> bool:
    return all(getattr(old, field) == getattr(new, field) for field in DEFINED)


def _amounts(path: str, new: PoolRow, tree: Tree) -> Verdict | None:
    parent = parent_of(path)
    above, old = tree.pools[parent], tree.pools.get(path)
    siblings = subtract(tree.reserved(parent), old.reservation) if old else tree.reserved(parent)
    below = tree.reserved(path)
    for at, resource in enumerate(tree.kinds.names):
        reservation, limit = new.reservation[at], new.limit[at]
        text = partial(amount_text, unit=tree.kinds.units[resource])
        problem = ""
        reserved, needed = siblings[at] + reservation, below[at]
        if -1 < limit < reservation:
            problem = f"the limit {text(limit)} is below the reservation {text(reservation)}"
        elif -1 < above.limit[at] < limit:
            problem = f"the limit {text(limit)} is above the limit {text(above.limit[at])} of {parent}"
        elif parent != "/" and reserved > above.reservation[at]:
            problem = f"the pools of {parent} would reserve {text(reserved)}, it has {text(above.reservation[at])}"
        elif needed > reservation:
            problem = f"the pools below reserve {text(needed)}, more than {text(reservation)}"
        if problem:
            return Code.INVALID_POOL, f"{resource}: {problem}"
    return None


def _warning(path: str, fact: DefinedRow, tree: Tree, capacity: Vector) -> str:
    """A warning that a definition promises more than the cell has; empty: it doesn't."""
    if parent_of(path) != "/" or not capacity:
        return ""
    new, old = pool_row(fact, tree.kinds), tree.pools.get(path)
    others = subtract(tree.reserved("/"), old.reservation) if old else tree.reserved("/")
    over = []
    for resource, have, reserved, more in zip(tree.kinds.names, capacity, others, new.reservation, strict=True):
        if more and reserved + more > have:
            text = partial(amount_text, unit=tree.kinds.units[resource])
            over.append((f"{text(reserved + more)} {resource}", f"{text(have)} {resource}"))
    return over_reserved(over)


def _removed(path: str, tree: Tree, open_jobs: Mapping[str, int]) -> Verdict:
    pools = tree.pools
    if path in tree.foreign:
        return Code.DONE, ""
    if path not in pools or path == "/":
        return Code.NO_SUCH_POOL, f"there is no pool {path[:200]}"
    below = tree.children(path)
    if below:
        return Code.POOL_IN_USE, f"{path} has pools below it: {', '.join(below[:5])}"
    if open_jobs.get(path, 0):
        return Code.POOL_IN_USE, f"{path} has {open_jobs[path]} open jobs"
    return Code.DONE, ""


def _configured(fact: ConfiguredRow, settings: Settings) -> Verdict:
    if fault := change_fault(settings, fact.change):
        return Code.INVALID_SETTINGS, fault
    if changed(settings, fact.change) == settings:
        return Code.REPEATED, "the cell has these settings already"
    return Code.DONE, ""


COMMANDS_KEPT = 1000
"""So many of the newest commands about pools are known again when they are repeated."""


class Pools:
    """Answers facts about pools, and follows what was answered. `number`: that of the cell."""

    def __init__(self, number: int, state: State) -> None:
        self._number = number
        self._state = state
        self._pools = state.pools
        self._queues = state.queues
        self.foreign: Table[str, int] = struct_table("foreign", int)
        """The pools of other cells: the cell of each."""
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self.done: Table[str, int] = struct_table("commands", int)
        """Commands that were done: where they stand in the topic of pools."""
        self.access = Access()
        self._tree = self._new_tree()

    def restored(self) -> None:
        """The tables were loaded."""
        self._tree = self._new_tree()
        self.access.restored()

    def answers(self, now: int, budget: int) -> list[Event]:
        """Answers to facts about pools, each as the tree is after the ones before."""
        offsets = sorted(self.asks)[:budget]
        is_access = any(isinstance(self.asks[offset].fact, AccessFact) for offset in offsets)
        access = self.access.copy() if is_access else Access()
        tree, done, cell = self._tree, dict(self.done.items()), self._state.cell
        capacity = cell.capacity if cell.hosts else ()
        before: list[Entry] = []
        out: list[Event] = []
        for offset in offsets:
            fact = self.asks[offset].fact
            repeated = fact.command_id in done
            if isinstance(fact, AccessFact):
                answered = access_answer(offset, fact, tree, access, repeated, now)
                if answered.code == Code.DONE:
                    access.take(offset, fact)
            elif isinstance(fact, RebalanceRow):
                answered = self._rebalance(offset, fact, repeated, now)
            else:
                answered = answer(
                    offset, fact, tree, self._queues.open_jobs, repeated, cell.settings, capacity, cell.host_pools
                )
                if answered.code == Code.DONE:
                    was = tree.take(fact)
                    before += [was] if was else []
                    if isinstance(fact, RemovedRow):
                        access.pool_removed(fact.path)
            if answered.code == Code.DONE:
                done[fact.command_id] = offset
            out.append(answered)
            if answered.code == Code.DONE and isinstance(fact, ConfiguredRow):
                break  # what comes after it is judged by the new settings
        for entry in reversed(before):
            tree.put(entry)
        return out

    def _rebalance(self, offset: int, fact: RebalanceRow, repeated: bool, now: int) -> PoolAnswered:
        """The answer to who wants room made for a job."""
        job, per_hour = self._queues.jobs.get(fact.job_id), self._state.cell.settings.rebalance_moves_per_hour
        code, message = _of_command(fact, repeated) or (Code.DONE, "")
        if code == Code.DONE and job is None:
            code, message = Code.NOT_FOUND, f"there is no job {fact.job_id[:WORD_MAX]!r} that isn't over"
        elif code == Code.DONE and fact.by_setting and not self._state.rebalances.left(per_hour, now):
            code = Code.MOVES_REACHED
            message = f"no more tasks are moved without being asked for: rebalance_moves_per_hour is {per_hour}"
        elif code == Code.DONE and job is not None and not any(part.claims for part in job.parts.values()):
            message = f"no task of job {fact.job_id} is entitled and waits for a place"
        return PoolAnswered(
            path=job.pool if job is not None else "/",
            pools_offset=offset,
            command_id=fact.command_id,
            code=code,
            message=message,
        )

    def answered(self, event: PoolAnswered) -> PoolFact | RebalanceRow | None:
        """A fact was answered; one that is done is followed. Returns it if it changed own pools or settings, or room is
        to be made.
        """
        fact = self.asks[event.pools_offset].fact
        self.asks.remove(event.pools_offset)
        if event.code != Code.DONE:
            return None
        self.done.put(event.command_id, event.pools_offset)
        if len(self.done) > COMMANDS_KEPT:
            self.done.remove(min(self.done, key=self.done.__getitem__))
        if isinstance(fact, AccessFact):
            self.access.take(event.pools_offset, fact)
            return None
        if isinstance(fact, RebalanceRow):
            return fact
        self._tree.take(fact)
        if isinstance(fact, RemovedRow):
            self.access.pool_removed(fact.path)
        if self._is_foreign(fact):
            return None
        if isinstance(fact, DefinedRow):
            pool, old = pool_row(fact, self._queues.kinds), self._pools.get(fact.path)
            if old is not None:
                pool.served, pool.credit, pool.turn, pool.goes_on = old.served, old.credit, old.turn, old.goes_on
            self._pools.put(fact.path, pool)
        elif isinstance(fact, RemovedRow):
            self._pools.remove(fact.path)
        else:
            self._configured(fact.change)
        return fact

    def _new_tree(self) -> Tree:
        """The pools as the rows have them."""
        own = [Entry(path, row=row) for path, row in self._pools.items()]
        foreign = [Entry(path, cell=cell) for path, cell in self.foreign.items()]
        return Tree(self._number, self._queues.kinds, own + foreign)

    def _configured(self, change: SettingsChange) -> None:
        """The cell has other settings, and may know more kinds."""
        kinds = self._state.change_cell().configure(change)
        if len(kinds) > len(self._queues.kinds):
            widen(kinds, self._pools)
            self._queues.widen(kinds)
            self._tree = self._new_tree()
        self._queues.kinds = kinds

    def _is_foreign(self, fact: PoolFact) -> bool:
        """Notes what was done to a pool of another cell; False: it is one of this cell, or none."""
        if isinstance(fact, DefinedRow) and fact.cell != self._number:
            self.foreign.put(fact.path, fact.cell)
            return True
        if isinstance(fact, RemovedRow) and fact.path in self.foreign:
            self.foreign.remove(fact.path)
            return True
        return False
