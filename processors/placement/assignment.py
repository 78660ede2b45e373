"""Where waiting tasks go: in the order in which they are served, onto the view.

An older claim doesn't block a younger one that fits. What found no place is not tried again in the same decision, nor
is what asks the same.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from events.choices import SCORE_ONE, choice_columns
from events.codes import Code
from events.columns import I64, Names, distinct, indexed
from events.device_columns import RunDevice, device_fields
from events.ranks import Rank
from events.records.placement import TasksPlaced
from events.topology import LINK_GROUP
from processors.placement import bound_tasks
from processors.placement.cluster_view import ClusterView
from processors.placement.devices.host_devices import Held
from processors.placement.explain import reason
from processors.placement.host_tree import along_the_tree
from processors.placement.hosts import Hosts
from processors.placement.neighbours import Neighbours, Seen, are_ruled, at_home
from processors.placement.packing import SCORE, Scoring, scores
from processors.placement.room.arrivals import arrivals_of, arrive_alone
from processors.placement.room.kept import KeptRoom, OwnRoom
from processors.placement.room.parked import Found, MayAsk
from processors.placement.rows import BOUND_CODES, GANG, JobRow, bound_as
from processors.placement.runs import NOWHERE, Runs
from processors.placement.shape_view import Parts, ShapeView
from processors.placement.states import WAITED_FOR
from processors.placement.waits import Range
from processors.state.alternatives import NONE
from processors.state.budget import Budget
from processors.state.shapes import MIXED

Way = Callable[[Range, JobRow, int, I64, I64 | None], I64]
"""Puts tasks of a range on hosts, of its job, at a rank: ascending slots, and how many tasks of the job each host has,
where they are spread. Returns those that are left to the next way.
"""


class Unplaced(NamedTuple):
    """Tasks admitted together that found no place: a gang, or such as are placed one by one and ask the same."""

    tasks: Range
    row: JobRow
    rank: int
    parts: Parts
    """The tasks that must fit together: so many of each shape, one of one shape where each is placed alone."""
    some: I64 | None
    """Their slots; None: all tasks of the range that wait at this rank."""
    gang: bool
    own: OwnRoom | None = None
    """The room that is kept for it."""
    home: bool = False
    """It waits for its host, which is kept for it and takes nothing now."""
    code: Code | None = None
    """The reason why hosts don't take tasks that are bound to them."""

    @property
    def reported_as(self) -> int:
        """The key by which their code is reported."""
        if self.code is not None:
            return bound_as(self.code)
        return GANG if self.gang else self.parts[0][0].number


class Placed(NamedTuple):
    """Tasks of a job and one shape that were put on the view."""

    job_id: str
    shape: int
    slots: I64
    hosts: I64
    ports: int
    """The number of ports that each has."""
    numbers: tuple[int, ...]
    """the number of each, 0: any; empty: any for all."""
    strategy: int
    scoring: Scoring | None
    free: I64
    """The amounts that the host of the first of them had free for them."""
    feasible: int
    """Hosts that had room."""
    devices: list[Held]
    """The devices of each; empty: none have any."""
    alternative: int
    """The alternative that they took; NONE: they have only one request."""
    passed_over: str = ""
    """Why those before it weren't taken, with commas."""


class Fitting(NamedTuple):
    """A unit on the view: its parts by an alternative, and the hosts of each."""

    parts: Parts
    by_part: list[I64]
    alternative: int
    """The alternative by which it fits; NONE: it has only one request."""
    passed_over: tuple[str, ...]
    """Why it doesn't by those before."""


