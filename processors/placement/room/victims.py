"""The runs with a place on each host, as one decision sees them: who may be preempted for whom, and at what cost.

Columns over all runs with a place, from which hosts are compared; and units, whole gangs over hosts, of those hosts
that are looked at closely.
"""

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from events.bounds import INT_MAX
from events.cell_settings import Settings
from events.codes import Code, Way
from events.columns import I32, I64
from events.ranks import Rank
from events.resources import Vector, add
from processors.placement.gang_search import Part
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask, least, scores
from processors.placement.room.board import Board, Taker, Unit
from processors.placement.room.plans import Plans
from processors.placement.rows import JobRow
from processors.placement.runs import Runs
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Flag, has_to_give, protection, victim_kind, yields
from processors.state.seconds import elapsed

CLASSES_MAX = 8
"""So many classes of victims are distinguished where hosts are compared; the others count as one."""
CLOSE = 256
"""So many hosts, and four more for each task, are looked at closely."""


class ClassRoom(NamedTuple):
    """The room that would come of a class of victims, and of those that leave before it."""

    gives: I64
    """[kinds, hosts]: the amounts that they hold, of the kinds that are needed."""
    lost: I64
    """The seconds of work that would be lost with one of them, by host: the mean."""
    runs: int
    """The number of those of the class."""


