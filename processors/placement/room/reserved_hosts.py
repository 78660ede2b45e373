"""The hosts that are reserved for a unit, a complete set with the least work to leave, and the amounts to keep there.

One decision, on what is free when all who have places are there.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import I64
from events.ranks import RESERVES
from events.records.placement import HostsReserved
from events.resources import Amounts
from processors.placement.assignment import Assignment, Unplaced
from processors.placement.explain import reason
from processors.placement.gang_search import Part
from processors.placement.packing import Mask, Weights, fits, scores
from processors.placement.room.board import BoardDevices
from processors.placement.room.kept import needed
from processors.placement.room.planner import Seen
from processors.placement.room.plans import Plans
from processors.placement.room.reservations import REASON, Reservations
from processors.placement.room.table import RoomRow, Task
from processors.placement.room.unit_parts import DeviceRooms, Rooms, ruled, ways_to_be
from processors.state.alternatives import NONE
from processors.state.budget import Budget
from processors.state.causes import CauseRow, recorded

TRIES_MAX = 8
"""For so many units hosts are looked for in one decision."""


class ReservedHosts:
    """Changes nothing."""

    def __init__(self, seen: Seen, reservations: Reservations, plans: Plans, budget: Budget) -> None:
        self._seen = seen
        self._reservations = reservations
        self._plans = plans
        self._budget = budget

    def kept(self, last_by: CauseRow | None) -> Iterator[HostsReserved]:
        """Says where other amounts are kept than was said last."""
        for task, row in self._reservations.present():
            own = self._seen.room.own.get(self._slot(task))
            if own is None:
                continue
            amounts = self._seen.hosts.kinds.amounts(own.amounts[:-1].sum(axis=1).tolist())
            if amounts != row.reported and self._budget.holds(len(row.hosts)):
                self._budget.spend(len(row.hosts))
                yield said(task, row, Code.RESERVED, amounts, last_by)

    def new(self, assignment: Assignment, for_ms: int, last_by: CauseRow | None) -> HostsReserved | None:
        """Reserves hosts for the first unit that has waited long enough and may have some."""
        most = int(self._seen.hosts.up.sum()) // 10
        have = self._reservations.hosts_reserved
        if have >= max(1, most):
            return None
        tried: set[object] = set()
        since_s = self._reservations.wait.since_s(self._seen.now)
        for unplaced in assignment.unplaced:
            if unplaced.rank not in RESERVES or unplaced.code is not None or unplaced.parts in tried:
                continue
            task = self._first(assignment, unplaced, since_s)
            if task is None:
                continue
            tried.add(unplaced.parts)
            row = self._row(task, unplaced, self._seen.now + for_ms)
            hosts = len({*row.hosts}) if row else 0
            if row is not None and (not have or have + hosts <= most) and self._budget.holds(hosts):
                self._budget.spend(hosts)
                return said(task, row, Code.RESERVED, row.reported, last_by)
            if len(tried) == TRIES_MAX:
                break
        return None

    def _first(self, assignment: Assignment, unplaced: Unplaced, since_s: int) -> Task | None:
        """The first unit that has waited long enough and has neither plan nor reservation."""
        arena, base = self._seen.runs.arena, unplaced.row.base
        slots = assignment.slots(unplaced)
        for slot in slots[arena["since"][slots] <= since_s].tolist():
            task = (unplaced.tasks.job_id, slot - base)
            if not (
                slot in self._seen.room.own
                or self._plans.has(task)
                or self._reservations.has(task)
                or self._reservations.is_paused(task, self._seen.now)
            ):
                return task
            if unplaced.gang:
                break
        return None

    def _row(self, task: Task, unplaced: Unplaced, until_ms: int) -> RoomRow | None:
        """A complete set of hosts for a unit, least to leave first; None: there is none."""
        seen = self._seen
        physical = seen.view.free + seen.view.kept
        ground = Ground(
            physical - needed(seen.hosts, seen.holds),
            seen.hosts.used - seen.victims.services,
            seen.victims.preemptible,
            seen.view.lack_weight,
            lambda: BoardDevices(seen.hosts.devices, self._devices_of, self._devices_of),
        )
        blocked = self._reservations.blocked(seen.now)
        blocked[seen.holds.hosts] = True  # or an older unit would have what others leave for a younger one
        job_id, passed, ways = unplaced.tasks.job_id, list[str](), seen.view.ways(unplaced.parts)
        for at, shapes in enumerate(ways):
            parts = [shape.part(tasks)._replace(devices=shape.devices) for shape, tasks in shapes]
            parts = ruled(seen.view, job_id, shapes, parts, clears=False) or parts
            if parts[0].near is not None:  # or groups would be chosen that can't be reserved
                parts = [part._replace(open_=part.open_ & ~blocked) for part in parts]
            of_groups = ways_to_be(parts, self._rooms(ground))
            # a whole host kept for parts of cards would leave what others find room on idle
            of_shares = all(part.devices is not None and part.devices.is_share for part in parts)
            sets = (complete_set(ground, each, blocked) for each in of_groups if not of_shares)
            if places := next(filter(None, sets), None):
                break
            if at + 1 < len(ways):
                passed.append(reason(seen.view, shapes, None, seen.view.neighbours_of(job_id)).code)
        else:
            return None
        need = np.zeros_like(physical)
        for host, part, tasks in places:
            need[:, host] += np.array(parts[part].need, dtype=np.int64) * tasks
        amounts = np.minimum(np.maximum(seen.view.free, 0), need)[:-1].sum(axis=1)
        return RoomRow(
            count=sum(part.size for part in parts),
            run=int(seen.runs.arena["waiting"][self._slot(task)]),
            hosts=[seen.hosts.ids[host] for host, _, _ in places],
            tasks=[tasks for _, _, tasks in places],
            shapes=[part for _, part, _ in places],
            reason=REASON,
            until_ms=until_ms,
            reported=seen.hosts.kinds.amounts(amounts.tolist()),
            alternative=at if len(ways) > 1 else NONE,
            passed=tuple(passed),
        )

    def _rooms(self, ground: "Ground") -> Rooms:
        """The tasks that hosts hold, and those that they would if all batch work had left."""
        seen = self._seen
        if seen.view.devices is None:
            return Rooms(ground.free, lambda: ground.leaves)
        now = partial(seen.view.devices.after_leaving, slots=(), holds=())
        of_now = BoardDevices(seen.hosts.devices, now, now)
        rooms = DeviceRooms(of_now.tasks, ground.devices().tasks, seen.hosts.devices.link_groups_of)
        return Rooms(ground.free, lambda: ground.leaves, rooms)

    def _devices_of(self, host: int) -> int:
        """The state of the devices of a host when all batch work has left, and holders of room there have come."""
        seen, devices = self._seen, self._seen.view.devices
        assert devices is not None
        leave = [slot for slot in seen.hosts.devices.of(host) if slot not in seen.victims.serving]
        return devices.after_leaving(host, leave, seen.holds.devices_at.get(host, ()))

    def _slot(self, task: Task) -> int:
        return self._seen.runs.jobs[task[0]].base + task[1]


def said(task: Task, row: RoomRow, state: str, amounts: Amounts, last_by: CauseRow | None) -> HostsReserved:
    """The decision about a reservation."""
    return HostsReserved.pack(
        job_id=task[0],
        first=task[1],
        count=row.count,
        run=row.run,
        host_ids=tuple(row.hosts),
        tasks=row.tasks,
        shape=row.shapes,
        kept=amounts,
        state=state,
        until_ms=row.until_ms,
        alternative=row.alternative,
        passed_codes=row.passed,
        cause=recorded(last_by),
    )


Amount = tuple[int, int]
"""The work that has to leave, scored: the part that isn't preemptible, and all."""


