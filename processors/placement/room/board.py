"""The state of a plan in the making: who has places on which hosts, what will be free, who may leave for whom.

A plan is made on a `Draft`, which undoes what it changed on the `Board` if it comes to nothing. The rules
(`preemption_rules.py`) judge victims one after another, in the order in which they are chosen.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from events.codes import Way
from events.columns import I64
from events.resources import Vector
from processors.placement.devices.host_devices import HostDevices
from processors.placement.devices.needs import DeviceNeed
from processors.placement.devices.states import link_group_of
from processors.placement.packing import Mask, Weights, have_room, score_of, scores
from processors.state.preemption_rules import BATCH, UNPROTECTED, Giver, Right, Verdict, may_go, victim_of

Class = tuple[bool, int, int]
"""The class of a victim, lower ones leave first: by OWN or GIVE before MOVE and CLEAR, lower priority, lower kind
(`preemption_rules.victim_kind`).
"""
Cost = tuple[tuple[Class, int, int], ...]
"""The cost of some victims: classes, the one that leaves last first, with the seconds of work lost and the tasks of
each.
"""


class Unit:
    """Tasks that have places and leave as a whole: a gang, or one task."""

    __slots__ = (
        *("amount", "at", "borrowed", "code", "key", "kind", "lost", "pool", "preemptible", "priority"),
        *("protection", "revocable", "shapes", "slots"),
    )

    def __init__(self, key: int, pool: str, priority: int = 0, kind: int = BATCH) -> None:
        self.key = key
        """The slot of its first task."""
        self.pool = pool
        self.priority = priority
        self.kind = kind
        self.at: dict[int, list[int]] = {}
        """The amounts that it holds on each host, ports behind the kinds."""
        self.shapes: list[int] = []
        """The number of the shape of each of its tasks."""
        self.amount: Vector = ()
        """The amount that it holds of each kind."""
        self.preemptible = True
        self.borrowed = self.revocable = False
        self.protection = UNPROTECTED
        self.lost = 0
        """Seconds since its runs are available, together."""
        self.slots: list[int] = []
        """Its tasks."""
        self.code = ""
        """Why it isn't asked now, whoever it is for: VICTIM_GONE or DEFERRED; empty: it may be."""


class Taker(NamedTuple):
    """The gang for which others may leave."""

    pool: str
    priority: int
    need: Vector
    """The need of all of it."""
    right: Right
    revocable: bool = False
    """Whether it runs on slack."""


Order = tuple[Class, int, int, int]
"""Class, seconds of work lost, tasks, key."""


class Place(NamedTuple):
    """A place of a task elsewhere: the host, and the amounts and the devices (None: none) that it takes there."""

    host: int
    amounts: Sequence[int]
    devices: DeviceNeed | None = None


class Pick(NamedTuple):
    """A unit that is to leave."""

    unit: Unit
    way: int
    order: Order
    """Its place in the order in which units leave."""
    places: tuple[Place, ...] = ()
    """Where it is moved to."""


def order_of(unit: Unit, way: int) -> Order:
    """The order in which units leave: by class, least work lost, fewest tasks."""
    return (way > Way.GIVE, unit.priority, unit.kind), unit.lost, len(unit.slots), unit.key


def cost_of(picks: Sequence[Pick], fewest: bool = False) -> Cost:
    """To compare who leaves for a task on one host with who leaves on another. `fewest`: the number of tasks counts
    before their class.
    """
    first: Cost = (((True, 0, 0), 0, sum(len(pick.unit.slots) for pick in picks)),) if fewest and picks else ()
    classes: dict[Class, tuple[int, int]] = {}
    for pick in picks:
        kind, lost, tasks, _ = pick.order
        had = classes.get(kind, (0, 0))
        classes[kind] = had[0] + lost, had[1] + tasks
    return first + tuple([(kind, *classes[kind]) for kind in sorted(classes, reverse=True)])


