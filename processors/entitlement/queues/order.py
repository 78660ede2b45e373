"""The queues of each pool: parts that wait, that are borrowed and keep their place, and that claim a host.

All of it is derived from the rows of jobs and the columns of their tasks; `Queues` places a part whenever these change.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby
from typing import TypeVar

from sortedcontainers import SortedDict, SortedList, SortedSet

from events.resources import Vector
from events.work_classes import DAEMONS, LENT_TO
from processors.entitlement.queues.parts import Form, PartKey

Place = tuple[int, bool, int, int, PartKey]
"""The place of a part in its pool: priority descending, then such as come back (`comeback.py`), then order of
acceptance, then its first instance.
"""
Line = tuple[int, int]
"""A class of work, and the kinds that its units need, as `bits`."""
ALL = -1
"""The bits of all kinds."""
G = TypeVar("G")
P = TypeVar("P")


def bits(amounts: Iterable[int]) -> int:
    """The kinds of which there is more than nothing, and a bit that stands for whatever is needed."""
    mask = 1
    for kind, amount in enumerate(amounts, 1):
        if amount > 0:
            mask |= 1 << kind
    return mask


IN_WAITING, IN_REFUSED, IN_BORROWED, IN_CLAIMS = (1 << bit for bit in range(4))
"""The queues in which a part stands, in bits; it never both waits and is refused."""


class Standing:
    """The place of a part, and the queues of its pool in which it stands."""

    __slots__ = ("demand", "form", "kind", "line", "place", "queue", "states", "told", "untold")

    def __init__(self, queue: "PoolQueue", place: Place, line: Line, form: Form, nothing: Vector) -> None:
        self.queue = queue
        self.place = place
        self.kind = line[0]
        self.line = line
        self.form = form
        self.states = 0
        self.told = self.untold = False
        self.demand = nothing
        """The amount that it adds to the demand of its pool."""


class PoolQueue:
    """The queues of a pool."""

    __slots__ = ("borrowed", "claims", "daemons", "forms", "refused", "told", "untold", "verdicts", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Line, SortedList[Place]] = {}
        """Parts that wait and may be admitted some time."""
        self.forms: dict[tuple[int, Form], SortedList[Place]] = {}
        """The same by class and form."""
        self.borrowed: dict[Line, SortedList[Place]] = {}
        """Parts with borrowed units: they keep their place in the queue."""
        self.claims: SortedList[Place] = SortedList()
        """Parts with entitled units that have no place, but for"""
        self.daemons: SortedList[Place] = SortedList()
        """those of daemons."""
        self.refused: dict[tuple[int, Form], SortedList[Place]] = {}
        """Parts that wait and can't be admitted before hosts or pools change."""
        self.verdicts: dict[tuple[int, Form], bool] = {}
        """Whether units of a class and form are refused so."""
        self.untold: SortedSet[tuple[int, PartKey]] = SortedSet()
        """By order of acceptance, the parts that wait and weren't told why."""
        self.told: SortedSet[tuple[int, PartKey]] = SortedSet()
        """Parts that may be admitted some time and were told something else than that they are behind others."""