class Ground(NamedTuple):
    """The amounts on the hosts, [kinds + 1, hosts] each."""

    free: I64
    """Free and not held for others; below 0 where more is held than is free."""
    leaves: I64
    """Free when all batch work has left."""
    preemptible: I64
    """The part of that which is preemptible."""
    weight: Weights
    devices: Callable[[], BoardDevices]
    """The devices of hosts when all batch work has left."""


def complete_set(ground: Ground, parts: Sequence[Part], blocked: Mask) -> list[tuple[int, int, int]] | None:
    """Host, index of the part and tasks, so that all parts of a unit fit when batch work has left these hosts; None:
    there aren't enough. Where least has to leave that isn't preemptible, then where least has to leave.
    """
    put, devices = np.zeros_like(ground.free), ground.devices()
    places: dict[tuple[int, int], int] = {}
    for index in sorted(range(len(parts)), key=lambda at: -parts[at].score):
        part, shape = parts[index], 0 if parts[index].segments is not None else index
        room = np.zeros(len(put[0]), dtype=np.int64)
        open_ = np.flatnonzero(part.open_ & ~blocked)
        room[open_] = fits(ground.free + ground.leaves - put, part.need, open_, min(part.size, part.most))
        if part.devices is not None:
            for host in np.flatnonzero(room).tolist():
                room[host] = devices.tasks(host, part.devices, int(room[host]))
        if int(room.sum()) < part.size:
            return None
        need = np.array(part.need, dtype=np.int64)
        hosts = _cheapest(ground, put, need, np.flatnonzero(room))[: part.size]
        heap = [(_more(ground, put, need, host), host) for host in hosts]
        heapify(heap)
        for _ in range(part.size):
            _, host = heappop(heap)
            places[host, shape] = places.get((host, shape), 0) + 1
            put[:, host] += need
            if part.devices is not None:
                devices.states[host] = devices.after_task(devices.of(host), part.devices)
            room[host] -= 1
            if room[host]:
                heappush(heap, (_more(ground, put, need, host), host))
    return [(host, part, tasks) for (host, part), tasks in sorted(places.items())]


def _cheapest(ground: Ground, put: I64, need: I64, hosts: I64) -> list[int]:
    """Hosts by what has to leave for one task more."""
    lack, firm = _lack(ground, put[:, hosts] + need[:, None], hosts)
    cheapest: list[int] = hosts[np.lexsort((hosts, lack, firm))].tolist()
    return cheapest


def _more(ground: Ground, put: I64, need: I64, host: int) -> Amount:
    """The work that has to leave in addition for one task more."""
    at = np.array([host, host])
    lack, firm = _lack(ground, np.stack([put[:, host], put[:, host] + need], axis=1), at)
    return int(firm[1] - firm[0]), int(lack[1] - lack[0])


def _lack(ground: Ground, put: I64, hosts: I64) -> tuple[I64, I64]:
    """The work that has to leave for tasks put on hosts, and the part of it that isn't preemptible, scored."""
    lack = np.maximum(put - np.maximum(ground.free[:, hosts], 0), 0)
    return scores(lack, ground.weight), scores(np.maximum(lack - ground.preemptible[:, hosts], 0), ground.weight)
