"""The search of hosts for a gang, and of those who must leave them: the cheapest complete set of hosts.

Each host is judged by who must leave it for one task more: by cost until the task fits, then whoever isn't needed
stays. The cheapest host is taken and what has changed is judged again, until each task has a place; a gang that leaves
frees other hosts too. At last each victim without whom the gang still fits on these hosts stays, the dearest first.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from heapq import heappop, heappush
from operator import le
from typing import NamedTuple

from events.codes import Code, Way
from events.columns import I64
from events.resources import Vector
from processors.placement.devices.needs import DeviceNeed
from processors.placement.gang_search import Part
from processors.placement.room.board import Board, Cost, Draft, Order, Pick, Unit, cost_of, order_of
from processors.placement.room.fewest_moves import fewest_moves
from processors.state.preemption_rules import WAYS_OF_OTHERS, WAYS_OF_OWN, Flag, staying

NEVER = 1 << 30
"""More tasks than there are."""
HOSTS_AT_ONCE = 64
"""So many hosts are judged before the cheapest is taken, and two more for each task."""

SEARCH_WORK = 4_000
"""When so many units were judged for a gang, and `TASK_WORK` for each of its tasks, no more hosts are looked at."""
TASK_WORK = 64

CLEARS_ALL = Flag.BELOW_RESERVATION | Flag.DAEMON
"""The flags by which a unit is cleared away that has a port which a task must have, or is in its way by a rule. By
others it isn't, as it would claim its host back: amounts can be found elsewhere, a port of a host can't.
"""

Ways = tuple[int, ...]
WAYS: tuple[Ways, ...] = ((Way.OWN, Way.GIVE), (Way.OWN, Way.GIVE, Way.MOVE), (Way.OWN, Way.GIVE, Way.MOVE, Way.CLEAR))
"""The sets of ways that are tried, one after another."""


class Plan(NamedTuple):
    """Where a gang will be, and who leaves for it."""

    places: list[tuple[int, int, int]]
    """Host, index of the part, tasks."""
    picks: list[Pick]
    """In the order in which the rules judge them."""


class Host(NamedTuple):
    """The cost of a host."""

    cost: Cost
    tie: int
    picks: list[Pick]
    """The victims for one task more."""
    changes: int
    """So often the host had changed when that was found."""


class Judged(NamedTuple):
    """The victims that one task needs on a host, as they were found by a right and at a count of changes."""

    picks: list[Pick]
    changes: int
    others: Vector
    work: int


class Search:
    """Places for tasks of one part. `hosts`: those that may have some, the best first. The next equal part goes on
    where one has found its places. `level`: how many tasks of the job each host has, where they are spread.
    """

    def __init__(
        self,
        board: Board,
        part: Part,
        index: int,
        hosts: Sequence[int],
        ways: Ways,
        level: I64 | None,
        memory: dict[int, Judged] | None = None,
    ) -> None:
        """`memory`: what hosts cost tasks that are alike."""
        self._board = board
        self._part = part
        self._index = index
        self._ways = ways
        self._hosts = hosts
        self._loaded = 0
        self._until = 0
        """The amount of work on the board at which hosts enough were looked at."""
        self._level = None if level is None or not part.spread else level.copy()
        self._heap: list[tuple[Cost, int, int]] = []
        self._known: dict[int, Host] = {}
        self._memory = memory
        self._again: list[int] = []
        """Hosts that are judged before any is chosen."""

    def look_at(self, hosts: Sequence[int]) -> None:
        """These hosts have changed, and may have become cheaper."""
        self._again += hosts

    def extend(self, draft: Draft) -> bool:
        """Finds places for all tasks of the part; False: there aren't enough, and the search is of no more use."""
        remaining, need = self._part.size, self._part.need
        self._until = self._board.work + SEARCH_WORK + TASK_WORK * remaining
        if not self._loaded:
            self._load(draft, HOSTS_AT_ONCE + 2 * remaining)
        for again in self._again:
            if self._part.open_[again]:
                self._judge(draft, again)
        self._again = []
        while remaining:
            host = self._cheapest(draft)
            if host is None:
                return False
            picks = self._known[host].picks
            draft.take(picks)
            one = self._level is not None or self._part.devices is not None
            tasks = 1 if one else min(remaining, self._part.most, _fit(self._board, host, need))
            draft.put(host, self._index, need, tasks, self._part.devices)
            if self._level is not None:
                self._level[host] += tasks
            remaining -= tasks
            freed = [other for pick in picks for other in pick.unit.at if self._part.open_[other]]
            for other in dict.fromkeys([host, *freed]):
                self._judge(draft, other)
        return True

    def _load(self, draft: Draft, hosts: int) -> bool:
        """Judges so many hosts more; False: there are none, or enough were."""
        before = self._loaded
        for host in self._hosts[before : before + hosts]:
            if self._board.work >= self._until:
                break
            self._loaded += 1
            if host not in self._known:
                self._judge(draft, host)
        return self._loaded > before

    def _judge(self, draft: Draft, host: int) -> bool:
        """Finds what a host costs now; False: it has no place."""
        picks = self._picks(draft, host)
        if picks is None:
            self._known.pop(host, None)
            return False
        changes = self._board.changes.get(host, 0)
        judged = self._known[host] = Host(self._cost(draft, picks), self._tie(host), picks, changes)
        heappush(self._heap, (judged.cost, judged.tie, host))
        return True

    def _cost(self, draft: Draft, picks: Sequence[Pick]) -> Cost:
        return cost_of(picks, bool(draft.taker.right.flags & Flag.MOVES_ALONE))

    def _cheapest(self, draft: Draft) -> int | None:
        """The host for which least is lost; it is out of the heap. None: no host has a place."""
        while True:
            if not self._heap:
                if not self._load(draft, HOSTS_AT_ONCE):
                    return None
                continue
            cost, tie, host = heappop(self._heap)
            judged = self._known.get(host)
            if judged is None or (judged.cost, judged.tie) != (cost, tie):
                continue
            if judged.changes == self._board.changes.get(host, 0) and draft.may_take(judged.picks):
                return host
            if self._judge(draft, host) and self._heap[0][2] == host:
                heappop(self._heap)
                return host

    def _tie(self, host: int) -> int:
        """Among equal hosts: the one with least free, or where tasks are spread, with fewest of them and most free."""
        score = self._board.score(host)
        return score if self._level is None else (int(self._level[host]) << 60) - score

    def _picks(self, draft: Draft, host: int) -> list[Pick] | None:
        """As `_cover`, which isn't asked again about a host that is as it was for a task before that is alike."""
        board, memory, others = self._board, self._memory, draft.taker.right.others
        if memory is None or draft.picks or draft.places:
            return self._cover(draft, host)
        had, work = memory.get(host), board.work
        if had is not None and had.changes == board.changes.get(host, 0) and all(map(le, others, had.others)):
            if draft.may_take(had.picks):  # rights and givers only shrink: what was refused before still is
                board.work = work + had.work
                return had.picks
            board.work = work
        key = (host, draft.taker.pool, self._ways)
        is_new = key not in board.may_leave
        picks = self._cover(draft, host)
        if is_new and key in board.may_leave:
            work += len(board.units_at(host))  # they are looked at once only
        if picks is not None and not any(pick.places for pick in picks):  # room elsewhere may be taken meanwhile
            memory[host] = Judged(picks, board.changes.get(host, 0), others, board.work - work)
        return picks

    def _cover(self, draft: Draft, host: int) -> list[Pick] | None:
        """The victims on a host for one task more; None: they aren't enough."""
        if draft.places.get((host, self._index), 0) >= self._part.most:
            return None
        must = self._must(draft, host) if self._part.ports or self._part.obstacles is not None else []
        if must is None:
            return None
        have: list[int] = self._board.free[:, host].tolist()
        # A host that offers less than before, or lends less, may hold too much of what the task doesn't need.
        lack = [need - one if need else 0 for need, one in zip(self._part.need, have, strict=True)]
        if max(lack) <= 0 and not must and self._part.devices is None:
            return []
        if draft.taker.right.flags & Flag.MOVES_ALONE and (fewest := self._fewest(draft, host, lack, must)) is not None:
            return fewest
        if self._part.devices is not None:
            return self._cover_devices(draft, host, self._part.devices, lack, must)
        if not must and (first := self._first(draft, host, lack)) is not None:
            return [first]
        gains: dict[int, int] = {}
        may = []
        for pick in self._may_leave(draft, host):
            gain = 0 if draft.is_gone(pick.unit) else _gain(pick.unit, host, lack)
            if gain:
                gains[pick.unit.key] = gain
                may.append(pick)
        picks = self._gather(draft, host, lack, must, may)
        if (picks is None or len(picks) > 1) and len(
            {*gains.values()}
        ) > 1:  # larger ones first: fewer, or by the rules
            may.sort(key=lambda pick: (pick.order[0], -gains[pick.unit.key], pick.order))
            other = self._gather(draft, host, lack, must, may)
            if other is not None and (picks is None or cost_of(other) < cost_of(picks)):
                picks = other
            if picks is None and len({pick.order[0] for pick in may}) > 1:
                may.sort(key=lambda pick: (-gains[pick.unit.key], pick.order))
                picks = self._gather(draft, host, lack, must, may)
        return picks

    def _cover_devices(
        self, draft: Draft, host: int, need: DeviceNeed, lack: list[int], must: list[Unit]
    ) -> list[Pick] | None:
        """The same for a task that takes devices: who leaves must free those that it needs, not only amounts. The first
        who may leave do, until it fits, those on its link group before others who free amounts; then the dearest stay
        without whom it still does.
        """
        devices = self._board.devices
        assert devices is not None
        fits = self._fits_without(host, need, lack, must)
        numbers, mark, picks = draft.numbers, draft.mark, list[Pick]()
        of_group, others = [], self._may_leave(draft, host)
        if need.group:
            of_group = [pick for pick in others if devices.is_in(host, pick.unit, need.group)]
        for at, pick in enumerate((*of_group, *others)):
            if fits(picks):
                break
            if draft.is_gone(pick.unit) or any(pick.unit is other.unit for other in picks):
                continue
            if need.group and at >= len(of_group) and not _gain(pick.unit, host, _less(lack, host, picks)):
                continue
            if not draft.verdict(pick.unit, pick.way).goes:
                continue
            if pick.way == Way.MOVE:
                pick = pick._replace(places=draft.destination(pick.unit, host))
                if not pick.places:
                    continue
                draft.move(pick)
            picks.append(pick)
            draft.charge(pick)
        draft.back(mark)
        draft.numbers = numbers
        if not fits(picks):
            return None
        for pick in sorted(picks, key=_order, reverse=True):
            rest = [other for other in picks if other is not pick]
            if fits(rest) and draft.may_take(rest):
                picks = rest
        return picks if draft.may_take(picks) else None

    def _fewest(self, draft: Draft, host: int, lack: list[int], must: list[Unit]) -> list[Pick] | None:
        """The fewest tasks that are moved from a host for one task more; None: none were found."""
        fits = self._fits_without(host, self._part.devices, lack, must)
        if fits([]):
            return []
        hosts = dict.fromkeys([host, *(next(iter(unit.at)) for unit in must if host not in unit.at)])
        return fewest_moves(draft, host, [pick for each in hosts for pick in self._moves(draft, each)], fits)

    def _moves(self, draft: Draft, host: int) -> list[Pick]:
        return [pick for pick in self._may_leave(draft, host) if pick.way == Way.MOVE]

    def _fits_without(
        self, host: int, need: DeviceNeed | None, lack: list[int], must: list[Unit]
    ) -> Callable[[Sequence[Pick]], bool]:
        """Tells whether a task fits on a host when some have left."""
        devices = self._board.devices if need is not None else None
        state = devices.of(host) if devices is not None else 0

        def fits(picks: Sequence[Pick]) -> bool:
            number = state
            for pick in picks:
                if devices is not None:
                    number = devices.after_unit(number, host, pick.unit, 1)
            leave = {pick.unit.key for pick in picks}
            if max(_less(lack, host, picks)) > 0 or any(unit.key not in leave for unit in must):
                return False
            return need is None or devices is None or devices.fits(need, number)

        return fits

    def _first(self, draft: Draft, host: int, lack: list[int]) -> Pick | None:
        """The first unit that gives anything and may go, where it gives all that lacks and needn't be moved; None: the
        others must be looked at. It is the one that `_gather` would find.
        """
        board, may_leave = self._board, self._may_leave(draft, host)
        work = board.work
        for pick in may_leave:
            unit = pick.unit
            if draft.is_gone(unit):
                continue
            gives, covers = False, True
            for one, amount in zip(lack, unit.at[host], strict=True):
                if one > 0:
                    gives = gives or amount > 0
                    covers = covers and amount >= one
            if gives and draft.verdict(unit, pick.way).goes:
                if covers and pick.way != Way.MOVE:
                    return pick
                break
        board.work = work
        return None

    def _must(self, draft: Draft, host: int) -> list[Unit] | None:
        """The units that must leave for a task on a host, since they have a port that it must have, or by rules about
        neighbours; None: that isn't enough.
        """
        if any((host, port) in self._board.ports for port in self._part.ports):
            return None
        units = self._board.holders(host, self._part.ports)
        if units is None:
            return None
        if self._part.obstacles is not None:
            units = [*{unit.key: unit for unit in (*units, *self._in_the_way(host))}.values()]
        if any(self._stays(unit) for unit in units):
            return None
        return [unit for unit in units if not draft.is_gone(unit)]

    def _in_the_way(self, host: int) -> list[Unit]:
        """The units that are in the way of a task on a host and aren't about to leave."""
        assert self._part.obstacles is not None
        units: dict[int, Unit] = {}
        slots = self._part.obstacles.at(host)
        for there in dict.fromkeys(slots.values()):
            for unit in self._board.units_at(there):
                if unit.code != Code.VICTIM_GONE and any(slot in slots for slot in unit.slots):
                    units[unit.key] = unit
        self._board.work += len(units)
        return [*units.values()]

    def _may_leave(self, draft: Draft, host: int) -> list[Pick]:
        """The units that could leave a host, in each way, in order."""
        key = (host, draft.taker.pool, self._ways)
        picks = self._board.may_leave.get(key)
        if picks is None:
            picks = self._board.may_leave[key] = []
            units = self._board.units_at(host)
            self._board.work += len(units)
            for unit in units:
                if unit.preemptible and not unit.code:
                    ways = WAYS_OF_OWN if unit.pool == draft.taker.pool else WAYS_OF_OTHERS
                    picks += [Pick(unit, way, order_of(unit, way)) for way in self._ways if way in ways]
            picks.sort(key=lambda pick: (pick.order, pick.way))
        return [pick for pick in picks if not self._stays(pick.unit)] if self._part.keeps else picks

    def _stays(self, unit: Unit) -> bool:
        """Whether the task must be beside a unit: without it the host would be of no use."""
        return any(unit.key in slots for slots in self._part.keeps)

    def _gather(self, draft: Draft, host: int, lack: list[int], must: list[Unit], may: list[Pick]) -> list[Pick] | None:
        """Those who must leave, and the first who may until nothing lacks, less those that aren't needed. None: it
        isn't enough, or those who are needed may go only with others: nobody leaves for that alone.
        """
        numbers, mark = draft.numbers, draft.mark
        by_unit: dict[int, Pick] = {}
        holders = {unit.key: None for unit in must}
        hosts = dict.fromkeys([host, *(next(iter(unit.at)) for unit in must if host not in unit.at)]) if must else ()
        first = [pick for each in hosts for pick in self._may_leave(draft, each) if pick.unit.key in holders]
        for pick in (*first, *may):
            unit = pick.unit
            if max(lack) <= 0 and holders.keys() <= by_unit.keys():
                break
            if unit.key in by_unit or not (unit.key in holders or _gain(unit, host, lack)):
                continue
            if unit.key in holders and pick.way == Way.CLEAR and not draft.taker.right.flags & CLEARS_ALL:
                continue
            if not draft.verdict(unit, pick.way).goes:
                continue
            if pick.way == Way.MOVE:
                pick = pick._replace(places=draft.destination(unit, host))
                if not pick.places:
                    continue
                draft.move(pick)
            by_unit[unit.key] = pick
            draft.charge(pick)
            if host in unit.at:  # who is in the way may be elsewhere
                lack = [one - gives for one, gives in zip(lack, unit.at[host], strict=True)]
        draft.back(mark)
        enough = max(lack) <= 0 and holders.keys() <= by_unit.keys()
        needed = _needed(host, lack, by_unit, holders) if enough else None
        draft.numbers = numbers
        if needed is not None and (len(needed) == len(by_unit) or draft.may_take(needed)):
            return needed
        return None