class Victims:
    """Reads runs and hosts, changes neither."""

    def __init__(
        self, runs: Runs, hosts: Hosts, plans: Plans, displaced: Displacements, settings: Settings, now: int
    ) -> None:
        self._runs = runs
        self._hosts = hosts
        self._plans = plans
        self._displaced = displaced
        self._settings = settings
        self._now = now
        self._now_s = elapsed(now)
        self._on_host: dict[int, list[Unit]] = {}
        self._gangs: dict[int, Unit] = {}
        self._room_by_class: dict[tuple[object, ...], list[ClassRoom]] = {}
        self._needs: dict[int, list[int]] = {}
        self._barred = {job_id for job_id, _ in plans.barred}

    # Columns over runs with a place.

    @cached_property
    def slots(self) -> I64:
        """Their slots, ascending."""
        return np.flatnonzero(self._runs.arena["placed"])

    @cached_property
    def host(self) -> I64:
        """Their hosts."""
        return self._runs.arena["host"][self.slots].astype(np.int64) - 1

    @cached_property
    def amounts(self) -> I64:
        """[kinds + 1, runs]: what they hold, ports behind the kinds."""
        numbers = self._runs.arena["shape"][self.slots]
        shapes = self._runs.shapes.table
        needs = np.zeros((max(shapes, default=-1) + 1, len(self._hosts.kinds) + 1), dtype=np.int64)
        for number in shapes:
            needs[number] = *shapes[number].shape.need, shapes[number].shape.ports
        return needs[numbers].T

    @cached_property
    def _starts(self) -> I64:
        """Where among them another job begins."""
        return np.flatnonzero(np.diff(self._runs.arena["owner"][self.slots], prepend=-1))

    @cached_property
    def _jobs(self) -> list[JobRow]:
        """The jobs."""
        return [self._runs.jobs[self._runs.waits.job_of(slot)] for slot in self.slots[self._starts].tolist()]

    @cached_property
    def _job(self) -> I64:
        """The index of the job of each."""
        counts = np.diff(np.append(self._starts, len(self.slots)))
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def _leaving(self) -> I32:
        return self._runs.arena["leaving"][self.slots]

    @cached_property
    def _asked(self) -> dict[int, None]:
        """The slots that plans without an answer ask for."""
        return dict.fromkeys(self._plans.asked_slots())

    @cached_property
    def asked(self) -> Mask:
        """True for tasks that plans without an answer ask for."""
        return np.isin(self.slots, np.fromiter(self._asked, dtype=np.int64))

    def asked_of(self) -> dict[str, Vector]:
        """The amounts that each pool gives to plans without an answer."""
        by_pool: dict[str, Vector] = {}
        which = np.flatnonzero(self.asked)
        for index, amounts in zip(self._job[which].tolist(), self.amounts[:-1, which].T.tolist(), strict=True):
            pool = self._jobs[index].pool
            by_pool[pool] = add(by_pool[pool], amounts) if pool in by_pool else tuple(amounts)
        return by_pool

    def leaves(self, slot: int) -> bool:
        """Whether a task leaves for a plan that holds room, or is asked to."""
        leaving = int(self._runs.arena["leaving"][slot])
        return slot in self._asked or (leaving > 0 and leaving in self._orders)

    def _of_jobs(self, which: list[bool]) -> Mask:
        """True for tasks of these jobs; one value for each of the jobs."""
        return np.array(which, dtype=np.bool_)[self._job]

    @cached_property
    def _is_preemptible(self) -> Mask:
        return self._of_jobs([row.preemptible for row in self._jobs])

    @cached_property
    def _is_revocable(self) -> Mask:
        at = self._hosts.kinds.revocable
        revocable: Mask = self.amounts[at] > 0 if at >= 0 else np.zeros(len(self.slots), dtype=np.bool_)
        return revocable

    @cached_property
    def _is_service(self) -> Mask:
        return self._of_jobs([row.service for row in self._jobs])

    @cached_property
    def _priority(self) -> I64:
        return np.array([row.priority for row in self._jobs], dtype=np.int64)[self._job]

    @cached_property
    def _pools(self) -> tuple[dict[str, int], I64]:
        """The pools of the jobs, numbered, and the number of that of each."""
        names = [row.pool for row in self._jobs]
        numbers = {pool: at for at, pool in enumerate(dict.fromkeys(names))}
        return numbers, np.array([numbers[pool] for pool in names], dtype=np.int64)[self._job]

    @cached_property
    def _classes(self) -> tuple[int, I64]:
        """The number of classes, by priority and kind, and the class of each task."""
        keys = [(row.priority, row.service) for row in self._jobs]
        index = {key: min(at, CLASSES_MAX // 2 - 1) for at, key in enumerate(sorted({*keys}))}
        return len({*index.values()}), np.array([index[key] for key in keys], dtype=np.int64)[self._job]

    @cached_property
    def _may_go(self) -> Mask:
        """True for tasks that may be preempted, as far as that doesn't depend on who asks."""
        may: Mask = self._is_preemptible & (self._leaving == 0) & ~self.asked
        return may

    def held(self, which: Mask) -> I64:
        """[kinds + 1, hosts]: what some of them hold on each host."""
        amounts = np.zeros_like(self._hosts.used)
        host, room = self.host[which], self.amounts[:, which]
        for row, more in zip(amounts, room, strict=True):
            np.add.at(row, host, more)
        return amounts

    @cached_property
    def _orders(self) -> I64:
        return np.minimum(self._plans.open_orders(self._now), INT_MAX)

    @cached_property
    def soon(self) -> I64:
        """[kinds + 1, hosts]: what those hold who are about to leave."""
        return self.held(self.asked | ((self._leaving > 0) & np.isin(self._leaving, self._orders)))

    @cached_property
    def services(self) -> I64:
        """[kinds + 1, hosts]: what services hold, and aren't about to leave."""
        return self.held(self._is_service & (self._leaving == 0))

    @cached_property
    def serving(self) -> frozenset[int]:
        """The slots of services that aren't about to leave."""
        return frozenset(self.slots[self._is_service & (self._leaving == 0)].tolist())

    @cached_property
    def preemptible(self) -> I64:
        """[kinds + 1, hosts]: what batch work holds that is preemptible, or is about to leave."""
        return self.held((self._is_preemptible & ~self._is_service) | (self._leaving > 0))

    @cached_property
    def leavable(self) -> I64:
        """[kinds + 1, hosts]: what those hold who may be asked, by somebody."""
        return self.held(self._may_go)

    @property
    def may_go(self) -> I64:
        """The tasks that may be asked, by somebody, or must leave."""
        return self.slots[self._may_go | (self._leaving > 0)]

    @cached_property
    def _lost(self) -> I64:
        """For how many seconds each has been available."""
        since = self._runs.arena["available_s"][self.slots].astype(np.int64)
        return np.where(since > 0, np.maximum(self._now_s - since, 0), 0)

    # Comparing hosts.

    def ranked(self, board: Board, part: Part, taker: Taker, ways: tuple[int, ...]) -> list[int]:
        """The hosts on which a task might find a place, those that cost least first, as far as one sees from afar."""
        open_ = part.open_ if part.obstacles is None else self._clearable(board, part, taker, ways)
        need = np.array(part.need, dtype=np.int64)[:, None]
        lack = np.where(need, np.maximum(need - board.free, 0), 0)
        kinds = np.flatnonzero(part.need)
        worst = np.where((lack == 0).all(axis=0) & open_, -1, CLASSES_MAX)
        worst[(worst < 0) & ~self._hosts.ports.without(part.ports)] = 0
        if part.obstacles is not None:
            worst[(worst < 0) & part.obstacles.where()] = 0
        if part.devices is not None:
            worst[(worst < 0) & ~self._hosts.devices.fits(part.devices)] = 0
        lost = np.zeros_like(lack[0])
        for at, each in enumerate(self._by_class(board, taker, ways, tuple(kinds.tolist()))):
            worst[(worst > at) & (each.gives >= lack[kinds]).all(axis=0) & open_] = at
            board.work += each.runs // 64
            lost = each.lost
        hosts = np.flatnonzero(worst < CLASSES_MAX)
        keys = worst[hosts], lost[hosts], scores(lack[:, hosts], board.weight)
        ranked: list[int] = hosts[least(keys, CLOSE + 4 * part.size)].tolist()
        return ranked

    def _clearable(self, board: Board, part: Part, taker: Taker, ways: tuple[int, ...]) -> Mask:
        """The hosts that a task may use where all who are in the way might leave, or are about to."""
        assert part.obstacles is not None
        stays = (self._leaving == 0) & ~self.asked
        for which in self._masks(taker, *self._permitted(board, taker, ways)):
            stays &= ~which
        in_the_way = np.sort(part.obstacles.slots())
        board.work += len(in_the_way) // 64
        clearable: Mask = part.open_ & ~part.obstacles.where(np.intersect1d(in_the_way, self.slots[stays]))
        return clearable

    @staticmethod
    def _permitted(board: Board, taker: Taker, ways: tuple[int, ...]) -> tuple[list[str], bool, bool]:
        """The pools that might give, and whether others might be moved or cleared away."""
        givers = [name for name, giver in board.givers.items() if has_to_give(taker.need, giver, taker.right)]
        moves = Way.MOVE in ways and bool(taker.right.flags & Flag.MOVE)
        return givers, moves, Way.CLEAR in ways and bool(taker.right.flags & Flag.CLEAR)

    def _by_class(self, board: Board, taker: Taker, ways: tuple[int, ...], kinds: tuple[int, ...]) -> list[ClassRoom]:
        """The room that would come of those that might leave, class by class, each with those that leave before it."""
        givers, moves, clears = self._permitted(board, taker, ways)
        key = (taker.pool, taker.priority, taker.revocable, *givers, moves, clears, kinds)
        if key not in self._room_by_class:
            gives = np.zeros((len(kinds), self._hosts.used.shape[1]), dtype=np.int64)
            lost, runs = np.zeros_like(gives[0]), np.zeros_like(gives[0])
            rooms: list[ClassRoom] = []
            for which in self._masks(taker, givers, moves, clears):
                host = self.host[which]
                for row, kind in zip(gives, kinds, strict=True):
                    np.add.at(row, host, self.amounts[kind, which])
                np.add.at(lost, host, self._lost[which])
                np.add.at(runs, host, 1)
                rooms.append(ClassRoom(gives.copy(), lost // np.maximum(runs, 1), len(host)))
            self._room_by_class[key] = rooms
        return self._room_by_class[key]

    def _masks(self, taker: Taker, givers: Sequence[str], moves: bool, clears: bool) -> Iterator[Mask]:
        """True for those that might leave for a gang, the class that leaves first before the others."""
        numbers, pool = self._pools
        own = pool == numbers.get(taker.pool, -1)
        gives = [numbers[name] for name in givers if name in numbers]
        borrowed = self._runs.arena["rank"][self.slots] == Rank.BORROWED
        may = self._may_go
        yielding = yields(self._priority, borrowed, self._is_revocable, taker.priority, taker.revocable)
        first = may & np.where(own, yielding, np.isin(pool, gives))
        classes, job_class = self._classes
        for which in (first, may & ~first) if moves or clears else (first,):
            if which is not first and not moves:
                which = which & ~own  # hosts are cleared of other pools alone (`WAYS_OF_OWN`)
            for each in range(classes):
                yield which & (job_class == each)

    # Looking closely.

    def units_at(self, host: int) -> list[Unit]:
        """The units with a place on a host."""
        if host not in self._on_host:
            self._look_at(np.array([host]))
        return self._on_host[host]

    @cached_property
    def _by_host(self) -> tuple[I64, I64]:
        """The indexes of all by their hosts, and where the first of each host stands among them."""
        order = np.argsort(self.host, kind="stable")
        return order, np.searchsorted(self.host[order], np.arange(len(self._hosts.ids) + 1))

    def holders(self, host: int, ports: Sequence[int]) -> list[Unit] | None:
        """The units with any of some ports on a host that aren't about to leave; None: a task that is to come back has
        one.
        """
        lacking = {port for port in ports if port in self._hosts.ports.taken[host]}
        units = []
        for unit in self.units_at(host) if lacking else ():
            mine = {
                port
                for slot in unit.slots
                if self._runs.arena["host"][slot] == host + 1
                for port in self._runs.ports[slot]
            }
            if lacking & mine:
                lacking -= mine
                units += [unit] * (unit.code != Code.VICTIM_GONE)
        return None if lacking else units

    def _look_at(self, hosts: I64) -> None:
        """Finds the units on these hosts in one go."""
        new = [host for host in hosts.tolist() if host not in self._on_host]
        by_host: dict[int, dict[int, Unit]] = {host: {} for host in new}
        if not new:
            return
        order, starts = self._by_host
        which = np.sort(np.concatenate([order[starts[host] : starts[host + 1]] for host in new]))
        slots, arena = self.slots[which], self._runs.arena
        names = ("shape", "rank", "leaving", "placed_s", "available_s")
        columns: list[I32 | I64] = [slots, self.host[which], self._job[which]]
        columns += [arena[name][slots] for name in names]
        for slot, host, job, *own in zip(*(column.tolist() for column in columns), strict=True):
            row = self._jobs[job]
            unit = self._gang(slot) if row.in_gang(slot - row.base) else self._task(slot, host, row, *own)
            by_host[host][unit.key] = unit
        self._on_host.update((host, [*units.values()]) for host, units in by_host.items())

    def _task(
        self, slot: int, host: int, row: JobRow, shape: int, rank: int, leaving: int, placed_s: int, available_s: int
    ) -> Unit:
        """A task by itself."""
        unit = self._unit([slot], row, rank, placed_s)
        need = self._need(shape)
        moves = int(self._runs.arena["pin"][slot]) <= 0  # else it has no place elsewhere
        unit.at, unit.shapes, unit.amount = {host: need}, [shape] * moves, tuple(need[:-1])
        unit.revocable = self._hosts.kinds.is_revocable(need)
        unit.lost = max(0, self._now_s - available_s) if available_s else 0
        if leaving or slot in self._asked:
            unit.code = Code.VICTIM_GONE
        return unit

    def _gang(self, slot: int) -> Unit:
        """A gang: all its tasks that have places."""
        gang = self._gangs.get(slot)
        if gang is not None:
            return gang
        arena, runs = self._runs.arena, self._runs
        members = runs.unit(slot)
        members = members[arena["placed"][members] > 0]
        slots = members.tolist()
        job = runs.jobs[runs.waits.job_of(slot)]
        unit = self._unit(slots, job, int(arena["rank"][slot]), int(arena["placed_s"][members].max()))
        for number, host in zip(arena["shape"][members].tolist(), arena["host"][members].tolist(), strict=True):
            have, need = unit.at.get(host - 1), self._need(number)
            unit.at[host - 1] = need if have is None else list(map(operator.add, have, need))
            unit.shapes.append(number)
        unit.amount = tuple([sum(column) for column in zip(*unit.at.values(), strict=True)][:-1])
        unit.revocable = self._hosts.kinds.is_revocable(unit.amount)
        since = arena["available_s"][members]
        unit.lost = int(np.maximum(self._now_s - since[since > 0].astype(np.int64), 0).sum())
        if arena["leaving"][members].any() or any(one in self._asked for one in slots):
            unit.code = Code.VICTIM_GONE
        self._gangs.update(dict.fromkeys(slots, unit))
        return unit

    def _unit(self, slots: list[int], row: JobRow, rank: int, placed_s: int) -> Unit:
        """The common part of all units, and the memory of this one: slices, caps, refusals."""
        controls = row.controller and slots == [row.base]
        unit = Unit(slots[0], row.pool, row.priority, victim_kind(row.service, controls))
        unit.preemptible, unit.borrowed, unit.slots = row.preemptible, rank == Rank.BORROWED, slots
        now, job_id = self._now, self._runs.waits.job_of(row.base)
        past = self._displaced.remembered(job_id, [slot - row.base for slot in slots])
        unit.protection = protection(self._displaced, job_id, past, placed_s, self._settings, now)
        if past:
            unit.code = Code.DEFERRED if self._displaced.spared_ms(job_id, past, now) else ""
        if job_id in self._barred:
            for slot in slots:
                run = int(self._runs.arena["placed"][slot])
                unit.code = unit.code or self._plans.why_barred((job_id, slot - row.base), run, now)
        return unit

    def _need(self, number: int) -> list[int]:
        """The amounts that a task of a shape holds, ports behind the kinds."""
        need = self._needs.get(number)
        if need is None:
            shape = self._runs.shapes[number]
            need = self._needs[number] = [*shape.need, shape.ports]
        return need