class BoardDevices:
    """The devices of hosts as plans leave them."""

    def __init__(self, devices: HostDevices, at_first: Callable[[int], int], at_once: Callable[[int], int]) -> None:
        self._devices, self._at_first, self._at_once = devices, at_first, at_once
        self.states: dict[int, int] = {}
        """The number of the state of each host that was looked at, when all have left who must."""
        self.states_at_once: dict[int, int] = {}
        """The same now."""

    def of(self, host: int) -> int:
        """The state of a host."""
        if host not in self.states:
            self.states[host] = self._at_first(host)
        return self.states[host]

    def of_now(self, host: int) -> int:
        """The state of a host before anybody has left it."""
        if host not in self.states_at_once:
            self.states_at_once[host] = self._at_once(host)
        return self.states_at_once[host]

    def forget(self, host: int) -> None:
        """Something else is held on a host, on which no plan has put a task."""
        self.states.pop(host, None)
        self.states_at_once.pop(host, None)

    def fit_at_once(self, need: DeviceNeed, host: int) -> bool:
        """Whether a task that is moved to a host finds its devices there, and leaves enough for those planned there."""
        return self.fits(need, self.of_now(host)) and self.fits(need, self.of(host))

    def fits(self, need: DeviceNeed, number: int) -> bool:
        """Whether a task finds its devices in a state."""
        return self._devices.states.choice(need, number) is not None

    def after_task(self, number: int, need: DeviceNeed) -> int:
        """The state after one in which a task finds its devices, when it is there."""
        choice = self._devices.states.choice(need, number)
        assert choice is not None, "a task was planned where its devices aren't"
        return self._devices.states.after(number, choice)

    def tasks(self, host: int, need: DeviceNeed, most: int) -> int:
        """Counts the tasks, `most` of them, that find their devices on a host one after another."""
        number, count = self.of(host), 0
        while count < most and self.fits(need, number):
            number, count = self.after_task(number, need), count + 1
        return count

    def is_in(self, host: int, unit: Unit, group: str) -> bool:
        """Whether a unit has cards of a link group of a host."""
        there, layout = self._devices.of(host), self._devices.layouts[host].layout
        cards = (self._devices.taken_by(host, slot).devices for slot in unit.slots if slot in there)
        return any(link_group_of(layout, at) == group for each in cards for at, _, _ in each)

    def after_unit(self, number: int, host: int, unit: Unit, sign: int) -> int:
        """The state of a host after a unit has left it, or (`sign` -1) stays."""
        there = self._devices.of(host)
        for slot in unit.slots:
            if slot in there:
                number = self._devices.states.after(number, self._devices.taken_by(host, slot), -sign)
        return number


class Board:
    """Copies of what is free. A plan that is made stays on it, for those that are made after it."""

    def __init__(
        self,
        free: I64,
        at_once: I64,
        weight: Weights,
        givers: dict[str, Giver],
        units_at: Callable[[int], list[Unit]],
        task_of: Callable[[int, Sequence[int]], tuple[Sequence[int], Mask, DeviceNeed | None]],
        holders: Callable[[int, Sequence[int]], list[Unit] | None],
        devices: BoardDevices | None = None,
    ) -> None:
        self.free = free
        """[kinds + 1, hosts]: what will be free when all have left who must."""
        self.at_once = at_once
        """The amounts free now."""
        self.weight = weight
        """The weight of a unit of each kind, to compare hosts."""
        self._plain = weight.plain()
        self.givers = givers
        """The pools that may be asked to give, less what plans take of them."""
        self.units_at = units_at
        self.task_of = task_of
        """The need of a task of a shape, one of a unit's tasks, the hosts that it may use beside its own, and its
        devices.
        """
        self.holders = holders
        """The units with any of some ports on a host; None: not all of them will be free when these leave."""
        self.may_leave: dict[tuple[object, ...], list[Pick]] = {}
        """The units that could leave a host, kept for later looks."""
        self.gone: dict[int, None] = {}
        """The units that leave for plans made here, by their keys."""
        self.changes: dict[int, int] = {}
        """The number of changes of each host."""
        self.ports: set[tuple[int, int]] = set()
        """Hosts and the ports there that tasks must have for which plans are made here."""
        self.work = 0
        """The number of units that were looked at and judged: the cost of planning."""
        self.devices = devices
        """The devices of hosts; None: nobody asks for any."""
        self.nothing = Giver(*((0,) * (len(free) - 1),) * 3)

    def give(self, hosts: I64, needs: I64, amounts: I64) -> None:
        """More will be free on these hosts, and (`amounts`) is now; below 0: less."""
        self.free[:, hosts] += needs
        self.at_once[:, hosts] += amounts
        for host in hosts.tolist():
            self.changes[host] = self.changes.get(host, 0) + 1

    def alike(self, unit: Unit) -> tuple[object, ...]:
        """Equal for units that free the same and need the same elsewhere; those on devices stand alone."""
        if self.devices is not None:
            return (unit.key,)
        return tuple(unit.shapes), *((host, *amounts) for host, amounts in sorted(unit.at.items()))

    def score(self, host: int) -> int:
        """The amounts that will be free on a host, as one score."""
        return score_of(self.free[:, host].tolist(), self._plain)