def find_plan(draft: Draft, parts: Sequence[Part], searches: Sequence[Search]) -> Plan | None:
    """Places for all parts of a gang, each by its search; those that ask most go first. None: there is no plan, and
    nothing has changed.
    """
    for search in searches:
        if not search.extend(draft):
            draft.back()
            return None
    if sum(part.size for part in parts) > 1 and not any(part.ports or part.devices for part in parts):
        _spare(draft, parts)
    draft.commit()
    draft.board.ports.update(
        (host, port) for (host, at), tasks in draft.places.items() if tasks for port in parts[at].ports
    )
    places = [(host, part, tasks) for (host, part), tasks in sorted(draft.places.items()) if tasks]
    return Plan(places, draft.picks)


def _gain(unit: Unit, host: int, lack: list[int]) -> int:
    """The part of the lacking amounts that a unit gives on a host, in thousandths of each kind."""
    return sum(
        [1 + min(gives, one) * 1000 // one for gives, one in zip(unit.at[host], lack, strict=True) if one > 0 < gives]
    )


def _less(lack: list[int], host: int, picks: Iterable[Pick]) -> list[int]:
    """The amounts that lack on a host when some have left."""
    for pick in picks:
        gives = pick.unit.at.get(host, [0] * len(lack))
        lack = [one - each for one, each in zip(lack, gives, strict=True)]
    return lack


def _order(pick: Pick) -> Order:
    return pick.order


def _needed(host: int, lack: list[int], picks: dict[int, Pick], must: Container[int]) -> list[Pick]:
    """Those without whom a task wouldn't fit; the dearest stays first, unless it must leave."""
    if len(picks) < 2:
        return [*picks.values()]
    dearest = sorted([pick for pick in picks.values() if pick.unit.key not in must], key=_order, reverse=True)
    stay = staying([(1, pick.unit.at[host]) for pick in dearest], [-one for one in lack])
    spared = {pick.unit.key for pick, count in zip(dearest, stay, strict=True) if count}
    return [pick for pick in picks.values() if pick.unit.key not in spared]


def _fit(board: Board, host: int, need: Sequence[int]) -> int:
    """Counts the tasks that fit on a host."""
    have: list[int] = board.free[:, host].tolist()
    return max(0, min([one // ask for one, ask in zip(have, need, strict=True) if ask], default=NEVER))


def _spare(draft: Draft, parts: Sequence[Part]) -> None:
    """Lets stay whoever isn't needed, the dearest first, within a bound of work. Where others left each host once,
    nobody left several, and no task more fits on any, all are needed.

    `preemption_rules.staying` doesn't do here: whether a unit is needed is no matter of amounts. Its hosts may have
    tasks that find room on others, and those who still leave must be allowed to without it.
    """
    once = all(len(pick.unit.at) == 1 for pick in draft.picks) and max(draft.taken_from.values(), default=1) == 1
    if once and not any(_fit(draft.board, host, parts[part].need) for host, part in draft.places):
        return
    until = draft.board.work + SEARCH_WORK + TASK_WORK * sum(part.size for part in parts)
    must = {slot for part in parts if part.obstacles is not None for slot in part.obstacles.slots().tolist()}
    for pick in sorted(draft.picks, key=_order, reverse=True):
        if draft.board.work >= until:
            return
        if not must.isdisjoint(pick.unit.slots):
            continue
        mark, numbers = draft.mark, draft.numbers
        draft.leave(pick, -1)
        draft.move(pick, -1)
        if _settle(draft, parts, [*pick.unit.at]):
            rest = [one for one in draft.picks if one is not pick]
            if draft.judge(rest):
                draft.picks = rest
                continue
            draft.numbers = numbers
        draft.back(mark)


def _settle(draft: Draft, parts: Sequence[Part], hosts: list[int]) -> bool:
    """Puts the tasks for which these hosts have no room any more on others that the plan uses or frees; False: there is
    no room. Tasks of several parts stay where they are.
    """
    homeless = 0
    for host in hosts:
        short = _short(draft, parts, host)
        if short and (len(parts) > 1 or short > draft.places.get((host, 0), 0)):
            return False
        if short:
            draft.put(host, 0, parts[0].need, -short)
            homeless += short
    used = [host for host, _ in draft.places]
    if parts[0].obstacles is None:  # elsewhere somebody may be in the way
        used += [host for pick in draft.picks for host in pick.unit.at]
    for host in dict.fromkeys(used) if homeless else ():
        room = min(parts[0].most - draft.places.get((host, 0), 0), _fit(draft.board, host, parts[0].need))
        tasks = min(homeless, room) if parts[0].open_[host] else 0
        if tasks:
            draft.put(host, 0, parts[0].need, tasks)
            homeless -= tasks
    return not homeless


def _short(draft: Draft, parts: Sequence[Part], host: int) -> int:
    """Counts the tasks of the first part that are too many on a host; more than there are: it lacks room for what else
    is put there.
    """
    needs = [parts[part].need for (place, part), tasks in draft.places.items() if place == host and tasks]
    moved = [place.amounts for pick in draft.picks for place in pick.places if place.host == host]
    have: list[int] = draft.board.free[:, host].tolist()
    short = 0
    for kind, one in enumerate(have):
        if one < 0 and any(need[kind] for need in needs + moved):
            ask = parts[0].need[kind]
            short = max(short, -(one // ask) if ask else NEVER)
    return short
