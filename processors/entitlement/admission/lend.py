"""Idle capacity is lent: preemptible work is admitted beyond the entitlement of its pool, where hosts may have room.

Pools are lent to in the order of what they hold beyond the entitlement that was reported last, for their share, and
those with a share of 0 come last; then it is the pool that was served longest ago. A pool gets the head of its queue;
units behind a head that finds no room come after all other pools, and those behind a head for which its pool saves
after that. A shape that found no host backs off in its pool.

The order is derived, and kept up for pools of which something has changed, in proportion to their shapes. Pools stand
in it by what the unit needs, so that those which can't have what is idle aren't looked at.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from sortedcontainers import SortedSet

from events.ranks import Rank
from events.resources import Vector, fits, scale, subtract
from processors.entitlement.admission.admit import Admission
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import BOUNDLESS, CONTROLLERS_SHARE, LIMITS, Ask, closed_at, room
from processors.entitlement.queues.order import Place
from processors.entitlement.queues.parts import CONTROLLERS, GANG, ROLES, Form, PartKey
from processors.entitlement.rows import BackoffRow
from processors.entitlement.state import State
from processors.state.table import Table

LENT_TO = (0, CONTROLLERS)
"""The classes that may be lent to."""


class Key(NamedTuple):
    """The order in which pools are lent to."""

    behind: bool
    saves: bool
    without_share: bool
    beyond: Fraction
    served: int
    pool: str


Group = tuple[bool, Vector]
"""Whether it is about what is behind heads, and what a unit needs."""


class LendOrder:
    """Where pools stand with work that may be lent to."""

    def __init__(self, state: State) -> None:
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._pools = state.pools
        self._reported = state.reported
        self._groups: dict[Group, SortedSet[Key]] = {}
        self._of: dict[str, dict[Group, Key]] = {}

    def clear(self) -> None:
        """Nobody stands anywhere."""
        self._groups.clear()
        self._of.clear()

    def refresh(self, pools: Iterable[str]) -> None:
        """Something has changed for these pools."""
        for pool in pools:
            had, keys = {**self._of.get(pool, {})}, self._keys(pool)
            for group, key in had.items():
                if keys.get(group) != key:
                    self.drop(group, pool)
            for group, key in keys.items():
                if had.get(group) != key:
                    self._groups.setdefault(group, SortedSet()).add(key)
                    self._of.setdefault(pool, {})[group] = key

    def drop(self, group: Group, pool: str) -> None:
        """A pool gets nothing there before something changes for it."""
        mine, keys = self._of[pool], self._groups[group]
        keys.remove(mine.pop(group))
        if not keys:
            del self._groups[group]
        if not mine:
            del self._of[pool]

    def that_fit(self, room: Vector) -> Iterator[Group]:
        """The groups of which a unit has room."""
        return (group for group in self._groups if fits(group[1], room))

    def at(self, group: Group, place: int) -> Key | None:
        """Who stands at a place of a group, from 0; None: nobody."""
        keys = self._groups[group]
        found: Key | None = keys[place] if place < len(keys) else None
        return found

    def key(self, pool: str, group: Group, held: Vector) -> Key:
        """Where a pool stands that holds so much, if it isn't applied yet."""
        behind, need = group
        row, kinds = self._pools[pool], [kind for kind, want in enumerate(need) if want > 0]
        levels = self._usage.levels(pool)[:-1]
        without = any(not self._pools[level].share[kind] for level in levels for kind in kinds)
        entitlement = self.entitlement(pool)
        beyond = [Fraction(held[kind] - entitlement[kind], row.share[kind] or 1) for kind in kinds]
        saves = behind and row.credit is not None and any(row.credit.full)
        return Key(behind, saves, without, max(beyond, default=Fraction(0)), row.served, pool)

    def entitlement(self, pool: str) -> Vector:
        """The entitlement of a pool that was reported last."""
        row = self._reported.get(pool)
        return self._queues.nothing if row is None else row.entitlement

    def _keys(self, pool: str) -> dict[Group, Key]:
        """Where a pool stands. Units that need the same kinds stand alike."""
        queues, held = self._queues, self._usage[pool].allocation
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
                alike[kinds] = self.key(pool, group, held)
            keys[group] = alike[kinds]
        return keys


MINE = -1
"""The place of a pool that got something in this pass: it stands by itself."""
Entry = tuple[Key, Vector, int]
"""Who is lent to next: key, what a unit needs, its place in that group."""


class Candidate(NamedTuple):
    """What a pool would get next."""

    place: Place
    kind: int
    need: Vector