class QueueOrder:
    """The queues of all pools."""

    def __init__(self) -> None:
        self._pools: SortedDict[str, PoolQueue] = SortedDict()
        self.standing: dict[PartKey, Standing] = {}
        """The parts that stand anywhere."""
        self._empty = PoolQueue()
        self.waiting = 0
        """The number of parts that wait, to which may be lent, and which may be admitted some time."""

    def __getitem__(self, pool: str) -> PoolQueue:
        """The queues of a pool, to look at."""
        queue: PoolQueue = self._pools.get(pool, self._empty)
        return queue

    def items(self) -> Iterator[tuple[str, PoolQueue]]:
        """The pools with work that waits, is borrowed or claims a host; others may be among them."""
        yield from self._pools.items()

    def below(self, path: str) -> list[str]:
        """Those of them at or below a pool."""
        if path == "/":
            return list(self._pools)
        return [path] * (path in self._pools) + list(self._pools.irange(f"{path}/", f"{path}0", (True, False)))

    def clear(self) -> None:
        """Empties all queues."""
        self._pools.clear()
        self.standing.clear()
        self.waiting = 0

    def is_refused(self, part: PartKey) -> bool:
        """Whether units of a part wait and can't be admitted before hosts or pools change."""
        standing = self.standing.get(part)
        return standing is not None and standing.states & IN_REFUSED > 0

    def waits(self, part: PartKey) -> bool:
        """Whether units of a part wait and may be admitted some time."""
        standing = self.standing.get(part)
        return standing is not None and standing.states & IN_WAITING > 0

    def enter(self, pool: str, place: Place, line: Line, form: Form, nothing: Vector) -> Standing:
        """Gives a part a place in its pool; it stands in no queue yet."""
        queue = self._pools.get(pool)
        if queue is None:
            queue = self._pools[pool] = PoolQueue()
        standing = self.standing[place[-1]] = Standing(queue, place, line, form, nothing)
        return standing

    def leave(self, standing: Standing) -> None:
        """Takes a part out of all queues."""
        self.place(standing, 0)
        if standing.told or standing.untold:
            self.tell(standing, False, False)
        del self.standing[standing.place[-1]]

    def place(self, standing: Standing, states: int) -> None:
        """Lets a part stand in these queues of its pool and in no others."""
        changed = states ^ standing.states
        if not changed:
            return
        standing.states = states
        queue, group, place = standing.queue, (standing.kind, standing.form), standing.place
        if changed & IN_WAITING:
            waits = states & IN_WAITING > 0
            self.waiting += (1 if waits else -1) * (standing.kind in LENT_TO)
            _set_in(queue.waiting, standing.line, place, waits)
            _set_in(queue.forms, group, place, waits)
        if changed & IN_REFUSED:
            _set_in(queue.refused, group, place, states & IN_REFUSED > 0)
        if group in queue.verdicts and group not in queue.forms and group not in queue.refused:
            del queue.verdicts[group]  # its shape may be gone, and another one have its number next
        if changed & IN_BORROWED:
            _set_in(queue.borrowed, standing.line, place, states & IN_BORROWED > 0)
        if changed & IN_CLAIMS:
            _set(queue.daemons if standing.kind == DAEMONS else queue.claims, place, states & IN_CLAIMS > 0)

    def tell(self, standing: Standing, is_told: bool, is_untold: bool) -> None:
        """Notes whether a part was told why it waits (see `PoolQueue`)."""
        queue = standing.queue
        number, part = standing.place[2], standing.place[-1]
        if is_told != standing.told:
            _set(queue.told, (number, part), is_told)
            standing.told = is_told
        if is_untold != standing.untold:
            _set(queue.untold, (number, part), is_untold)
            standing.untold = is_untold


def merged(queue: PoolQueue, blocked: Mapping[int, int]) -> Iterator[tuple[int, Place]]:
    """The parts that wait or are borrowed in a pool, in the order of the queue, with their class. Parts that need a
    kind that is blocked for their class meanwhile are left out.
    """
    streams = {line: _places(queue, line) for line in dict.fromkeys((*queue.waiting, *queue.borrowed))}
    heads = {line: place for line, places in streams.items() if (place := next(places, None)) is not None}
    while heads:
        line = min(heads, key=heads.__getitem__)
        yield line[0], heads.pop(line)
        if (place := next(streams[line], None)) is not None:
            heads[line] = place
        if blocked:
            heads = {each: place for each, place in heads.items() if not blocked.get(each[0], 0) & each[1]}


def _places(queue: PoolQueue, line: Line) -> Iterator[Place]:
    """The parts of a line that wait or are borrowed, each once, in the order of the queue."""
    waiting, borrowed = queue.waiting.get(line, ()), queue.borrowed.get(line, ())
    if not borrowed:
        return iter(waiting)
    return (place for place, _ in groupby(merge(waiting, borrowed)))


def _set(places: "SortedList[P] | SortedSet[P]", place: P, stands: bool) -> None:
    (places.add if stands else places.remove)(place)


def _set_in(groups: "dict[G, SortedList[Place]]", group: G, place: Place, stands: bool) -> None:
    if stands:
        places = groups.get(group)
        if places is None:
            places = groups[group] = SortedList()
        places.add(place)
        return
    places = groups[group]
    places.remove(place)
    if not places:
        del groups[group]