class Draft:
    """A plan in the making."""

    def __init__(self, board: Board, taker: Taker) -> None:
        self.board = board
        self.taker = taker
        self.picks: list[Pick] = []
        self.places: dict[tuple[int, int], int] = {}
        """Tasks by host and part."""
        self.taken_from: dict[int, int] = {}
        """The number of times that others had to leave each host."""
        self._gone: dict[int, None] = {}
        self._givers: dict[str, Giver] = {}
        self._taken: Vector = (0,) * len(taker.need)
        self._undo: list[
            tuple[I64, int, I64] | tuple[None, tuple[int, int], int] | tuple[dict[int, int], int, int]
        ] = []

    def commit(self) -> None:
        """The plan is made."""
        self.board.givers.update(self._givers)
        self.board.gone.update((pick.unit.key, None) for pick in self.picks)

    # The rules.

    def verdict(self, unit: Unit, way: int) -> Verdict:
        """Whether a unit may go after those judged before it."""
        self.board.work += 1
        taker = self.taker
        victim = victim_of(unit, taker.pool, taker.priority, taker.revocable)
        return may_go(way, victim, taker.need, self._giver(unit.pool), taker.right, self._taken)

    def charge(self, pick: Pick) -> None:
        """Those after a victim are judged on what it leaves of the numbers."""
        unit = pick.unit
        self._givers[unit.pool] = self._giver(unit.pool).less(unit.amount)
        if pick.way == Way.GIVE:
            self._taken = tuple([have + one for have, one in zip(self._taken, unit.amount, strict=True)])

    def judge(self, picks: Iterable[Pick]) -> bool:
        """Whether these victims, and no others, may go one after another; the numbers are what they leave."""
        self.numbers = {}, (0,) * len(self.taker.need)
        return self._judged(picks)

    def may_take(self, picks: Iterable[Pick]) -> bool:
        """Whether these may go too, haven't been taken, and their new places are still free."""
        numbers = self.numbers
        good = not any(self.is_gone(pick.unit) for pick in picks) and self._judged(picks) and self._find_room(picks)
        self.numbers = numbers
        return good

    def take(self, picks: Sequence[Pick]) -> None:
        """These leave. They are moved first: their new places were found while all of them were there."""
        for pick in picks:
            self.move(pick)
        for pick in picks:
            self.picks.append(pick)
            self._gone[pick.unit.key] = None
            self.charge(pick)
            self.leave(pick)
        for host in dict.fromkeys(host for pick in picks for host in pick.unit.at):
            self.taken_from[host] = self.taken_from.get(host, 0) + 1

    def is_gone(self, unit: Unit) -> bool:
        """Whether a unit leaves for this plan, or one before it."""
        return unit.key in self._gone or unit.key in self.board.gone

    def _judged(self, picks: Iterable[Pick]) -> bool:
        for pick in picks:
            if not self.verdict(pick.unit, pick.way).goes:
                return False
            self.charge(pick)
        return True

    @property
    def numbers(self) -> tuple[dict[str, Giver], Vector]:
        """The remaining amounts of the givers after those judged until now, and the amounts that these give."""
        return {**self._givers}, self._taken

    @numbers.setter
    def numbers(self, numbers: tuple[dict[str, Giver], Vector]) -> None:
        self._givers, self._taken = numbers

    def _giver(self, pool: str) -> Giver:
        return self._givers.get(pool) or self.board.givers.get(pool) or self.board.nothing

    # The hosts.

    @property
    def mark(self) -> int:
        """A point to which `back` goes."""
        return len(self._undo)

    def back(self, mark: int = 0) -> None:
        """Undoes what was changed on the board since."""
        for entry in reversed(self._undo[mark:]):
            if entry[0] is None:
                self.places[entry[1]] = entry[2]
            elif isinstance(entry[0], dict):
                entry[0][entry[1]] = entry[2]
            else:
                entry[0][:, entry[1]] = entry[2]
                self.board.changes[entry[1]] += 1
        del self._undo[mark:]

    def put(self, host: int, part: int, need: Sequence[int], tasks: int, devices: DeviceNeed | None = None) -> None:
        """Tasks of a part are put on a host, or (below 0; not such as take devices) taken away."""
        if devices is not None:
            for _ in range(tasks):
                self._change_devices(host, partial(BoardDevices.after_task, need=devices))
        have = self.places.get((host, part), 0)
        self._undo.append((None, (host, part), have))
        self.places[host, part] = have + tasks
        self._change(self.board.free, host, need, -tasks)

    def leave(self, pick: Pick, sign: int = 1) -> None:
        """A victim leaves its hosts, or (`sign` -1) stays; `move` is the rest of it."""
        for host, amounts in pick.unit.at.items():
            self._change(self.board.free, host, amounts, sign)
            self._change_devices(host, partial(BoardDevices.after_unit, host=host, unit=pick.unit, sign=sign))

    def move(self, pick: Pick, sign: int = 1) -> None:
        """Puts a moved unit on its new places, or (`sign` -1) takes it away from them."""
        for place in pick.places:
            self._occupy(place, sign)

    def destination(self, unit: Unit, for_host: int) -> tuple[Place, ...]:
        """Places elsewhere for all tasks of a unit, free at once, on the fullest hosts that have room, but not on the
        host for which it leaves; none: there aren't enough.
        """
        mark = self.mark
        places: list[Place] = []
        for number in unit.shapes:
            need, open_, devices = self.board.task_of(number, unit.slots)
            column = np.array(need, dtype=np.int64)[:, None]
            room = np.minimum(self.board.free, self.board.at_once)
            fits = have_room(room, column) & open_
            fits[[*unit.at, for_host]] = False
            host = self._fullest(np.flatnonzero(fits), devices)
            self.board.work += 1
            if host is None:
                places = []
                break
            places.append(Place(host, need, devices))
            self._occupy(places[-1])
        self.back(mark)
        return tuple(places)

    def _find_room(self, picks: Iterable[Pick]) -> bool:
        """Whether the new places of some units are free, one after another. Changes nothing: hosts that have changed
        are judged again.
        """
        board = self.board
        rooms: dict[int, I64] = {}
        states: dict[int, tuple[int, int]] = {}
        for host, amounts, need in [place for pick in picks for place in pick.places]:
            room = rooms.get(host)
            if room is None:
                room = np.minimum(board.free[:, host], board.at_once[:, host])
            ask = np.array(amounts, dtype=np.int64)
            if not have_room(room[:, None], ask[:, None]).all():
                return False
            rooms[host] = room - ask
            if need is not None:
                devices = board.devices
                assert devices is not None, "a task has devices"
                now, later = states.get(host) or (devices.of_now(host), devices.of(host))
                if not (devices.fits(need, now) and devices.fits(need, later)):
                    return False
                states[host] = devices.after_task(now, need), devices.after_task(later, need)
        return True

    def _fullest(self, hosts: I64, devices: DeviceNeed | None) -> int | None:
        """The fullest of some hosts with room, where a task finds its devices too."""
        if not len(hosts):
            return None
        by_score = scores(self.board.free[:, hosts], self.board.weight)
        if devices is None:
            return int(hosts[np.argmin(by_score)])
        board = self.board.devices
        assert board is not None, "a task has devices"
        fullest_first = hosts[np.argsort(by_score, kind="stable")].tolist()
        return next((host for host in fullest_first if board.fit_at_once(devices, host)), None)

    def _occupy(self, place: Place, sign: int = 1) -> None:
        """A moved task takes its new place, or (`sign` -1) leaves it."""
        self._change(self.board.free, place.host, place.amounts, -sign)
        self._change(self.board.at_once, place.host, place.amounts, -sign)
        if place.devices is not None and sign == 1:  # where it isn't moved after all the rest of the plan leaves them
            self._change_devices(place.host, partial(BoardDevices.after_task, need=place.devices))
            self._change_devices(place.host, partial(BoardDevices.after_task, need=place.devices), at_once=True)

    def _change_devices(self, host: int, change: Callable[[BoardDevices, int], int], at_once: bool = False) -> None:
        devices = self.board.devices
        if devices is not None:
            before = devices.of_now(host) if at_once else devices.of(host)
            states = devices.states_at_once if at_once else devices.states
            self._undo.append((states, host, before))
            states[host] = change(devices, before)

    def _change(self, matrix: I64, host: int, amounts: Sequence[int], times: int) -> None:
        self._undo.append((matrix, host, matrix[:, host].copy()))
        self.board.changes[host] = self.board.changes.get(host, 0) + 1
        matrix[:, host] += np.array(amounts, dtype=np.int64) * times
