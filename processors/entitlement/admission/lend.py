"""Idle capacity is lent: preemptible work is admitted beyond the entitlement of its pool, where hosts may have room.

Pools are lent to in the order of what they hold beyond the entitlement that was reported last, for their share, and
those with a share of 0 come last; then it is the pool that was served longest ago. A pool gets the head of its queue;
units behind a head that finds no room come after all other pools, and those behind a head for which its pool saves
after that. A shape that found no host backs off in its pool.

The order is derived, and kept up for pools of which something has changed, in proportion to their shapes. Pools stand
in it by what the unit needs, so that those which can't have what is idle aren't looked at.

What nobody claims may be lent at once; beside claims that stay, capacity is lent that was idle for a time. Of idle
capacity the least in each of a few stretches of time is kept as a row, of claims the most, as it was reported with the
entitlements. A stream of tasks has its claims placed and others in their stead from one moment to the next, so it is
the amount that counts, and neither the age of a claim nor what is claimed between two rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from sortedcontainers import SortedSet

from events.pool_paths import parent_of
from events.ranks import Rank
from events.records.base import Event
from events.resources import Vector, add, fits, scale, subtract
from events.work_classes import LENT_TO
from processors.entitlement.admission.admit import Admission, PassResult
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import BOUNDLESS, BOUNDS, Ask, closed_at, has_no_share, room
from processors.entitlement.queues.order import Place
from processors.entitlement.queues.parts import GANG, ROLES, Consumer, Form, PartKey
from processors.entitlement.records import TaskRecords
from processors.entitlement.rows import BackoffRow, IdleRow, SteadyRow
from processors.entitlement.state import State
from processors.state.deadlines import earliest
from processors.state.steps import Pass
from processors.state.table import Table, struct_table


class Key(NamedTuple):
    """The order in which pools are lent to."""

    behind: bool
    saves: bool
    without_share: bool
    beyond: Fraction
    served: int
    pool: str


Group = tuple[bool, Vector]
"""Whether it is about units behind heads, and what such a unit needs."""


class LendOrder:
    """The places of pools with work that may be lent to."""

    def __init__(self, state: State) -> None:
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._pools = state.pools
        self._reported = state.reported
        self._groups: dict[Group, SortedSet[Key]] = {}
        self._keys: dict[str, dict[Group, Key]] = {}

    def clear(self) -> None:
        """Removes all pools."""
        self._groups.clear()
        self._keys.clear()

    def refresh(self, pools: Iterable[str]) -> None:
        """Finds the places of pools of which something has changed."""
        for pool in pools:
            old, new = {**self._keys.get(pool, {})}, self._new_keys(pool)
            for group, key in old.items():
                if new.get(group) != key:
                    self.drop(group, pool)
            for group, key in new.items():
                if old.get(group) != key:
                    self._groups.setdefault(group, SortedSet()).add(key)
                    self._keys.setdefault(pool, {})[group] = key

    def drop(self, group: Group, pool: str) -> None:
        """Removes a pool, which gets nothing there before something changes for it."""
        of_pool, keys = self._keys[pool], self._groups[group]
        keys.remove(of_pool.pop(group))
        if not keys:
            del self._groups[group]
        if not of_pool:
            del self._keys[pool]

    def groups_that_fit(self, room: Vector) -> Iterator[Group]:
        """Return the groups of which a unit has room."""
        return (group for group in self._groups if fits(group[1], room))

    def at(self, group: Group, place: int) -> Key | None:
        """Return the pool at a place of a group, from 0; None: there is none."""
        keys = self._groups[group]
        key: Key | None = keys[place] if place < len(keys) else None
        return key

    def key(self, pool: str, group: Group, allocation: Vector) -> Key:
        """Return the place of a pool that has so much, if that isn't applied yet."""
        behind, need = group
        row, kinds = self._pools[pool], [kind for kind, want in enumerate(need) if want > 0]
        levels = self._usage.levels(pool)[:-1]
        without = any(has_no_share(self._pools[level], kind) for level in levels for kind in kinds)
        entitlement = self.entitlement(pool)
        beyond = [Fraction(allocation[kind] - entitlement[kind], row.share[kind] or 1) for kind in kinds]
        return Key(behind, behind and row.is_saving, without, max(beyond, default=Fraction(0)), row.served, pool)

    def entitlement(self, pool: str) -> Vector:
        """Return the entitlement of a pool that was reported last."""
        row = self._reported.get(pool)
        return self._queues.nothing if row is None else row.entitlement

    def _new_keys(self, pool: str) -> dict[Group, Key]:
        """The places of a pool. Units that need the same kinds have the same."""
        queues, allocation = self._queues, self._usage[pool].allocation
        if pool not in self._pools or closed_at(self._pools, self._usage.levels(pool)):
            return {}
        firsts = [(places[0], form) for (kind, form), places in self._order[pool].forms.items() if kind in LENT_TO]
        head = min(firsts, default=None)
        alike: dict[tuple[bool, ...], Key] = {}
        keys: dict[Group, Key] = {}
        for first in firsts:
            place, form = first
            group = (first is not head, queues.form_need(form, queues.jobs[place[-1].job_id]))
            kinds = (group[0], *(want > 0 for want in group[1]))
            if kinds not in alike:
                alike[kinds] = self.key(pool, group, allocation)
            keys[group] = alike[kinds]
        return keys