class Lending:
    """What is lent in one pass, within a room. `lent` is what was found; nothing of it is applied yet."""

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
        self._count: dict[PartKey, int] = {}
        """How many units of a part are lent in this pass."""
        self._ahead: dict[tuple[str, int, Form | int], int] = {}
        """How many places of a queue have nothing more to lend to."""
        self._firsts: dict[str, list[tuple[Place, int, Form]]] = {}
        """By pool a heap of where shapes come first that may fit; what fits no more in this pass has left it."""
        self._limits: dict[str, Vector] = {}
        """What limits leave, since something was lent last."""
        self.lent: list[Admission] = []
        self.limited: dict[str, None] = {}
        """Pools that get nothing because of limits."""
        self.refused: list[tuple[Group, str]] = []
        """Who got nothing though there was room; where nothing is lent, that is so before something changes for it."""
        self._own: dict[str, None] = {}
        """Pools that stand by themselves, for what they get isn't what they stood with."""

    def decide(self, budget: int) -> None:
        """Lends at most so many tasks; a gang isn't divided."""
        heap: list[Entry] = []
        for group in self._lend_order.that_fit(self._room):
            self._push(heap, group, 0)
        while heap and budget > 0:
            key, need, place = heappop(heap)
            group = (key.behind, need)
            if place != MINE:
                self._push(heap, group, place + 1)
                if key.pool in self._own:
                    continue
            candidate = self._found(key)
            if candidate is not None and candidate.need == need:
                budget -= self._take(key, candidate, heap[0][0] if heap else None, budget)
                self._push_mine(heap, key.pool, key.behind)
            elif candidate is not None or place == MINE:
                self._push_mine(heap, key.pool, key.behind or candidate is None)
            else:
                self.refused.append((group, key.pool))

    def _push(self, heap: list[Entry], group: Group, place: int) -> None:
        """Who stands at a place of a group is lent to, while there is room."""
        key = self._lend_order.at(group, place)
        if key is not None and fits(group[1], self._room):
            heappush(heap, (key, group[1], place))

    def _push_mine(self, heap: list[Entry], pool: str, behind: bool) -> None:
        """A pool is lent to again, as what it got already says."""
        self._own[pool] = None
        found = self._behind(pool) if behind else self._head(pool)
        if found is not None:
            key = self._lend_order.key(pool, (behind, found.need), self._usage.allocation(pool))
            heappush(heap, (key, found.need, MINE))

    def _found(self, key: Key) -> Candidate | None:
        """What a pool would get: its head, or the first unit behind it, as far as it fits."""
        if key.behind:
            return self._behind(key.pool)
        head = self._head(key.pool)
        return head if head is not None and self._fits(key.pool, head) else None

    def _head(self, pool: str) -> Candidate | None:
        """The first unit that waits."""
        lines = self._order[pool]
        first = [
            (place, line[0])
            for line, places in lines.waiting.items()
            if line[0] in LENT_TO
            for place in [self._next(places, (pool, *line))]
            if place is not None
        ]
        return self._candidate(*min(first)) if first else None

    def _behind(self, pool: str) -> Candidate | None:
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
                if self._fits(pool, candidate):
                    return candidate
            heappop(firsts)
        return None

    def _need(self, place: Place, form: Form) -> Vector:
        return self._queues.form_need(form, self._queues.jobs[place[-1][0]])

    def _next(self, places: "Iterable[Place]", queue: tuple[str, int, Form | int]) -> Place | None:
        """The first part of a queue with units that aren't lent yet."""
        at = self._ahead.get(queue, 0)
        while at < len(places):  # type: ignore[arg-type]
            place: Place = places[at]  # type: ignore[index]
            part = place[-1]
            if self._left(part):
                break
            at += 1
        else:
            place = None  # type: ignore[assignment]
        self._ahead[queue] = at
        return place

    def _left(self, part: PartKey) -> int:
        """How many units of a part still wait."""
        row = self._queues.jobs[part.job_id]
        return self._queues.waiting_units(row, part.key) - self._count.get(part, 0)

    def _candidate(self, place: Place, kind: int) -> Candidate:
        job_id, key = place[-1]
        return Candidate(place, kind, self._queues.unit_need(self._queues.jobs[job_id], key))

    def _units(self, pool: str, candidate: Candidate) -> int:
        """How many units alike have room."""
        units = fits(candidate.need, self._room)
        if not units:
            return 0
        job_id, key = candidate.place[-1]
        row = self._queues.jobs[job_id]
        backoff = self._backoffs.get((pool, self._queues.backoff_key(row, key)))
        if backoff is not None and self._now < backoff.until_ms:
            return 0
        ask = Ask(pool, candidate.kind, row.priority, candidate.need, lent=True)
        limited = min(fits(ask.need, self._limit(ask)), fits(ask.need, room(self._usage, ask, (CONTROLLERS_SHARE,))))
        if not limited:
            self.limited[pool] = None
        return min(units, limited)

    def _fits(self, pool: str, candidate: Candidate) -> bool:
        return self._units(pool, candidate) > 0

    def _limit(self, ask: Ask) -> Vector:
        limit = self._limits.get(ask.pool)
        if limit is None:
            limit = self._limits[ask.pool] = room(self._usage, ask, (LIMITS,))
        return limit

    def _take(self, key: Key, candidate: Candidate, rival: Key | None, budget: int) -> int:
        """Lends to a pool until another comes first; returns how many tasks got something."""
        pool, part = key.pool, candidate.place[-1]
        row = self._queues.jobs[part.job_id]
        if part.key % ROLES == GANG:
            units, slots = 1, self._queues.gang(row)
        else:
            units = min(self._units(pool, candidate), self._left(part), budget, self._turns(key, candidate, rival))
            start = self._count.get(part, 0)
            slots = self._queues.slots(row, part.key, "queued")[start : start + units]
        amount = scale(candidate.need, units)
        self._count[part] = self._count.get(part, 0) + units
        self._room = subtract(self._room, amount)
        self._usage.take(pool, candidate.kind, amount)
        self._limits.clear()
        self.lent.append(Admission(part.job_id, row, slots, part.key % ROLES == GANG, Rank.BORROWED))
        return len(slots)

    def _turns(self, key: Key, candidate: Candidate, rival: Key | None) -> int:
        """How many units a pool gets before another comes first."""
        if rival is None or rival[:2] != key[:2]:
            return BOUNDLESS
        row, entitlement = self._pools[key.pool], self._lend_order.entitlement(key.pool)
        held = self._usage.allocation(key.pool)
        most = BOUNDLESS
        for kind, want in enumerate(candidate.need):
            if want > 0:
                left = rival.beyond * (row.share[kind] or 1) - (held[kind] - entitlement[kind])
                most = min(most, int(left // want) + 1)
        return max(1, most)
