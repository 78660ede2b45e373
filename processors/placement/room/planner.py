"""Plans of preemption for units that have a right and found no place.

One decision, on what is free when all who have places have been put there. Rights that are due are tried in the order
of admission, within a bound of work: first whom the right lets leave, then who can be moved, then who can be cleared
away (`WAYS`). A unit like one for which there is no plan isn't tried again.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby, product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from events.codes import Code, Way
from events.columns import I64, Names, distinct
from events.ranks import are_entitled
from events.records.placement import PreemptionAsked
from events.resources import Vector, scale
from processors.placement.cluster_view import ClusterView
from processors.placement.devices.needs import DeviceNeed
from processors.placement.explain import reason
from processors.placement.gang_search import Part
from processors.placement.hosts import Hosts
from processors.placement.neighbours import FREE
from processors.placement.packing import Mask, have_room
from processors.placement.rights import RightRow, Rights
from processors.placement.room.board import Board, BoardDevices, Draft, Taker, Unit
from processors.placement.room.kept import Holding, KeptRoom, OwnRoom, needed, shapes_of_unit
from processors.placement.room.plans import Plans
from processors.placement.room.search import WAYS, Judged, Plan, Search, Ways, find_plan
from processors.placement.room.table import Task
from processors.placement.room.unit_parts import DeviceRooms, Rooms, planned, ruled, ways_to_be
from processors.placement.room.victims import Victims
from processors.placement.rows import JobRow
from processors.placement.runs import NOWHERE, Runs
from processors.placement.shape_view import Parts, ShapeView
from processors.state.alternatives import NONE, most_of
from processors.state.budget import Budget
from processors.state.causes import recorded
from processors.state.preemption_rules import Flag

WORK_MAX = 10_000
"""So many units are looked at in one decision, or those of one right; the other rights have their turn in the next."""
IN_VAIN_MAX = 61
"""The most tasks of a daemon for which one decision looks for plans and finds none. A prime: wherever work ends a try,
each task is the first of one.
"""
ASKS_MAX = 512
"""So many asks are decided at once; what others answer meanwhile is seen by the next."""


class Seen(NamedTuple):
    """The state that one decision sees."""

    runs: Runs
    hosts: Hosts
    view: ClusterView
    """The free amounts when all that found a place were put there."""
    holds: Holding
    room: KeptRoom
    victims: Victims
    now: int


class Made(NamedTuple):
    """A plan that was made for a unit."""

    plan: Plan
    draft: Draft
    alternative: int
    """The alternative by which the unit fits; NONE: it has only one request."""
    passed: tuple[str, ...]
    """Why it finds no place by those before it."""


class Planner:
    """Tries rights. Changes nothing."""

    def __init__(self, seen: Seen, rights: Rights, plans: Plans, budget: Budget) -> None:
        self.tried_ms = seen.now
        """Up to then all rights that were due were tried."""
        self._seen = seen
        self._rights = rights
        self._plans = plans
        self._budget = budget
        self._asks = 0
        self._giving: int | None = None
        """The first slot of the unit that has the devices which are held for it."""
        self._planned_hosts: set[int] = set()
        """Hosts on which plans of this decision put tasks."""
        self._board: Board | None = None
        self._failed: set[tuple[object, ...]] = set()
        self._ruled: dict[str, None] = {}
        """Jobs whose tasks look at their neighbours, for one of which a plan was looked for."""
        self._searches: dict[tuple[object, ...], list[Search]] = {}
        self._judged: dict[tuple[object, ...], dict[int, Judged]] = {}

    def asks(self) -> Iterator[PreemptionAsked]:
        """Asks for the rights that are due, as far as budget and work go."""
        for try_ms, group in groupby(self._rights.due(self._seen.now), key=itemgetter(0)):
            if self._board is not None and self._board.work >= WORK_MAX:
                return
            for task in sorted((task for _, task in group), key=self._admission):
                yield from self._range(task, self._rights.table[task])
            if self._budget.cut:
                self.tried_ms = try_ms - 1
                return
            self.tried_ms = try_ms
        self.tried_ms = self._seen.now

    def _admission(self, task: Task) -> tuple[int, Task]:
        """The order in which units are served."""
        job = self._seen.runs.jobs.get(task[0])
        exists = job is not None and task[1] < job.instances
        return int(self._seen.runs.arena["admission"][job.base + task[1]]) if job and exists else 0, task

    def _range(self, task: Task, row: RightRow) -> Iterator[PreemptionAsked]:
        """Asks for the units of a range that wait and have no plan."""
        size, bound, in_vain = row.count if row.gang else 1, self._is_bound(task[0]), 0
        for ahead in self._ahead(task, row):
            unit = (task[0], task[1] + ahead)
            if self._plans.why_barred(unit, row.run, self._seen.now):  # refused just now, for what limits leave
                continue
            if not self._budget.holds(1):
                return
            plan = self._plan(unit, size, ahead, row)
            if plan is None:
                in_vain += 1
                if not bound or in_vain >= IN_VAIN_MAX:
                    return  # the next one is like it, or has its turn when this range is tried again
            elif plan.plan.picks:
                event = self._asked(unit, size, row, plan)
                units = len(plan.plan.places) + len(event.instance) // 4
                if not self._budget.holds(units):
                    return
                self._budget.spend(units)
                yield event
                self._asks += 1
                if self._asks >= ASKS_MAX:
                    self._budget.cut = True
            if self._on_board().work >= WORK_MAX:
                return

    def _is_bound(self, job_id: str) -> bool:
        """Whether tasks of a job are bound to hosts."""
        job = self._seen.runs.jobs.get(job_id)
        return job is not None and job.bound

    def _ahead(self, task: Task, row: RightRow) -> list[int]:
        """The units of a range that wait and have no plan, by how many are ahead of each. Of tasks that are bound to
        hosts those for which there may be room, with each try from another one on.
        """
        (job_id, first), runs = task, self._seen.runs
        job, count = runs.jobs.get(job_id), 1 if row.gang else row.count
        if job is None or first >= job.instances:
            return []
        slots = np.arange(job.base + first, job.base + min(first + count, job.instances))
        waits = (runs.arena["waiting"][slots] == row.run) & are_entitled(runs.arena["rank"][slots])
        waits[[one - first for one in self._plans.within(job_id, first, len(slots))]] = False
        if job.bound and not row.gang:
            waits[waits] = self._may_have_room(slots[waits])
        waiting = np.flatnonzero(waits)
        if job.bound:
            waiting = np.roll(waiting, -int(np.searchsorted(waiting, row.tries * IN_VAIN_MAX % row.count)))
        ahead: list[int] = waiting.tolist()
        return ahead

    def _may_have_room(self, slots: I64) -> Mask:
        """True for tasks that would fit if all left that may be preempted by somebody: those that aren't bound to a
        host, or whose hosts take them.
        """
        arena, board, may_fit = self._seen.runs.arena, self._on_board(), np.ones(len(slots), dtype=np.bool_)
        pin, shapes = arena["pin"][slots].astype(np.int64), arena["shape"][slots]
        may_fit[pin == NOWHERE] = False
        room = board.free + self._seen.victims.leavable
        for number in distinct(shapes).tolist():
            mine = np.flatnonzero((shapes == number) & (pin > 0) & may_fit)
            shape = self._seen.view.shape(number)
            takes = self._seen.hosts.heard & ~shape.mismatch & self._seen.view.unclaimed(shape.fixed_ports)
            fit = takes & have_room(room, shape.column)
            may_fit[mine] = fit[pin[mine] - 1]
        return may_fit

    def _plan(self, unit: Task, size: int, ahead: int, row: RightRow) -> Made | None:
        """A plan for a unit, on the board from now on: by the first of its alternatives for which there is one."""
        runs = self._seen.runs
        job, slot = runs.jobs[unit[0]], runs.jobs[unit[0]].base + unit[1]
        parts = self._parts(slot, size)
        neighbours = self._seen.view.neighbours_of(unit[0]) if parts[0][0].host is None else None
        ruled = neighbours is not None and neighbours.are_ruled
        if ruled:
            if unit[0] in self._ruled or any(self._plans.within(unit[0], 0, job.instances)):
                return None  # where one goes decides where the next may: one after another
            self._ruled[unit[0]] = None
        spread = unit[0] if any(shape.spread for shape, _ in parts) else ""
        alike = (
            row.pool,
            job.precedence,
            row.flags,
            spread,
            unit[0] if ruled else "",
            *((shape.number, shape.host, tasks) for shape, tasks in parts),
        )
        own = self._seen.room.own.get(slot)
        if alike in self._failed and own is None:
            return None
        members = sum(tasks for _, tasks in parts)
        needs = [scale(self._need(shape, members), tasks) for shape, tasks in parts]
        need: Vector = tuple(map(sum, zip(*needs, strict=True)))
        revocable = self._seen.hosts.kinds.is_revocable(need)
        taker = Taker(row.pool, job.precedence, need, self._rights.right(row, ahead, need), revocable)
        board = self._on_board()
        if own is not None:
            board.give(own.hosts, own.needs, own.amounts)
            self._give_devices(own.slot, own.hosts)
        clears = row.flags & (Flag.CLEAR | Flag.DAEMON)
        of_flags, alternatives = WAYS[: 3 if clears else 2 if row.flags & Flag.MOVE else 1], self._seen.view.ways(parts)
        for number, parts_of in enumerate(alternatives):
            of_unit = self._planned(unit[0], parts_of, own)
            of_groups = [*ways_to_be(of_unit, self._rooms(board))]
            for ways, (at, of_group) in product(of_flags, enumerate(of_groups)):
                draft, key = Draft(board, taker), (*alike, number, ways, at)
                plan = find_plan(draft, of_group, self._search(key, parts_of, of_group, taker, ways, job, own))
                if plan is not None:  # the room that was held for the unit is anybody's now
                    self._hold(unit[0], parts_of, plan)
                    self._planned_hosts |= {host for host, _, _ in plan.places}
                    self._giving = None
                    passed = tuple(self._why(unit[0], each) for each in alternatives[:number])
                    return Made(plan, draft, number if len(alternatives) > 1 else NONE, passed)
                self._searches.pop(key, None)
        if own is not None:
            board.give(own.hosts, -own.needs, -own.amounts)
            self._give_devices(None, own.hosts)
        self._failed.add(alike)
        return None

    def _give_devices(self, slot: int | None, hosts: I64) -> None:
        """The devices that are held on hosts for a unit, by its first slot, are free for its plan; None: for no unit.
        Where another plan counts on them they stay held.
        """
        self._giving = slot
        devices = self._on_board().devices
        if devices is not None:
            for host in {*hosts.tolist()} - self._planned_hosts:
                devices.forget(host)

    def _need(self, shape: ShapeView, members: int) -> Vector:
        """The amounts that a waiting task of a unit with so many holds of its pool: the most that one of its
        alternatives asks that hosts could hold.
        """
        if not shape.has_others:
            return shape.need[:-1]
        needs: list[Vector] = [each.need[:-1] for each in self._seen.view.alternatives(shape)]
        return most_of(needs, members, self._seen.hosts.may_fit)

    def _why(self, job_id: str, parts: Parts) -> str:
        """The reason code of tasks that find no place by one of their alternatives."""
        view = self._seen.view
        return reason(view, parts, None, view.neighbours_of(job_id)).code

    def _hold(self, job_id: str, parts: Parts, plan: Plan) -> None:
        """A plan is made: rules about neighbours count its unit as there."""
        if not self._seen.runs.shapes.ruled:
            return
        view = self._seen.view
        for host, part, _ in plan.places:
            view.arrivals.setdefault(job_id, []).append((parts[part][0].number, np.array([host])))
            if parts[part][0].exclusive:
                view.claim_arrivals(np.array([host]))
                self._searches, self._judged = {}, {}  # others may look at it no more

    def _parts(self, slot: int, size: int) -> Parts:
        """So many tasks of which shape a unit has."""
        runs = self._seen.runs
        numbers, job = runs.arena["shape"][slot : slot + size], runs.jobs[runs.waits.job_of(slot)]
        if size == 1 and (pin := int(runs.arena["pin"][slot])) > 0:
            return ((self._seen.view.shape(int(numbers[0]), job, pin - 1), 1),)
        shapes = shapes_of_unit(runs, slot, size)
        return tuple((self._seen.view.shape(number, job), int((numbers == number).sum())) for number in shapes)

    def _planned(self, job_id: str, parts: Parts, own: OwnRoom | None) -> list[Part]:
        """The parts of a unit for which others may be preempted."""
        view = self._seen.view
        all_parts = [planned(view, shape, tasks, own) for shape, tasks in parts]
        return ruled(view, job_id, parts, all_parts, clears=True) or all_parts

    def _search(
        self,
        key: tuple[object, ...],
        parts: Parts,
        of_unit: Sequence[Part],
        taker: Taker,
        ways: Ways,
        job: JobRow,
        own: OwnRoom | None,
    ) -> list[Search]:
        """Searches for the parts of a unit, those that ask most first; for units that are alike they go on, and look at
        the hosts on which room is held for a unit once more.
        """
        goes_on = own is None or not any(shape.fixed_ports for shape, _ in parts)
        if goes_on and key in self._searches:
            if own is not None:
                for search in self._searches[key]:
                    search.look_at(own.hosts.tolist())
            return self._searches[key]
        board, victims = self._on_board(), self._seen.victims
        level = self._level(job) if any(shape.spread for shape, _ in parts) else None
        of_shape = [0] * len(of_unit) if of_unit[0].segments is not None else range(len(parts))
        order = sorted(range(len(of_unit)), key=lambda at: -parts[of_shape[at]][0].score)
        done = list[Search]()
        judged = self._judged.setdefault(key, {})
        memory = judged if goes_on and len(parts) == 1 else None
        for at in order:
            part, shape_at = of_unit[at], of_shape[at]
            host = parts[shape_at][0].host
            hosts = victims.ranked(board, part, taker, ways) if host is None else [host]
            done.append(Search(board, part, shape_at, hosts, ways, level, memory))
        if goes_on:
            self._searches[key] = done
        return done

    def _level(self, job: JobRow) -> I64:
        """Counts the tasks of a job on each host."""
        host = self._seen.runs.arena["host"][job.base : job.base + job.instances]
        return np.bincount(host[host > 0] - 1, minlength=len(self._seen.hosts.ids))

    def _on_board(self) -> Board:
        if self._board is None:
            seen = self._seen
            free = seen.view.free + seen.view.kept + seen.victims.soon - needed(seen.hosts, seen.holds)
            self._board = Board(
                free,
                seen.view.free.copy(),
                seen.view.lack_weight,
                self._rights.all_givers(seen.victims.asked_of()),
                seen.victims.units_at,
                self._task_of,
                seen.victims.holders,
                BoardDevices(seen.hosts.devices, self._devices_of, self._devices_now)
                if seen.view.devices is not None
                else None,
            )
        return self._board

    def _rooms(self, board: Board) -> Rooms:
        """The tasks that hosts hold on the board, and if all left who may be asked."""
        hosts, victims = self._seen.hosts, self._seen.victims
        if board.devices is None:
            return Rooms(board.free, lambda: victims.leavable)
        may_go = cache(lambda: {*victims.may_go.tolist()})

        def left(host: int) -> int:
            return self._devices_without(host, [slot for slot in hosts.devices.of(host) if slot in may_go()])

        rooms = DeviceRooms(
            board.devices.tasks, BoardDevices(hosts.devices, left, left).tasks, hosts.devices.link_groups_of
        )
        return Rooms(board.free, lambda: victims.leavable, rooms)

    def _devices_of(self, host: int) -> int:
        """The state of the devices of a host when all have left who must, and those have come for whom room is held."""
        seen = self._seen
        return self._devices_without(host, [slot for slot in seen.hosts.devices.of(host) if seen.victims.leaves(slot)])

    def _devices_now(self, host: int) -> int:
        """The same before anybody has left."""
        return self._devices_without(host, [])

    def _devices_without(self, host: int, leave: Sequence[int]) -> int:
        devices = self._seen.view.devices
        assert devices is not None
        holds = self._seen.holds.devices_at.get(host, ())
        if self._giving is not None:
            others = (of_unit for slot, of_unit in self._seen.holds.devices.items() if slot != self._giving)
            holds = tuple(each for of_unit in others for each in of_unit if each[0] == host)
        return devices.after_leaving(host, leave, holds)

    def _task_of(self, number: int, slots: Sequence[int]) -> tuple[Vector, Mask, DeviceNeed | None]:
        job_id = self._seen.runs.waits.job_of(slots[0])
        shape = self._seen.view.shape(number, self._seen.runs.jobs[job_id])
        neighbours = self._seen.view.neighbours_of(job_id)
        if neighbours is None:
            return shape.need, shape.open, shape.devices
        if len(slots) > 1:  # where one goes decides where the next may
            return shape.need, np.zeros_like(shape.open), None
        free = neighbours.of(shape.rules, shape.unmet, shape.column).why() == FREE
        return shape.need, shape.open & free, shape.devices

    def _asked(self, unit: Task, size: int, row: RightRow, result: Made) -> PreemptionAsked:
        runs, names, plan = self._seen.runs, Names(), result.plan
        ways = [pick.way for pick in plan.picks for _ in pick.unit.slots]
        slots = [slot for pick in plan.picks for slot in pick.unit.slots]
        jobs = [runs.waits.job_of(slot) for slot in slots]
        return PreemptionAsked.pack(
            job_id=unit[0],
            first=unit[1],
            count=size,
            run=row.run,
            host_ids=tuple(self._seen.hosts.ids[host] for host, _, _ in plan.places),
            tasks=[tasks for _, _, tasks in plan.places],
            shape=[part for _, part, _ in plan.places],
            job=[names[job_id] for job_id in jobs],
            job_ids=names.all(),
            instance=[slot - runs.jobs[job_id].base for slot, job_id in zip(slots, jobs, strict=True)],
            victim_run=runs.arena["placed"][slots],
            way=ways,
            spared=self._spared(plan, result.draft),
            alternative=result.alternative,
            passed_codes=result.passed,
            cause=recorded(row.by),
        )

    def _spared(self, plan: Plan, draft: Draft) -> dict[str, int]:
        """Runs on the hosts of a plan that stay: how many by which code."""
        leave = {pick.unit.key for pick in plan.picks}
        stay: dict[int, Unit] = {}
        for host in dict.fromkeys(host for host, _, _ in plan.places):
            stay.update((unit.key, unit) for unit in self._seen.victims.units_at(host) if unit.key not in leave)
        counts: dict[str, int] = {}
        codes: dict[tuple[object, ...], str] = {}
        for unit in stay.values():
            alike = (unit.pool, unit.priority, unit.borrowed, unit.amount, unit.preemptible, unit.protection)
            code = unit.code or codes.get(alike)
            if code is None:
                others = Way.CLEAR if draft.taker.right.flags & Flag.DAEMON else Way.GIVE
                way = Way.OWN if unit.pool == draft.taker.pool else others
                code = codes[alike] = draft.verdict(unit, way).code or Code.NOT_NEEDED.value
            counts[code] = counts.get(code, 0) + len(unit.slots)
        return dict(sorted(counts.items()))