class Assignment:
    """One decision. Reads runs and hosts, changes neither."""

    def __init__(self, runs: Runs, hosts: Hosts, kept_room: KeptRoom, budget: Budget, may_ask: MayAsk) -> None:
        self.view = ClusterView(hosts, runs.shapes, kept_room)
        self.unplaced: list[Unplaced] = []
        """Tasks that were tried and found no place, in the order in which they are served."""
        self.parked: list[Found] = []
        """Parked units that found a place and ask for it."""
        self._runs = runs
        self._hosts = hosts
        self._may_ask = may_ask
        self._own = kept_room.own
        self._kept_ports: dict[int, set[int]] = {}
        for port, numbers in kept_room.ports.items():
            for number in numbers:
                self._kept_ports.setdefault(number, set()).add(port)
        self._own_jobs = set(runs.waits.jobs_of(np.fromiter(kept_room.own, dtype=np.int64)))
        self._budget = budget
        self._waiting = runs.arena["waiting"]
        self._placed: dict[str, list[Placed]] = {}
        """By job."""
        self.view.neighbours_of = self.neighbours
        self._has_rules = bool(runs.shapes.ruled or runs.windows.emptying or self.view.devices is not None)
        """Whether anything depends on neighbours, devices or windows."""
        self._keep_homes()
        self._claim_hosts()
        self._seen = Seen(runs, hosts, self.view.arrivals, self.view.devices)

    def neighbours(self, job_id: str) -> Neighbours | None:
        """The neighbours of the tasks of a job as they are now; None: nothing depends on them."""
        if not self._has_rules:
            return None
        row = self._runs.jobs[job_id]
        is_ruled = are_ruled(self._seen, row) or (
            self.view.devices is not None
            and any(self.view.shape(number, row).looks_at_devices for number in row.shapes)
        )
        return Neighbours(self._seen, job_id, row) if is_ruled else None

    def _keep_homes(self) -> None:
        """Keeps devices for tasks that have a home."""
        devices, arena = self.view.devices, self._runs.arena
        if devices is None or not self._runs.homes.tasks:
            return
        for slot in np.flatnonzero(arena["home"]).tolist():
            need = self.view.shape(int(arena["shape"][slot])).devices
            if need is not None:
                devices.keep(slot, int(arena["home"][slot]) - 1, need)

    def _claim_hosts(self) -> None:
        """Closes the hosts of tasks that want them for themselves."""
        shapes = self._runs.shapes
        numbers = [number for number in shapes.ruled if (rules := shapes[number].rules) and rules.exclusive]
        if shapes.ruled:
            self.view.arrivals = arrivals_of(self._runs, self._own)
            self.view.claim_arrivals(arrive_alone(self._runs, self.view.arrivals))
        if numbers:
            slots = np.flatnonzero(np.isin(self._runs.arena["shape"], numbers) & (self._runs.arena["host"] > 0))
            hosts, placed = self._runs.arena["host"][slots].astype(np.int64) - 1, self._runs.arena["placed"][slots] > 0
            self.view.claimed(slots[placed], hosts[placed])
            self.view.claim(distinct(hosts[~placed]))

    def place(self) -> TasksPlaced | None:
        """Puts what waits on the view, as far as the budget goes."""
        for rank, tasks in self._runs.waits.in_order():
            if self._budget.left <= 0:
                self._budget.cut = True
            if self._budget.cut:
                break
            row = self._runs.jobs[tasks.job_id]
            if rank == Rank.PARKED:
                self._parked(tasks, row)
            elif rank == Rank.PARKING:
                continue
            elif row.in_gang(tasks.first):
                self._gang(tasks, row, rank)
            else:
                self._range(tasks, row, rank)
        return self._record() if self._placed else None

    def slots(self, unplaced: Unplaced) -> I64:
        """The tasks that found no place, ascending."""
        return self._runs.waits.slots(unplaced.rank, unplaced.tasks) if unplaced.some is None else unplaced.some

    @property
    def placed(self) -> Iterator[Placed]:
        """The tasks that were put on the view."""
        return (one for parts in self._placed.values() for one in parts)

    def _range(self, tasks: Range, row: JobRow, rank: int) -> None:
        """Puts tasks admitted together on the view, one by one, shape by shape."""
        has_homes = tasks.job_id in self._runs.homes.tasks
        shortcut = row.shape != MIXED and tasks.job_id not in self._own_jobs
        if shortcut and not has_homes and not row.bound:
            shape = self.view.shape(row.shape, row)
            if self.view.is_hopeless(shape, 1):
                self.unplaced.append(Unplaced(tasks, row, rank, ((shape, 1),), None, False))
                return
        slots = self._runs.waits.slots(rank, tasks)
        level = self._level(tasks.job_id, row)
        for way in self._ways(tasks.job_id, row):
            slots = way(tasks, row, rank, slots, level)

    def _ways(self, job_id: str, row: JobRow) -> list[Way]:
        """The ways in which tasks that are placed one by one come to a host, in their order. Each returns the tasks for
        which it has neither a place nor a reason, and these go the next way.

        1. The room that is kept for a unit: others have left for it, or it was reserved, and nobody else may use it.
        2. The home of a task whose run ended to go on: it is kept too, for two minutes, and tasks with a home take
           nothing of what is free, so they go before all who do.
        3. The one host that a task is bound to: it has no other, and those who have a choice would take its room.
        4. Any host but the one that couldn't start it, which the tasks behind it may still use.
        5. Any host that has room, by the strategy of the job.

        Who has found none waits, and if it is entitled others may be preempted: those of pools that hold too much,
        then who can be moved, then who is cleared away (`room/search.WAYS`). Where nobody may be preempted, hosts are
        reserved for it (`room/reserved_hosts.py`), as that costs nobody work and takes longest.
        """
        ways: list[Way] = []
        if job_id in self._own_jobs:
            ways.append(self._with_own)
        if job_id in self._runs.homes.tasks:
            ways.append(self._at_home)
        if row.bound:
            ways.append(self._bound)
        if job_id in self._runs.elsewhere:
            ways.append(self._elsewhere)
        return [*ways, self._anywhere]

    def _anywhere(self, tasks: Range, row: JobRow, rank: int, slots: I64, level: I64 | None) -> I64:
        """Puts tasks on the view that go to any host, shape by shape; returns none."""
        for shape, part in self._by_shape(row, slots):
            if self._budget.cut:
                break
            self._each(tasks, row, rank, shape, part, level)
        return slots[:0]

    def _elsewhere(self, tasks: Range, row: JobRow, rank: int, slots: I64, level: I64 | None) -> I64:
        """Puts those tasks on other hosts than those that couldn't start them; returns the others, and those for which
        no other host has room.
        """
        pin = self._runs.arena["pin"]
        rest = [slots[pin[slots] >= 0]]
        for shape, part in self._by_shape(row, slots[pin[slots] < 0]):
            for slot in part.tolist():
                if not self._budget.holds(1):
                    break
                for each in self.view.alternatives(shape) if shape.has_others else (shape,):
                    hosts = self.view.one_but(each, -int(pin[slot]) - 1, level)
                    if len(hosts):
                        self._put(tasks.job_id, np.array([slot]), hosts, each)
                        break
                else:
                    rest.append(np.array([slot]))
        return np.sort(np.concatenate(rest))

    def hosts_of(self, slots: I64) -> I64:
        """The hosts that tasks are bound to; -1: that is gone."""
        pin = self._runs.arena["pin"][slots].astype(np.int64)
        return np.where(pin == NOWHERE, -1, pin - 1)

    def _bound(self, tasks: Range, row: JobRow, rank: int, slots: I64, level: I64 | None) -> I64:
        """Puts those tasks on the view that are bound to hosts, as far as the budget goes; returns the others."""
        is_bound = self._runs.arena["pin"][slots] > 0
        for shape, part in self._by_shape(row, slots[is_bound], bound=False):
            hosts = self.hosts_of(part)
            fit = bound_tasks.placed(self.view, shape, hosts)
            if shape.devices is not None and self.view.devices is not None:
                fit = self.view.devices.in_turn(shape.devices, hosts, fit)
            fitting = np.flatnonzero(fit)
            if len(fitting) > self._budget.left:
                self._budget.cut, fitting = True, fitting[: max(0, self._budget.left)]
            if len(fitting):
                self.view.put(shape, hosts[fitting])
                if self.view.neighbours is not None:  # those of its tasks that have a choice come next
                    self.view.neighbours.put(hosts[fitting], shape.rules)
                self._put(tasks.job_id, part[fitting], hosts[fitting], shape, feasible=1)
            if self._budget.cut:
                break
            rest, why = part[~fit], bound_tasks.codes(self.view, shape, hosts[~fit])
            for at, code in enumerate(BOUND_CODES):
                if len(some := rest[why == at]):
                    self.unplaced.append(Unplaced(tasks, row, rank, ((shape, 1),), some, False, code=code))
        return slots[~is_bound]

    def _code(self, row: JobRow, shape: ShapeView, slots: I64, own: OwnRoom | None) -> Code | None:
        """Why a unit finds no place that is bound to a host; None: it isn't."""
        if not row.bound or len(slots) > 1 or self._runs.arena["pin"][slots[0]] <= 0:
            return None
        if own is not None:
            return own.code
        return BOUND_CODES[int(bound_tasks.codes(self.view, shape, self.hosts_of(slots))[0])]

    def _each(self, tasks: Range, row: JobRow, rank: int, shape: ShapeView, slots: I64, level: I64 | None) -> None:
        """Puts tasks of one shape on the view one by one, as far as the budget goes."""
        rest, passed_over = slots, list[str]()
        for each in self.view.alternatives(shape) if shape.has_others else (shape,):
            most = min(len(rest), self._budget.left)
            hosts = self.view.each(each, most, level)
            if len(hosts):
                self._put(tasks.job_id, rest[: len(hosts)], hosts, each, passed_over=passed_over)
            if len(hosts) == most < len(rest):
                self._budget.cut = True
                return
            rest = rest[len(hosts) :]
            if not len(rest):
                return
            if shape.has_others:
                passed_over.append(self._why(((each, 1),)))
        self.unplaced.append(Unplaced(tasks, row, rank, ((shape, 1),), rest, False))

    def _why(self, parts: Sequence[tuple[ShapeView, int]]) -> str:
        """The reason code of tasks that found no place in one alternative."""
        return reason(self.view, parts, None, self.view.neighbours).code

    def _gang(self, tasks: Range, row: JobRow, rank: int) -> None:
        """Puts a gang on the view, whole or not at all."""
        own = self._own.get(row.base + tasks.first)
        if row.shape != MIXED and own is None:
            shape = self.view.shape(row.shape, row)
            if self.view.is_hopeless(shape, row.gang):
                self.unplaced.append(Unplaced(tasks, row, rank, ((shape, row.gang),), None, True))
                return
        slots = self._runs.waits.slots(rank, tasks)
        if not self._budget.holds(len(slots)):
            return
        self._together(tasks, row, rank, slots, own, self._level(tasks.job_id, row))

    def _parked(self, tasks: Range, row: JobRow) -> None:
        """Finds places for parked units, which are asked for; those that may not ask now aren't tried."""
        slots, gang = self._runs.waits.slots(Rank.PARKED, tasks), row.in_gang(tasks.first)
        level = self._level(tasks.job_id, row)
        for unit in [slots] if gang else np.split(slots, len(slots)):
            if not self._may_ask(int(unit[0])):
                continue
            if not self._budget.holds(len(unit)):
                return
            own = self._own.get(int(unit[0]))
            shaped = self._by_shape(row, unit)
            parts = tuple((shape, len(part)) for shape, part in shaped)
            fitting = self._fitting(parts, own, level)
            if fitting is None:
                code = self._code(row, shaped[0][0], unit, own)
                self.unplaced.append(Unplaced(tasks, row, Rank.PARKED, parts, unit, gang, own, code=code))
            else:
                self.parked.append(Found(tasks.job_id, unit, fitting.by_part, fitting.alternative, fitting.passed_over))
                self._budget.spend(len(unit))

    def _with_own(self, tasks: Range, row: JobRow, rank: int, slots: I64, level: I64 | None) -> I64:
        """Puts those tasks on the view for which room is kept; returns the others."""
        own, complete = self._own.among(slots)
        shape = None if row.bound or row.shape == MIXED else self.view.shape(row.shape, row)
        rest, in_vain, before = own, own[:0], len(self.unplaced)
        while len(rest) and self._budget.holds(1):
            if (
                shape is not None and self.view.is_hopeless(shape, 1) and not complete.all()
            ):  # nor is there room for them elsewhere
                in_vain, rest, complete = rest[~complete], rest[complete], complete[complete]
                continue
            self._together(tasks, row, rank, rest[:1], self._own[int(rest[0])], level)
            rest, complete = rest[1:], complete[1:]
        in_vain = in_vain[in_vain < rest[0]] if len(rest) else in_vain
        if shape is not None and len(in_vain):
            own_room = self._own[int(in_vain[0])]
            self.unplaced.append(Unplaced(tasks, row, rank, ((shape, 1),), in_vain, False, own_room))
            self.unplaced[before:] = sorted(self.unplaced[before:], key=lambda one: int(self.slots(one)[0]))
        return np.setdiff1d(slots, own, assume_unique=True)

    def _at_home(self, tasks: Range, row: JobRow, rank: int, slots: I64, level: I64 | None) -> I64:
        """Puts those tasks on the view whose hosts are kept for them; returns the others. A host that may be back in
        time is waited for.
        """
        home = self._runs.arena["home"]
        rest = [slots[home[slots] == 0]]
        for shape, part in self._by_shape(row, slots[home[slots] > 0]):
            hosts = home[part].astype(np.int64) - 1
            fit = self.view.fits_at_home(shape, hosts)
            devices = self.view.devices if shape.devices is not None else None
            if devices is not None:
                devices.release(*part.tolist())
            if (neighbours := self.view.neighbours) is not None:
                rules = neighbours.of(shape.rules, shape.unmet, shape.column, shape.devices)
                fit &= at_home(neighbours, rules, hosts, fit)
            if devices is not None:
                devices.keep_again(*part[~fit].tolist())
            fitting = np.flatnonzero(fit)
            if len(fitting) > self._budget.left:
                self._budget.cut, fitting = True, fitting[: max(0, self._budget.left)]
            if len(fitting):
                self.view.take_home(shape, hosts[fitting], level if self.view.neighbours is None else None)
                self._put(tasks.job_id, part[fitting], hosts[fitting], shape, feasible=1)
            waits = self._hosts.are(WAITED_FOR)[hosts]
            waits &= self._runs.arena["pin"][part] <= 0
            if waits.any():
                self.unplaced.append(Unplaced(tasks, row, rank, ((shape, 1),), part[waits], False, home=True))
            rest.append(part[~fit & ~waits])
        return np.sort(np.concatenate(rest))

    def _together(
        self, tasks: Range, row: JobRow, rank: int, slots: I64, own: OwnRoom | None, level: I64 | None
    ) -> None:
        """Puts a unit on the view, whole or not at all."""
        shaped = self._by_shape(row, slots)
        parts = tuple((shape, len(part)) for shape, part in shaped)
        fitting = self._fitting(parts, own, level)
        if fitting is None:
            gang = len(slots) > 1
            code = self._code(row, shaped[0][0], slots, own)
            self.unplaced.append(Unplaced(tasks, row, rank, parts, slots, gang, own, code=code))
            return
        for (shape, _), (_, part), hosts in zip(fitting.parts, shaped, fitting.by_part, strict=True):
            hosts = self._in_order(shape, hosts) if len(slots) > 1 else hosts
            by_link_group = len(slots) > 1 and LINK_GROUP in (*self._hosts.topology, _nearness(shape))
            self._put(tasks.job_id, part, hosts, shape, passed_over=fitting.passed_over, by_link_group=by_link_group)

    def _fitting(self, parts: Parts, own: OwnRoom | None, level: I64 | None) -> Fitting | None:
        """Puts a unit on the view by the first of its alternatives by which it fits, with the room that is kept for it
        if that is for this one; None: it fits by none.
        """
        passed_over, ways = list[str](), self.view.ways(parts)
        for at, taking in enumerate(ways):
            if own is None or at != max(own.alternative, 0):
                by_part = self.view.gang(taking, level)
            else:
                by_part = self.view.with_own(taking, own, level)
            if by_part is not None:
                return Fitting(taking, by_part, at if len(ways) > 1 else NONE, tuple(passed_over))
            if at + 1 < len(ways):
                passed_over.append(self._why(taking))
        return None

    def _in_order(self, shape: ShapeView, hosts: I64) -> I64:
        """The hosts of members of a gang along the tree of hosts, so that neighbouring ranks are near each other."""
        levels, level = self._hosts.topology, _nearness(shape)
        if level and level not in levels:
            levels = (level, *levels)
        return along_the_tree(self._hosts, hosts, levels, level) if levels else hosts

    def _put(
        self,
        job_id: str,
        slots: I64,
        hosts: I64,
        shape: ShapeView,
        feasible: int | None = None,
        passed_over: Sequence[str] = (),
        by_link_group: bool = False,
    ) -> None:
        """Notes tasks that were put on the view; `feasible`: so many hosts were looked at, where not all were;
        `passed_over`: why the alternatives before theirs weren't taken; `by_link_group`: as `names_of`.
        """
        if feasible is None:
            before = None if self.view.neighbours else shape.feasible
            feasible = self.view.feasible(shape, hosts) if before is None else before
        host = hosts[0]
        here = 1 if len(hosts) == 1 else np.count_nonzero(hosts == host)
        score_by = shape.strategy, shape.scoring, self.view.free[:, host] + shape.column[:, 0] * here, feasible
        if shape.exclusive:
            self.view.claim(hosts)
        board, need = self.view.devices, shape.devices
        devices = board.names_of(need, hosts, by_link_group) if board and need else []
        self._placed.setdefault(job_id, []).append(
            Placed(
                *(job_id, shape.number, slots, hosts, shape.ports, shape.port_numbers, *score_by, devices),
                alternative=shape.alternative,
                passed_over=",".join(passed_over),
            )
        )
        if self._runs.shapes.ruled:
            self._seen.put(job_id, shape.number, hosts)
            if self.view.neighbours is not None:
                self.view.neighbours.settle()
        self._budget.spend(len(slots))

    def _by_shape(self, row: JobRow, slots: I64, bound: bool = True) -> list[tuple[ShapeView, I64]]:
        """Slots of a job by their shapes, in the order of the first of each; with `bound`, of a task by itself that is
        bound to a host the shape there.
        """
        if bound and row.bound and len(slots) == 1 and self._runs.arena["pin"][slots[0]] > 0:
            number, host = int(self._runs.arena["shape"][slots[0]]), int(self.hosts_of(slots)[0])
            return [(self.view.shape(number, row, host), slots)]
        if row.shape != MIXED:
            return [(self.view.shape(row.shape, row), slots)]
        shapes = self._runs.arena["shape"][slots]
        numbers, first = np.unique(shapes, return_index=True)
        order: list[int] = numbers[np.argsort(first)].tolist()
        return [(self.view.shape(number, row), slots[shapes == number]) for number in order]

    def _level(self, job_id: str, row: JobRow) -> I64 | None:
        """The tasks of a job on each host, counted; None where all its tasks are packed. From now on the view looks at
        the neighbours of its tasks, if anything depends on them.
        """
        self.view.neighbours = self.neighbours(job_id) if self._has_rules else None
        if not any(self.view.shape(number, row).spread for number in row.shapes):
            return None
        host = self._runs.arena["host"][row.base : row.base + row.instances]
        level = np.bincount(host[host > 0] - 1, minlength=len(self._hosts.ids))
        for placed in self._placed.get(job_id, ()):
            np.add.at(level, placed.hosts, 1)
        return level

    def _record(self) -> TasksPlaced:
        parts = [one for of_job in self._placed.values() for one in of_job]
        counts = [len(one.slots) for one in parts]
        index = {job_id: at for at, job_id in enumerate(self._placed)}
        job = np.repeat(np.array([index[one.job_id] for one in parts]), counts)
        slots = np.concatenate([one.slots for one in parts])
        base = np.array([self._runs.jobs[job_id].base for job_id in self._placed])
        numbers, host = indexed(np.concatenate([one.hosts for one in parts]))
        host_ids = tuple(self._hosts.ids[number] for number in numbers.tolist())
        ports = self._ports(parts)
        return TasksPlaced.pack(
            job_ids=tuple(self._placed),
            job=job,
            instance=slots - base[job],
            run=self._waiting[slots],
            host_ids=host_ids,
            host_session=[self._hosts.table[host_id].session for host_id in host_ids],
            host=host,
            ports=ports,
            port_count=np.repeat([one.ports for one in parts], counts) if ports else None,
            **(_device_columns(parts) if self.view.devices is not None else {}),
            **(_alternative_columns(parts, counts) if self._runs.shapes.of_devices else {}),
            **choice_columns(
                counts, [one.strategy for one in parts], self._scores(parts), [one.feasible for one in parts]
            ),
        )

    def _scores(self, parts: list[Placed]) -> I64:
        """The scores that the hosts of the first tasks had, as they are recorded."""
        score = scores(np.stack([one.free for one in parts], axis=1), self.view.weight)
        for at, one in enumerate(parts):
            if one.scoring is not None:
                score[at] = one.scoring.ordered(None, one.free[:, None], one.hosts[:1])[0]
        return score // (SCORE // SCORE_ONE)

    def _ports(self, parts: list[Placed]) -> list[int]:
        """Port numbers for all that was put, per host the lowest that are free and that no other must have."""
        fixed: dict[int, set[int]] = {}
        for part in parts:
            for number in part.hosts.tolist() if part.numbers else ():
                fixed.setdefault(number, set()).update(part.numbers)
        free: dict[int, Iterator[int]] = {}
        out: list[int] = []
        for part in parts:
            for number in part.hosts.tolist() if part.ports else ():
                if number not in free:
                    others = fixed.get(number, set()) | self._kept_ports.get(number, set())
                    free[number] = self._free_ports(number, others)
                out += (port or next(free[number]) for port in part.numbers or (0,) * part.ports)
        return out

    def _free_ports(self, number: int, fixed: set[int]) -> Iterator[int]:
        row, in_use = self._hosts.table[self._hosts.ids[number]], self._hosts.ports.taken[number]
        ports = range(row.port_first, row.port_last + 1)
        return (port for port in ports if port not in in_use and port not in fixed)


def _nearness(shape: ShapeView) -> str:
    """The level by which members of a gang are near each other; empty: there is none."""
    return shape.rules.nearness or shape.rules.whole_within if shape.rules is not None else ""


def _device_columns(parts: list[Placed]) -> dict[str, Any]:
    """The devices of all that was put, as fields of the record; none where nobody has any."""
    if not any(one.devices for one in parts):
        return {}
    each = [devices for one in parts for devices in one.devices or [()] * len(one.slots)]
    return device_fields([[RunDevice(*device) for device in devices] for devices in each])


def _alternative_columns(parts: list[Placed], counts: list[int]) -> dict[str, Any]:
    """The alternatives that were taken, as fields of the record; none where nobody has any."""
    if all(one.alternative == NONE for one in parts):
        return {}
    names = Names()
    why = [names[one.passed_over] if one.passed_over else -1 for one in parts]
    return {
        "alternative": np.repeat([one.alternative for one in parts], counts),
        "passed_over": np.repeat(why, counts),
        "passed_codes": names.all(),
    }
