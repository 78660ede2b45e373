"""Who has a place on which host, as one decision sees it: who may be asked to leave for whom, and at what cost.

Columns over all runs with a place, from which hosts are compared; and units, whole gangs over hosts, of those hosts
that are looked at closely.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from events.bounds import INT_MAX
from events.cell_settings import Settings
from events.codes import Code
from events.columns import I32, I64
from events.resources import Vector, add
from processors.placement.gang_search import Part
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask, scores
from processors.placement.plan_board import BATCH, CONTROLLER, SERVICE, Board, Taker, Unit
from processors.placement.plans import Plans
from processors.placement.rows import JobRow
from processors.placement.runs import Runs
from processors.placement.waits import BORROWED
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Flag, Giver, Way, slice_ms
from processors.state.seconds import elapsed, milliseconds

CLASSES_MAX = 8
"""So many classes of victims are told apart where hosts are compared; the others count as one."""
CLOSE = 256
"""So many hosts, and four more for each task, are looked at closely."""


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
        self._units: dict[int, Unit] = {}
        self._on_host: dict[int, list[int]] = {}

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
        """Which they are."""
        return np.isin(self.slots, np.fromiter(self._asked, dtype=np.int64))

    def asked_of(self) -> dict[str, Vector]:
        """What each pool gives to plans without an answer."""
        given: dict[str, Vector] = {}
        which = np.flatnonzero(self.asked)
        for index, amounts in zip(self._job[which].tolist(), self.amounts[:-1, which].T.tolist(), strict=True):
            pool = self._jobs[index].pool
            given[pool] = add(given[pool], amounts) if pool in given else tuple(amounts)
        return given

    def of_jobs(self, wanted: Iterable[bool]) -> Mask:
        """Which are of jobs that are wanted, one value for each of the jobs."""
        return np.fromiter(wanted, dtype=np.bool_, count=len(self._jobs))[self._job]

    def held(self, which: Mask) -> I64:
        """[kinds + 1, hosts]: what some of them hold on each host."""
        amounts = np.zeros_like(self._hosts.used)
        host, held = self.host[which], self.amounts[:, which]
        for row, more in zip(amounts, held, strict=True):
            np.add.at(row, host, more)
        return amounts

    @cached_property
    def soon(self) -> I64:
        """[kinds + 1, hosts]: what those hold who are about to leave."""
        orders = [min(order, INT_MAX) for order, row in self._plans.orders.items() if row.until_ms > self._now]
        return self.held(self.asked | np.isin(self._leaving, np.array(orders, dtype=np.int32)))

    @cached_property
    def services(self) -> I64:
        """[kinds + 1, hosts]: what services hold, and aren't about to leave."""
        return self.held(self.of_jobs(row.service for row in self._jobs) & (self._leaving == 0))

    @cached_property
    def preemptible(self) -> I64:
        """[kinds + 1, hosts]: what batch work holds that is preemptible, or is about to leave."""
        return self.held(self.of_jobs(row.preemptible and not row.service for row in self._jobs) | (self._leaving > 0))

    @cached_property
    def _lost(self) -> I64:
        """For how many seconds each has been available."""
        since = self._runs.arena["available_s"][self.slots].astype(np.int64)
        return np.where(since > 0, np.maximum(elapsed(self._now) - since, 0), 0)

    # Comparing hosts.

    def ranked(self, board: Board, part: Part, taker: Taker, ways: tuple[int, ...]) -> list[int]:
        """The hosts on which a task might find a place, those that cost least first, as far as one sees from afar."""
        lack = np.maximum(np.array(part.need, dtype=np.int64)[:, None] - board.free, 0)
        asked = np.flatnonzero(part.need)
        worst = np.where((lack == 0).all(axis=0) & part.open_, -1, CLASSES_MAX)
        gives, lost, runs = np.zeros_like(lack), np.zeros_like(lack[0]), np.zeros_like(lack[0])
        for at, which in enumerate(self._by_class(board, taker, ways)):
            host = self.host[which]
            for kind in asked.tolist():
                np.add.at(gives[kind], host, self.amounts[kind, which])
            np.add.at(lost, host, self._lost[which])
            np.add.at(runs, host, 1)
            worst[(worst > at) & (gives >= lack).all(axis=0) & part.open_] = at
            board.work += len(host) // 64
        hosts = np.flatnonzero(worst < CLASSES_MAX)
        order = np.lexsort(
            (
                hosts,
                scores(lack[:, hosts], board.weight),
                lost[hosts] // np.maximum(runs[hosts], 1),
                worst[hosts],
            )
        )
        best = hosts[order][: CLOSE + 4 * part.size]
        self._look_at(best)
        ranked: list[int] = best.tolist()
        return ranked

    def _by_class(self, board: Board, taker: Taker, ways: tuple[int, ...]) -> Iterator[Mask]:
        """Which might leave for a gang, those of the class that leaves first before the others."""
        own = self.of_jobs(row.pool == taker.pool for row in self._jobs)
        lower = self.of_jobs(row.priority < taker.priority for row in self._jobs)
        gives = {pool for pool, giver in board.givers.items() if _may_give(giver, taker)}
        giving = self.of_jobs(row.pool in gives for row in self._jobs)
        borrowed = self._runs.arena["entitled"][self.slots] == BORROWED
        may = self.of_jobs(row.preemptible for row in self._jobs) & (self._leaving == 0) & ~self.asked
        first = may & np.where(own, lower | borrowed, giving)
        moves = Way.MOVE in ways and bool(taker.right.flags & Flag.MOVE)
        clears = Way.CLEAR in ways and bool(taker.right.flags & Flag.CLEAR)
        keys = [(row.priority, row.service) for row in self._jobs]
        index = {key: min(at, CLASSES_MAX // 2 - 1) for at, key in enumerate(sorted({*keys}))}
        job_class = np.array([index[key] for key in keys], dtype=np.int64)[self._job]
        for which in (first, may & ~first) if moves or clears else (first,):
            if which is not first and not moves:
                which = which & ~own
            for each in range(len({*index.values()})):
                yield which & (job_class == each)

    # Looking closely.

    def _look_at(self, hosts: I64) -> None:
        """Finds the runs on these hosts in one go."""
        looked = np.zeros(len(self._hosts.ids), dtype=np.bool_)
        looked[hosts] = True
        which = np.flatnonzero(looked[self.host])
        for host in hosts.tolist():
            self._on_host.setdefault(host, [])
        new = {host: slots for host, slots in self._on_host.items() if not slots and looked[host]}
        for slot, host in zip(self.slots[which].tolist(), self.host[which].tolist(), strict=True):
            if host in new:
                new[host].append(slot)

    def units_at(self, host: int) -> list[Unit]:
        """The units with a place on a host."""
        slots = self._on_host.get(host)
        if slots is None:
            slots = self._on_host[host] = self.slots[self.host == host].tolist()
        return list({unit.key: unit for unit in map(self._unit, slots)}.values())

    def _unit(self, slot: int) -> Unit:
        unit = self._units.get(slot)
        if unit is None:
            arena = self._runs.arena
            members = [one for one in self._runs.unit(slot).tolist() if arena["placed"][one]]
            unit = self._made(members)
            self._units.update(dict.fromkeys(members, unit))
        return unit

    def _made(self, members: list[int]) -> Unit:
        arena, runs = self._runs.arena, self._runs
        job_id = runs.waits.job_of(members[0])
        row = runs.jobs[job_id]
        instances = [slot - row.base for slot in members]
        controls = row.controller and instances == [0]
        unit = Unit(members[0], row.pool, row.priority, CONTROLLER if controls else SERVICE if row.service else BATCH)
        unit.preemptible, unit.slots = row.preemptible, members
        unit.borrowed = bool(arena["entitled"][members[0]] == BORROWED)
        for slot in members:
            number = int(arena["shape"][slot])
            shape, host = runs.shapes[number], int(arena["host"][slot]) - 1
            unit.shapes.append(number)
            have = unit.at.get(host, [0] * (len(shape.need) + 1))
            unit.at[host] = [one + more for one, more in zip(have, (*shape.need, shape.ports), strict=True)]
        unit.amount = tuple([sum(column) for column in zip(*unit.at.values(), strict=True)][:-1])
        since = arena["available_s"][members].tolist()
        unit.lost = sum(max(0, elapsed(self._now) - at) for at in since if at)
        self._remembered(unit, job_id, instances, members)
        return unit

    def _remembered(self, unit: Unit, job_id: str, instances: list[int], members: list[int]) -> None:
        """What was before: slices, caps, refusals, orders."""
        settings, arena, displaced = self._settings, self._runs.arena, self._displaced
        used = displaced.slices(job_id, instances)
        placed_ms = milliseconds(int(arena["placed_s"][members].max()))
        unit.slice_over = self._now - placed_ms >= slice_ms(settings.turn_for_ms, used, settings.turn_doublings)
        unit.capped = displaced.capped_ms(job_id, instances, self._now, settings.preemptions_per_hour) > 0
        if arena["leaving"][members].any() or any(slot in self._asked for slot in members):
            unit.code = Code.VICTIM_GONE
        elif displaced.spared_ms(job_id, instances, self._now):
            unit.code = Code.DEFERRED
        else:
            runs = zip(instances, arena["placed"][members].tolist(), strict=True)
            unit.code = next(
                filter(None, (self._plans.why_barred((job_id, one), run, self._now) for one, run in runs)), ""
            )


def _may_give(giver: Giver, taker: Taker) -> bool:
    """Whether a pool has anything in excess that a gang may take."""
    return any(
        need > 0 and have > 0 and other > 0
        for need, have, other in zip(taker.need, giver.excess, taker.right.others, strict=True)
    )