MINE = -1
"""The place of a pool that got something in this pass: it stands by itself."""
Entry = tuple[Key, Vector, int]
"""The pool that is lent to next: key, what a unit needs, its place in that group."""


class Candidate(NamedTuple):
    """The unit that a pool would get next."""

    place: Place
    kind: int
    need: Vector


class LendingPass:
    """Loans of one pass, within a room; nothing of them is applied yet."""

    def __init__(
        self,
        state: State,
        backoffs: Table[tuple[str, int], BackoffRow],
        lend_order: LendOrder,
        room: Vector,
        now: int,
    ) -> None:
        self._queues = state.queues
        self._pools = state.pools
        self._backoffs = backoffs
        self._lend_order = lend_order
        self._order = state.order
        self._room = room
        self._now = now
        self._usage = PassUsage(state)
        self._units_lent: dict[PartKey, int] = {}
        """By part the units that are lent in this pass."""
        self._ahead: dict[tuple[str, int, Form | int], int] = {}
        """The number of places of a queue that have nothing more to lend to."""
        self._firsts: dict[str, list[tuple[Place, int, Form]]] = {}
        """By pool a heap of where shapes come first that may fit; what fits no more in this pass has left it."""
        self._bounded: dict[tuple[str, int], Vector] = {}
        """By pool and class the amount that bounds leave, since something was lent last."""
        self.result = PassResult()
        self.bounded: dict[str, None] = {}
        """Pools that get nothing because of bounds."""
        self.refused: list[tuple[Group, str]] = []
        """Pools that got nothing though there was room; if nothing is lent, they get nothing before something changes
        for them.
        """
        self._own: dict[str, None] = {}
        """Pools that stand by themselves, for what they get isn't what they stood with."""

    def decide(self, budget: int) -> None:
        """Lends at most so many tasks; a gang isn't divided."""
        heap: list[Entry] = []
        for group in self._lend_order.groups_that_fit(self._room):
            self._push(heap, group, 0)
        while heap and budget > 0:
            key, need, place = heappop(heap)
            group = (key.behind, need)
            if place != MINE:
                self._push(heap, group, place + 1)
                if key.pool in self._own:
                    continue
            candidate = self._candidate(key)
            if candidate is not None and candidate.need == need:
                budget -= self._take(key, candidate, heap[0][0] if heap else None, budget)
                self._push_mine(heap, key.pool, key.behind)
            elif candidate is not None or place == MINE:
                self._push_mine(heap, key.pool, key.behind or candidate is None)
            else:
                self.refused.append((group, key.pool))

    def _push(self, heap: list[Entry], group: Group, place: int) -> None:
        """Adds the pool at a place of a group, while there is room for what it needs."""
        key = self._lend_order.at(group, place)
        if key is not None and fits(group[1], self._room):
            heappush(heap, (key, group[1], place))

    def _push_mine(self, heap: list[Entry], pool: str, behind: bool) -> None:
        """Adds a pool again, as it stands with what it got."""
        self._own[pool] = None
        candidate = self._first_behind(pool) if behind else self._head(pool)
        if candidate is not None:
            key = self._lend_order.key(pool, (behind, candidate.need), self._usage.allocation(pool))
            heappush(heap, (key, candidate.need, MINE))

    def _candidate(self, key: Key) -> Candidate | None:
        """The head of a pool, or the first unit behind it, as far as it fits."""
        if key.behind:
            return self._first_behind(key.pool)
        head = self._head(key.pool)
        return head if head is not None and self._units_that_fit(key.pool, head) > 0 else None

    def _head(self, pool: str) -> Candidate | None:
        """The first unit that waits."""
        firsts = [
            (place, line[0])
            for line, places in self._order[pool].waiting.items()
            if line[0] in LENT_TO
            for place in [self._next(places, (pool, *line))]
            if place is not None
        ]
        if not firsts:
            return None
        place, kind = min(firsts)
        job_id, key = place[-1]
        return Candidate(place, kind, self._queues.unit_need(self._queues.jobs[job_id], key))

    def _first_behind(self, pool: str) -> Candidate | None:
        """The first unit of the queue that fits, whatever its shape."""
        forms, firsts = self._order[pool].forms, self._firsts.get(pool)
        if firsts is None:
            firsts = self._firsts[pool] = [
                (places[0], kind, form)
                for (kind, form), places in forms.items()
                if kind in LENT_TO and fits(self._need(places[0], form), self._room)
            ]
            heapify(firsts)
        while firsts:
            first, kind, form = firsts[0]
            place = self._next(forms[kind, form], (pool, kind, form))
            if place is not None and place != first:
                heapreplace(firsts, (place, kind, form))
                continue
            if place is not None:
                candidate = Candidate(place, kind, self._need(place, form))
                if self._units_that_fit(pool, candidate) > 0:
                    return candidate
            heappop(firsts)
        return None

    def _need(self, place: Place, form: Form) -> Vector:
        return self._queues.form_need(form, self._queues.jobs[place[-1][0]])

    def _next(self, places: Sequence[Place], queue: tuple[str, int, Form | int]) -> Place | None:
        """The first part of a queue with units that aren't lent yet."""
        at = self._ahead.get(queue, 0)
        while at < len(places) and not self._units_waiting(places[at][-1]):
            at += 1
        self._ahead[queue] = at
        return places[at] if at < len(places) else None

    def _units_waiting(self, part: PartKey) -> int:
        """The number of units of a part that still wait."""
        row = self._queues.jobs[part.job_id]
        return self._queues.waiting_units(row, part.key) - self._units_lent.get(part, 0)

    def _units_that_fit(self, pool: str, candidate: Candidate) -> int:
        """The number of units alike that have room."""
        units = fits(candidate.need, self._room)
        if not units:
            return 0
        job_id, key = candidate.place[-1]
        row = self._queues.jobs[job_id]
        backoff = self._backoffs.get((pool, self._queues.backoff_key(row, key)))
        if backoff is not None and self._now < backoff.until_ms:
            return 0
        ask = Ask(pool, candidate.kind, row.priority, candidate.need, lent=True)
        bounded = fits(ask.need, self._bounded_room(ask))
        if not bounded:
            self.bounded[pool] = None
        return min(units, bounded)

    def _bounded_room(self, ask: Ask) -> Vector:
        group = ask.pool, ask.kind
        free = self._bounded.get(group)
        if free is None:
            free = self._bounded[group] = room(self._usage, ask, BOUNDS.loans[ask.kind])
        return free

    def _take(self, key: Key, candidate: Candidate, rival: Key | None, budget: int) -> int:
        """Lends to a pool until another comes first; returns how many tasks got something."""
        pool, part = key.pool, candidate.place[-1]
        row, is_gang = self._queues.jobs[part.job_id], part.key % ROLES == GANG
        if is_gang:
            units, slots = 1, self._queues.gang(row)
        else:
            most = min(self._units_waiting(part), budget, self._units_before_rival(key, candidate, rival))
            units, start = min(self._units_that_fit(pool, candidate), most), self._units_lent.get(part, 0)
            slots = self._queues.slots(row, part.key, "queued")[start : start + units]
        amount = scale(candidate.need, units)
        self._units_lent[part] = self._units_lent.get(part, 0) + units
        self._room = subtract(self._room, amount)
        self._usage.take(pool, candidate.kind, amount)
        self._bounded.clear()
        self.result.lend.append(Admission(part.job_id, row, slots, is_gang, Rank.BORROWED))
        return len(slots)

    def _units_before_rival(self, key: Key, candidate: Candidate, rival: Key | None) -> int:
        """The number of units that a pool gets before another comes first."""
        if rival is None or rival[:2] != key[:2]:
            return BOUNDLESS
        row, entitlement = self._pools[key.pool], self._lend_order.entitlement(key.pool)
        allocation = self._usage.allocation(key.pool)
        most = BOUNDLESS
        for kind, want in enumerate(candidate.need):
            if want > 0:
                rest = rival.beyond * (row.share[kind] or 1) - (allocation[kind] - entitlement[kind])
                most = min(most, int(rest // want) + 1)
        return max(1, most)


STRETCHES = 6
"""The time for which capacity must be idle (the setting `lend_after_ms`) is divided into so many stretches. More would
find idle capacity sooner, by a sixth of that time at most, and cost a longer row and more wakes.
"""
WINDOW = STRETCHES + 1
"""The stretches that are kept: the newest isn't over."""


class Window:
    """The stretches of time of a cell."""

    def __init__(self, state: State) -> None:
        self._state = state

    def number(self, now: int) -> int:
        """Return the number of the stretch at a time."""
        return now // self._stretch_ms()

    def end_ms(self, number: int) -> int:
        """Return when a stretch is over."""
        return (number + 1) * self._stretch_ms()

    def slide(self, values: Sequence[Vector], last: Vector, stretches: int) -> list[Vector]:
        """Return the values of the newest stretches, after more of them have passed without a change."""
        return [*values, *[last] * min(stretches, WINDOW)][-WINDOW:]

    def _stretch_ms(self) -> int:
        return max(1, self._state.cell.settings.lend_after_ms // STRETCHES)


class Idle:
    """The sliding minimum of idle capacity over the setting `lend_after_ms`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._window = Window(state)
        self._last: Vector = ()

    def restored(self) -> None:
        """Derives the rest; the tables were loaded."""
        self._last = self._state.idle()

    def note(self, now: int) -> None:
        """Notes the idle capacity, which may have changed just now."""
        current = self._state.idle()
        if current == self._last:
            return
        row = self._advanced(now)
        row.least[-1] = tuple(map(min, row.least[-1], current))
        self._last = current
        self._state.change_cell().idle = row

    def pass_time(self, now: int) -> None:
        """Notes that nothing has changed until now."""
        self._state.change_cell().idle = self._advanced(now)

    def resize(self, now: int) -> None:
        """Goes on with stretches of another length."""
        self._state.change_cell().idle = IdleRow(self._window.number(now), self._state.cell.idle.least)

    def least(self, now: int) -> Vector:
        """Return the least that was idle throughout."""
        return tuple(map(min, zip(*self._advanced(now).least, strict=True)))

    def next_ms(self) -> int | None:
        """Return when the least may be more, by time alone; None: it won't."""
        row = self._state.cell.idle
        current = self._state.idle()
        return None if all(each == current for each in row.least) else self._window.end_ms(row.number)

    def _advanced(self, now: int) -> IdleRow:
        """The row as it is when nothing has changed since what was last noted."""
        row, last = self._state.cell.idle, self._last or self._state.idle()
        number = max(row.number, self._window.number(now))
        return IdleRow(number, self._window.slide(row.least, last, number - row.number) or [last])


class SteadyClaims:
    """The sliding minimum, over the setting `lend_after_ms`, of what claims of all pools need."""

    KEY = "cell"

    def __init__(self, state: State) -> None:
        self._window = Window(state)
        self.table: Table[str, SteadyRow] = struct_table("steady", SteadyRow)
        """One row, where anything was claimed lately."""

    def note(self, claims: Vector, now: int) -> None:
        """Notes the amount that is claimed now."""
        new = SteadyRow(self._window.number(now), [(0,) * len(claims)])
        row = self._advanced(now) if self.KEY in self.table else new
        most = [*row.most[:-1], tuple(map(max, row.most[-1], claims))]
        self._keep(SteadyRow(row.number, most, claims))

    def pass_time(self, now: int) -> None:
        """Notes that nothing else was claimed until now."""
        if self.KEY in self.table:
            self._keep(self._advanced(now))

    def forget(self) -> None:
        """Forgets what was claimed lately: stretches have another length."""
        if self.KEY in self.table:
            self.table.remove(self.KEY)

    def beyond(self, claims: Vector, now: int) -> Vector:
        """Return the part of the claims there are that wasn't claimed all along."""
        most = self._advanced(now).most if self.KEY in self.table else []
        if len(most) < WINDOW:
            return claims
        return tuple([max(0, each - min(of)) for each, of in zip(claims, zip(*most, strict=True), strict=True)])

    def next_ms(self) -> int | None:
        """Return when more may have been claimed all along, by time alone; None: it won't."""
        row = self.table.get(self.KEY)
        if row is None or (len(row.most) == WINDOW and all(each == row.last for each in row.most)):
            return None
        return self._window.end_ms(row.number)

    def _keep(self, row: SteadyRow) -> None:
        if any(map(any, row.most)):
            self.table.put(self.KEY, row)
        else:
            self.forget()

    def _advanced(self, now: int) -> SteadyRow:
        """The row as it is when nothing else was claimed since what was noted last."""
        row = self.table[self.KEY]
        number = max(row.number, self._window.number(now))
        return SteadyRow(number, self._window.slide(row.most, row.last, number - row.number), row.last)


class Lending:
    """Decides loans. What it keeps only saves work, as in `Admissions`."""

    def __init__(self, state: State, task_records: TaskRecords) -> None:
        self._state = state
        self._usage = state.usage
        self._order = state.order
        self._marks = state.marks
        self._pools = state.pools
        self._task_records = task_records
        self.idle = Idle(state)
        self.steady = SteadyClaims(state)
        self._to_lend = state.marks.of(Consumer.LENDING)
        self._lend_order = LendOrder(state)
        self._lent_ms = -1
        """The last time at which nothing was to be lent."""
        self._static_paths: list[str] | None = None

    def restored(self) -> None:
        """Derives the rest; the tables were loaded, and all pools are marked."""
        self.idle.restored()
        self._lend_order.clear()
        self.pools_changed()

    def pools_changed(self) -> None:
        """Forgets the rules of pools, which are others."""
        self._static_paths = None

    def resize(self, now: int) -> None:
        """Goes on with another time for which capacity must be idle."""
        self.idle.resize(now)
        self.steady.forget()

    def pass_time(self, now: int) -> None:
        """Notes that nothing has changed until now."""
        self.idle.pass_time(now)
        self.steady.pass_time(now)

    def next_ms(self) -> int | None:
        """Return when time alone lets more be lent, as long as there is any work to lend to."""
        if not self._order.waiting:
            return None
        return earliest(self._task_records.next_ms(), self.idle.next_ms(), self.steady.next_ms())

    def decide(self, this: Pass) -> list[Event]:
        """Return the loans of what stands idle."""
        now = this.now
        if not self._order.waiting:
            return []
        room = self._room(now)
        for pool in self._task_records.backoffs_over(self._lent_ms, now):
            self._to_lend[pool] = None
        if self._to_lend:
            self._lend_order.refresh(self._marks.take(Consumer.LENDING))
        if max(room) <= 0:
            return []
        lending = LendingPass(self._state, self._task_records.backoffs, self._lend_order, room, now)
        lending.decide(this.budget.left)
        for pool in lending.bounded:
            self._marks.watch(pool, self._usage.levels(pool))
        if lending.result.lend:
            return lending.result.records(self._state)
        self._lent_ms = now
        for group, pool in lending.refused:
            self._lend_order.drop(group, pool)
        return []

    def _room(self, now: int) -> Vector:
        """The amount that may be lent: what nobody claims; or, if that is more, what was idle all along beside claims
        as they were all along, but for what is kept on hosts or is being freed; less what isn't lent at all, and what
        is lent already and has no place.
        """
        root, capacity = self._usage["/"], self._usage.shared(self._state.cell.capacity)
        room = subtract(subtract(subtract(capacity, root.placed), root.claims), self._static("allocation"))
        least = self.idle.least(now)
        if any(idle > free for idle, free in zip(least, room, strict=True)):
            young, promised = self.steady.beyond(root.claims, now), self._task_records.spoken_for()
            long_idle = subtract(subtract(subtract(least, young), promised), self._static("placed"))
            room = tuple(map(max, room, long_idle))
        return subtract(room, root.loans)

    def _static(self, counted: str) -> Vector:
        """The amount that pools don't use of reservations that aren't lent; `counted`: the sum of a pool that counts as
        used.
        """
        nothing, names, unused = self._state.queues.nothing, self._state.queues.kinds.names, dict[str, Vector]()
        for path in self._paths():
            row, usage = self._pools[path], self._usage[path]
            have = usage.placed if counted == "placed" else subtract(usage.allocation, usage.daemons)
            below = unused.pop(path, nothing)
            own = subtract(row.reservation, have)
            static = [name in row.static for name in names]
            reserve = tuple([max(each) if is_ else each[0] for is_, *each in zip(static, below, own, strict=True)])
            if path == "/":
                return reserve
            parent = parent_of(path)
            unused[parent] = add(unused.get(parent, nothing), reserve)
        return nothing

    def _paths(self) -> list[str]:
        """Pools with reservations that aren't lent, and those above them, the lowest first."""
        if self._static_paths is None:
            static = [path for path, row in self._pools.items() if row.static]
            levels = {level for path in static for level in self._usage.levels(path)}
            self._static_paths = sorted(levels, reverse=True)
        return self._static_paths
