"""Who stands where in the queues of each pool: what waits, what is borrowed and keeps its place, what claims a host.

All of it is derived from the rows of jobs and the columns of their tasks, part by part, whenever these change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import TypeVar

from sortedcontainers import SortedDict, SortedList, SortedSet

from events.codes import Code
from events.resources import Vector, add, scale, subtract
from processors.entitlement.queues.consumers import EACH_CHANGE, Consumer
from processors.entitlement.queues.parts import DAEMONS, FIRM, Form, PartKey, Parts
from processors.entitlement.queues.usage import Usages
from processors.entitlement.rows import JobRow
from processors.state.marks import Marks

Place = tuple[int, int, int, PartKey]
"""Where a part stands in its pool: priority descending, then order of acceptance, then its first instance."""
G = TypeVar("G")
P = TypeVar("P")
Refused = Callable[[str, int, Vector, Sequence[Vector]], bool]
"""Whether units of a pool and class that need so much, each task of them one of these, can't be admitted before hosts
or pools change.
"""


Line = tuple[int, int]
"""A class of work, and the kinds that its units need, as `bits`."""
ALL = -1
"""The bits of all kinds."""


def bits(amounts: Iterable[int]) -> int:
    """The kinds of which there is more than nothing, and a bit that stands for whatever is needed."""
    found = 1
    for kind, amount in enumerate(amounts, 1):
        if amount > 0:
            found |= 1 << kind
    return found


class Standing:
    """Where a part stands."""

    __slots__ = ("borrowed", "claims", "form", "kind", "line", "place", "refused", "told", "untold", "waiting", "waits")

    def __init__(self, place: Place, line: Line, form: Form, nothing: Vector) -> None:
        self.place = place
        self.kind = line[0]
        self.line = line
        self.form = form
        self.waits = self.refused = self.borrowed = self.claims = self.told = self.untold = False
        self.waiting = nothing
        """What it adds to the demand of its pool."""


class PoolQueue:
    """The queues of a pool."""

    __slots__ = ("borrowed", "claims", "daemons", "forms", "refused", "told", "untold", "verdicts", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Line, SortedList[Place]] = {}
        """What waits and may be admitted some time."""
        self.forms: dict[tuple[int, Form], SortedList[Place]] = {}
        """The same by class and form."""
        self.borrowed: dict[Line, SortedList[Place]] = {}
        """Parts with borrowed units: they keep their place in the queue."""
        self.claims: SortedList[Place] = SortedList()
        """Parts with entitled units that have no place, but for"""
        self.daemons: SortedList[Place] = SortedList()
        """those of daemons."""
        self.refused: dict[tuple[int, Form], SortedList[Place]] = {}
        """What waits and can't be admitted before hosts or pools change."""
        self.verdicts: dict[tuple[int, Form], bool] = {}
        self.untold: SortedSet[tuple[int, PartKey]] = SortedSet()
        """By order of acceptance, what waits and wasn't told why."""
        self.told: SortedSet[tuple[int, PartKey]] = SortedSet()
        """What may be admitted some time and was told something else than that it is behind others."""


class QueueOrder:
    """The queues of all pools."""

    def __init__(self, parts: Parts, usage: Usages, refused: Refused) -> None:
        self._parts = parts
        self._usage = usage
        self._refused = refused
        self._pools: SortedDict[str, PoolQueue] = SortedDict()
        self._standing: dict[PartKey, Standing] = {}
        self._empty = PoolQueue()
        self.aside: dict[PartKey, None] = {}
        """Parts that placement gave back for good; they claim nothing until hosts change."""
        self.marks: Marks[Consumer, str] = Marks(Consumer, EACH_CHANGE)
        """The pools that each consumer must look at again; they watch the levels above them."""
        self.waiting = 0
        """How many parts wait to which may be lent, and may be admitted some time."""

    def __getitem__(self, pool: str) -> PoolQueue:
        """The queues of a pool, to look at."""
        found: PoolQueue = self._pools.get(pool, self._empty)
        return found

    def items(self) -> Iterator[tuple[str, PoolQueue]]:
        """The pools with work that waits, is borrowed or claims a host; others may be among them."""
        yield from self._pools.items()

    def below(self, path: str) -> list[str]:
        """Those of them at or below a pool."""
        if path == "/":
            return list(self._pools)
        return [path] * (path in self._pools) + list(self._pools.irange(f"{path}/", f"{path}0", (True, False)))

    def clear(self) -> None:
        """Nobody stands anywhere."""
        self._pools.clear()
        self._standing.clear()
        self.waiting = 0
        self.aside.clear()
        self.marks.clear()

    def review(self, part: PartKey, row: JobRow) -> None:
        """The counts of a part have changed: it stands where it belongs."""
        key, what = part.key, row.parts[part.key]
        waits = what.queued > 0 and self._parts.is_ready(row, key)
        standing = self._standing.get(part)
        if not (waits or what.borrowed or what.claims or (what.returned and what.queued)):
            if standing is not None:
                self.leave(part, row)
            return
        if standing is None:
            standing = self._standing[part] = self._new(part, row)
        self._place(part, row.pool, standing, (waits, what.borrowed > 0, what.claims > 0))
        self._review_told(part, row, standing)
        waiting = self._parts.nothing
        if standing.waits:
            need, times = self._parts.unit_need(row, key), self._parts.waiting_units(row, key)
            waiting = scale(need, times)
        self._ask(row, standing, waiting)

    def review_told(self, part: PartKey, row: JobRow) -> None:
        """A part was told why it waits, or is to be told anew."""
        standing = self._standing.get(part)
        if standing is not None:
            self._review_told(part, row, standing)

    def _review_told(self, part: PartKey, row: JobRow, standing: Standing) -> None:
        what = row.parts[part.key]
        refusal = what.refusal
        waits = standing.waits or standing.refused or (what.returned != "" and what.queued > 0)
        untold = waits and refusal is None
        told = standing.waits and refusal is not None and refusal.code != Code.BEHIND_IN_QUEUE
        if told != standing.told or untold != standing.untold:
            self._tell(part, row, standing, told, untold)

    def _tell(self, part: PartKey, row: JobRow, standing: Standing, told: bool, untold: bool) -> None:
        if told != standing.told:
            _set(self._pools[row.pool].told, (row.number, part), told)
            standing.told = told
        if untold != standing.untold:
            _set(self._pools[row.pool].untold, (row.number, part), untold)
            standing.untold = untold

    def is_refused(self, part: PartKey) -> bool:
        """Whether units of a part wait and can't be admitted before hosts or pools change."""
        standing = self._standing.get(part)
        return standing is not None and standing.refused

    def waits(self, part: PartKey) -> bool:
        """Whether units of a part wait and may be admitted some time."""
        standing = self._standing.get(part)
        return standing is not None and standing.waits

    def leave(self, part: PartKey, row: JobRow) -> None:
        """A part stands nowhere, for now."""
        standing = self._standing.pop(part, None)
        if standing is not None:
            self._place(part, row.pool, standing, (False, False, False))
            self._tell(part, row, standing, False, False)
            self._ask(row, standing, self._parts.nothing)

    def judge(self, below: str, retell: bool) -> None:
        """Hosts, or a pool with all below it, have changed: who can't be admitted is found anew, and, with `retell`,
        told so again.
        """
        for pool in self.below(below):
            lines = self._pools[pool]
            lines.verdicts.clear()
            for places in lines.refused.values() if retell else ():
                for *_, part in places:
                    row = self._parts.jobs.change(part.job_id)
                    row.parts[part.key].refusal = None
                    self.review_told(part, row)
            for forms in (lines.forms, lines.refused):
                for places in list(forms.values()):
                    for place in list(places) if self._verdict_differs(pool, places[0][-1]) else ():
                        part = place[-1]
                        row = self._parts.jobs.change(part.job_id)
                        row.parts[part.key].refusal = None
                        self.leave(part, row)
                        self.review(part, row)
            self.marks.touch(pool)

    def release(self) -> None:
        """Hosts have changed: what placement gave back for good is tried again."""
        for part in list(self.aside):
            row = self._parts.jobs.change(part.job_id)
            row.parts[part.key].returned, row.parts[part.key].refusal = "", None
            self.review(part, row)
            self.marks.touch(row.pool)
        self.aside.clear()

    def _verdict_differs(self, pool: str, part: PartKey) -> bool:
        standing = self._standing[part]
        return self._verdict(pool, standing, self._parts.jobs[part.job_id], part.key) != standing.refused

    def _verdict(self, pool: str, standing: Standing, row: JobRow, key: int) -> bool:
        lines: PoolQueue = self._pools[pool]
        verdicts, group = lines.verdicts, (standing.kind, standing.form)
        verdict = verdicts.get(group)
        if verdict is None:
            verdict = verdicts[group] = self._refused(
                pool, standing.kind, self._parts.unit_need(row, key), self._parts.task_needs(row, key)
            )
        return verdict

    def _new(self, part: PartKey, row: JobRow) -> Standing:
        parts = self._parts
        place = (-row.rank, row.number, row.parts[part.key].first, part)
        line = parts.kind(row, part.key), bits(parts.unit_need(row, part.key))
        return Standing(place, line, parts.form(row, part.key), parts.nothing)

    def _place(self, part: PartKey, pool: str, standing: Standing, states: tuple[bool, bool, bool]) -> None:
        """Lets a part stand in the queues of its pool where it is said to, whether it waits, has borrowed or claims,
        and in no others.
        """
        waits, borrowed, claims = states
        lines = self._pools.get(pool)
        if lines is None:
            lines = self._pools[pool] = PoolQueue()
        group, place = (standing.kind, standing.form), standing.place
        refused = waits and self._verdict(pool, standing, self._parts.jobs[part.job_id], part.key)
        waits = waits and not refused
        if waits != standing.waits:
            self.waiting += (1 if waits else -1) * (not standing.kind & (FIRM | DAEMONS))
            _set_in(lines.waiting, standing.line, place, waits)
            _set_in(lines.forms, group, place, waits)
        if refused != standing.refused:
            _set_in(lines.refused, group, place, refused)
        if group in lines.verdicts and group not in lines.forms and group not in lines.refused:
            lines.verdicts.pop(group, None)  # its shape may be gone, and another one have its number next
        if borrowed != standing.borrowed:
            _set_in(lines.borrowed, standing.line, place, borrowed)
        if claims != standing.claims:
            _set(lines.daemons if standing.kind == DAEMONS else lines.claims, place, claims)
        standing.waits, standing.refused, standing.borrowed, standing.claims = waits, refused, borrowed, claims

    def _ask(self, row: JobRow, standing: Standing, waiting: Vector) -> None:
        """A part demands so much for what waits of it."""
        if waiting == standing.waiting or row.daemon:
            return
        holding = self._usage.leaf(row.pool)
        self._usage.numbers += 1
        more = subtract(waiting, standing.waiting) if any(standing.waiting) else waiting
        standing.waiting = waiting
        if row.preemptible:
            holding.waiting = add(holding.waiting, more)
        else:
            holding.firm_waiting = add(holding.firm_waiting, more)


def merged(lines: PoolQueue, blocked: Mapping[int, int]) -> Iterator[tuple[int, Place]]:
    """What waits or is borrowed in a pool, in the order of the queue; what needs a kind that is blocked for its class
    meanwhile is left.
    """
    streams = {line: _places(lines, line) for line in dict.fromkeys((*lines.waiting, *lines.borrowed))}
    heads = {line: place for line, places in streams.items() if (place := next(places, None)) is not None}
    while heads:
        line = min(heads, key=heads.__getitem__)
        yield line[0], heads.pop(line)
        if (place := next(streams[line], None)) is not None:
            heads[line] = place
        if blocked:
            heads = {each: place for each, place in heads.items() if not blocked.get(each[0], 0) & each[1]}


def _places(lines: PoolQueue, line: Line) -> Iterator[Place]:
    """The parts of a line that wait or are borrowed, each once, in the order of the queue."""
    waiting, borrowed = lines.waiting.get(line, ()), lines.borrowed.get(line, ())
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
