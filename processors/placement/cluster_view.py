"""The cluster as one decision sees it: copies of what is free, on which tasks are put before anything is decided.

Three ways lead to the same places: `packing.pack` for many tasks, `ShapeView.few` for few tasks of a shape that comes
up again and again (`host_order.py`), `packing.spread`.

What is kept for units isn't free; a unit for which some is kept sees that too.
"""

from collections.abc import Callable, Sequence

import numpy as np

from events.columns import I64, counted, distinct
from events.strategies import OF_POOL, PACK
from processors.placement import engine_view
from processors.placement.devices.board import DeviceBoard
from processors.placement.devices.cards import RULES, task_shape
from processors.placement.devices.expected import CardChooser
from processors.placement.devices.needs import DeviceNeed
from processors.placement.gang_search import choose
from processors.placement.hosts import Hosts
from processors.placement.neighbours import FREE, Neighbours, Request, one_by_one
from processors.placement.packing import (
    Mask,
    fits,
    had_room,
    have_room,
    pack,
    score_of,
    scores,
    spread,
    turns,
)
from processors.placement.placed_units import places
from processors.placement.room.arrivals import Arrivals
from processors.placement.room.kept import KeptRoom, OwnRoom
from processors.placement.room.obstacles import Obstacles, obstacle
from processors.placement.rows import JobRow
from processors.placement.ruled_units import in_groups
from processors.placement.shape_view import Key, Parts, ShapeView
from processors.state.alternatives import alternatives_of, with_alternative
from processors.state.shapes import Shape, Shapes

FEW = 16
"""Up to so many tasks are put one host after another; more are put at once."""

NOTHING: I64 = np.zeros(0, dtype=np.int64)


class ClusterView:
    """Copies of the columns of hosts. `free` only shrinks."""

    def __init__(self, hosts: Hosts, shapes: Shapes, kept_room: KeptRoom) -> None:
        self.hosts = hosts
        self.kept = kept_room.amounts.copy()
        """The room that is kept for units and isn't used by what was put here."""
        self.free: I64 = hosts.capacity - hosts.used - kept_room.amounts
        self.scales = hosts.scales()
        self._reach, self._has_pools = hosts.pools.reach, hosts.pools.are_used
        self.weight, self.lack_weight = self.scales.weight, self.scales.lack
        self.score = scores(self.free, self.weight)
        self._engine = engine_view.of(hosts, self.free)
        self.touched: list[int] = []  # hosts that got few tasks, in order
        self.epoch = 0  # grows when many hosts changed at once
        self.kept_ports = kept_room.ports
        self.devices = DeviceBoard(hosts.devices) if hosts.devices.any or shapes.of_devices else None
        """The devices of hosts; None: there are none, nor does a task ask for cores."""
        if self.devices is not None:
            self.devices.keep_rooms(kept_room.devices)
        self.neighbours: Neighbours | None = None
        """Those of the job whose tasks are put now, where its rules or those of others look at them."""
        self.neighbours_of: Callable[[str], Neighbours | None] = lambda job_id: None
        """The neighbours of the tasks of a job as they are now."""
        self.closed: Mask | None = None
        """The hosts of tasks whose jobs want them for themselves; None: there are none."""
        self.claimants: Obstacles | None = None
        """Those of these tasks that have places."""
        self.arrivals: Arrivals = {}
        """The units for which room is held, where tasks look at their neighbours."""
        self.arrive_alone = np.zeros(len(hosts.ids), dtype=np.bool_)
        """The hosts that are held for tasks that want one for themselves: nobody else's plan may use them."""
        self._put_ports: dict[int, list[I64]] = {}
        """The hosts on which tasks with a fixed port were put, by port."""
        self._known = shapes
        self._shapes: dict[Key, ShapeView] = {}
        self._ruled_feasible: dict[int, int] = {}  # by shape, when tasks with neighbours were put last
        self._mixed: set[tuple[tuple[int, int, int], ...]] = set()
        """Gangs of several shapes that found no place."""

    def shape(self, number: int, job: JobRow | None = None, host: int | None = None) -> ShapeView:
        """The shape of a number for tasks of a job, bound to a host where that is given; no job: of any pool."""
        strategy, host_pools = (
            (PACK, ()) if job is None else (job.strategy, self._reach(job) if self._has_pools else ())
        )
        shape = self._shapes.get((number, strategy, host_pools, host))
        if shape is None:
            shape_row, key = self._known[number], (number, strategy, host_pools, host)
            own = shape_row.strategy if shape_row.strategy != OF_POOL else strategy  # the same whatever the pool has
            whole = (number, own, host_pools, host)
            shape = self._shapes.get(whole) or ShapeView(self, shape_row, whole)
            self._shapes[key] = self._shapes[whole] = shape
        return shape

    def chooser(self, shape: Shape, devices: DeviceNeed | None, strategy: int) -> CardChooser | None:
        """The way to the hosts of a shape by their cards; None: its strategy looks at none."""
        if strategy not in RULES or self.devices is None or not self.hosts.have_cards:
            return None
        return CardChooser(self.hosts.expected, self.devices, task_shape(shape.need, devices), RULES[strategy])

    def alternatives(self, shape: ShapeView) -> list[ShapeView]:
        """A shape and the alternatives behind it, in their order."""
        if shape.others is None:
            waiting, vector = self._known[shape.number], self.hosts.kinds.asked_of_host
            took = (with_alternative(waiting, at, vector) for at in range(1, len(alternatives_of(waiting))))
            shape.others = [ShapeView(self, each, shape.key) for each in took]
            for other in shape.others:
                if self.closed is not None:
                    other.shut(self.closed)
        return [shape, *shape.others]

    def ways(self, parts: Sequence[tuple[ShapeView, int]]) -> list[Parts]:
        """The parts of a unit as they are, then by each alternative behind the first; who has fewer than others takes
        the last one.
        """
        ways = [self.alternatives(shape) for shape, _ in parts] if any(shape.has_others for shape, _ in parts) else []
        later = (
            tuple((way[min(at, len(way) - 1)], size) for way, (_, size) in zip(ways, parts, strict=True))
            for at in range(1, max(map(len, ways), default=0))
        )
        return [tuple(parts), *later]

    def is_hopeless(self, shape: ShapeView, tasks: int) -> bool:
        """Whether as many tasks of a shape have found no place before, whichever alternative they took."""
        if not shape.has_others:
            return shape.too_many <= tasks
        return all(each.too_many <= tasks for each in self.alternatives(shape))

    def put(self, shape: ShapeView, hosts: I64) -> None:
        """Puts a task on each of the chosen hosts, which have room for it."""
        self._place(hosts, shape)

    def feasible(self, shape: ShapeView, hosts: I64) -> int:
        """Counts hosts that had room for tasks put just now, or (no neighbours) for the first of their shape."""
        if self.neighbours is not None:
            return self._ruled_feasible[shape.number]
        if shape.feasible is None:
            shape.feasible = had_room(shape.open & have_room(self.free, shape.column), hosts)
        return shape.feasible

    def request(self, shape: ShapeView, size: int, open_: Mask) -> Request:
        """So many tasks of a shape of the job whose neighbours are looked at."""
        assert self.neighbours is not None
        rules = self.neighbours.of(shape.rules, shape.unmet, shape.column, shape.devices)
        may = have_room(self.free, shape.column) & (rules.why() == FREE)
        self._ruled_feasible[shape.number] = int(np.count_nonzero(open_ & may))
        return Request(
            size,
            shape.column,
            shape.score,
            open_,
            shape.spread,
            shape.scoring,
            shape.order,
            shape.fixed_ports,
            rules,
            shape.cards,
        )

    def claimed(self, slots: I64, hosts: I64) -> None:
        """Tasks that want their hosts for themselves have places there."""
        self.claimants = Obstacles((obstacle(np.arange(len(self.hosts.ids)), slots, hosts),))
        self.claim(distinct(hosts))

    def claim_arrivals(self, hosts: I64) -> None:
        """Hosts are held for tasks that want one for themselves."""
        if len(hosts):
            self.arrive_alone[hosts] = True
            self.claim(hosts)

    def claim(self, hosts: I64) -> None:
        """Hosts are closed for tasks that want them for themselves."""
        if self.closed is None:
            self.closed = np.zeros(len(self.hosts.ids), dtype=np.bool_)
        self.closed[hosts] = True
        for shape in self._shapes.values():
            for each in (shape, *(shape.others or ())):
                each.shut(self.closed)

    def each(self, shape: ShapeView, count: int, level: I64 | None) -> I64:
        """Puts up to `count` tasks one by one; returns a host for each that found one. `level` counts the job's tasks
        on each host and is brought up, None where all tasks of the job are packed.
        """
        if self.neighbours is not None:
            return (self._ruled([(shape, count)], one_by_one) or [NOTHING])[0]
        if shape.too_many <= 1:
            return NOTHING
        if shape.host is not None:
            hosts = self._at_host(shape, shape.host, count)
        elif self._by_engine(shape, count, level):
            hosts = self._on_engine(shape, count, level, whole=False)
        elif shape.scoring is not None:
            hosts = choose(self.free, self.weight, self.score, shape.part(count), level)
            self._place(hosts, shape)
        elif shape.spread and level is not None:
            hosts = spread(
                self.free, shape.scores(self.score), shape.open, shape.need, count, level, self.weight, shape.most
            )
            self._place(hosts, shape)
        elif count <= FEW:
            hosts = shape.few(self, count)
        else:
            hosts = pack(self.free, shape.scores(self.score), shape.open, shape.need, count, shape.most)
            self._place(hosts, shape)
        if len(hosts) < count:
            shape.too_many = 1
        if level is not None:
            np.add.at(level, hosts, 1)
        return hosts

    def _by_engine(self, shape: ShapeView, count: int, level: I64 | None) -> bool:
        """Whether the engine chooses: many tasks at once it places quickly only where it is compiled, and other tasks
        of the job aren't those that have its ports.
        """
        if self._engine is None or shape.host is not None or (shape.fixed_ports and shape.spread and level is not None):
            return False
        return count <= FEW or self._engine.is_compiled

    def _at_host(self, shape: ShapeView, host: int, count: int, whole: bool = False) -> I64:
        """Puts tasks on the only host that may be, or if `whole` all of them or none."""
        if not shape.open[host]:
            return NOTHING
        only = np.array([host])
        hosts = only.repeat(fits(self.free, shape.need, only, min(count, shape.most)))
        if len(hosts) < count and whole:
            return NOTHING
        if len(hosts):
            self._place(hosts, shape)
        return hosts

    def _ruled(self, parts: Sequence[tuple[ShapeView, int]], way: Callable[..., list[I64] | None]) -> list[I64] | None:
        """Puts tasks where their rules about neighbours allow it."""
        assert self.neighbours is not None
        requests = [self.request(shape, size, shape.open) for shape, size in parts]
        chooser = None
        if self._engine is not None and self._engine.is_compiled and all(map(engine_view.OnEngine.can_be, requests)):
            chooser = engine_view.OnEngine(self._engine, [self._told(shape) for shape, _ in parts], self.free)
        by_part = way(self.neighbours, self.free, self.score, requests, chooser)
        for (shape, _), hosts in zip(parts, by_part or (), strict=by_part is not None):
            self._place(hosts, shape)
        if chooser is not None:
            chooser.are_placed()
        return by_part

    def _mixed_on_engine(self, parts: Sequence[tuple[ShapeView, int]], level: I64 | None) -> list[I64] | None:
        """Has the engine put a gang of several shapes, the largest first; None: not so, and nothing is put."""
        engine = self._engine
        ports = [port for shape, _ in parts for port in shape.fixed_ports]
        if engine is None or len({*ports}) < len(ports) or not all(self._by_engine(*part, level) for part in parts):
            return None
        mark, level = engine.mark(), None if level is None else level.copy()
        by_part = [NOTHING] * len(parts)
        for at in sorted(range(len(parts)), key=lambda at: -parts[at][0].score):
            shape, size = parts[at]
            by_part[at] = engine.place(self._told(shape), size, level, True, self.free)
            if len(by_part[at]) < size:
                engine.rollback(mark)
                return None
            if level is not None:
                np.add.at(level, by_part[at], 1)
        for (shape, _), hosts in zip(parts, by_part, strict=True):
            self._place(hosts, shape)
        engine.is_up_to_date()
        return by_part

    def _told(self, shape: ShapeView) -> engine_view.Asked:
        """A shape as the engine is told of it."""
        ranks = None if shape.is_told else np.where(shape.open, shape.meeting.rank, engine_view.CLOSED).astype(np.int8)
        shape.is_told = True
        conditions = engine_view.Conditions(shape.meeting.request, shape.fixed_ports, shape.exclusive)
        strategy = PACK if shape.strategy in RULES else shape.strategy
        return engine_view.Asked(shape.need, strategy, conditions, ranks)

    def _on_engine(self, shape: ShapeView, count: int, level: I64 | None, whole: bool) -> I64:
        """Has the engine put tasks on hosts, and puts them here."""
        assert self._engine is not None
        hosts = self._engine.place(self._told(shape), count, level, whole, self.free)
        if len(hosts):
            self._place(hosts, shape)
            self._engine.is_up_to_date()
        return hosts

    def one_but(self, shape: ShapeView, host: int, level: I64 | None) -> I64:
        """As `each`, for one task that goes anywhere but to a host; empty: nowhere else is room."""
        open_ = shape.open.copy()
        open_[host] = False
        if self.neighbours is not None:
            (hosts,) = one_by_one(self.neighbours, self.free, self.score, [self.request(shape, 1, open_)])
            self._place(hosts, shape)
            return hosts
        hosts = choose(self.free, self.weight, self.score, shape.part(1)._replace(open_=open_), level)
        if len(hosts):
            self._place(hosts, shape)
            if level is not None:
                np.add.at(level, hosts, 1)
        return hosts

    def gang(self, parts: Sequence[tuple[ShapeView, int]], level: I64 | None) -> list[I64] | None:
        """Puts a gang whole: hosts for each part, so many tasks of a shape; None: nothing is put. `level` as in
        `each`.
        """
        if self.neighbours is not None:
            return self._ruled(parts, in_groups)
        if self.has_failed(parts):
            return None
        if len(parts) == 1 and (host := parts[0][0].host) is not None:
            hosts = self._at_host(parts[0][0], host, parts[0][1], whole=True)
            by_part = [hosts] if len(hosts) else None
        elif len(parts) == 1 and self._by_engine(*parts[0], level):
            hosts = self._on_engine(*parts[0], level, whole=True)
            by_part = [hosts] if len(hosts) else None
        elif (by_part := self._mixed_on_engine(parts, level)) is None:
            by_part = places(
                self.free,
                self.weight,
                [shape.part(size) for shape, size in parts],
                [shape.fixed_ports for shape, _ in parts],
                level,
                self.score,
            )
            for (shape, _), hosts in zip(parts, by_part or (), strict=by_part is not None):
                self._place(hosts, shape)
        if by_part is None:
            self._fail(parts)
            return None
        for hosts in by_part:
            if level is not None:
                np.add.at(level, hosts, 1)
        return by_part

    def has_failed(self, parts: Sequence[tuple[ShapeView, int]]) -> bool:
        """Whether as many tasks that belong together have found no place before."""
        if any(size >= shape.too_many for shape, size in parts):
            return True
        return len(parts) > 1 and _mix(parts) in self._mixed

    def with_own(self, parts: Sequence[tuple[ShapeView, int]], own: OwnRoom, level: I64 | None) -> list[I64] | None:
        """As `gang`, for a unit for which room is kept. What it doesn't use of that stays kept for now."""
        if not own.complete and sum(size for _, size in parts) == 1:
            return self.gang(parts, level)  # where its room is a task doesn't fit yet
        if (
            len(parts) == 1
            and parts[0][1] == 1
            and level is None
            and self.neighbours is None
            and (one := self._one_with_own(parts[0][0], own))
        ):
            return one
        if self.devices is None:
            return self._with_own(parts, own, level)
        self.devices.release(own.slot)
        by_part = self._with_own(parts, own, level)
        if by_part is None:
            self.devices.keep_again(own.slot)
        return by_part

    def _with_own(self, parts: Sequence[tuple[ShapeView, int]], own: OwnRoom, level: I64 | None) -> list[I64] | None:
        free, score = self.free.copy(), self.score.copy()
        free[:, own.hosts] += own.amounts
        score[own.hosts] = scores(free[:, own.hosts], self.weight)
        opens = [shape.open_to(self, own) for shape, _ in parts]
        if self.neighbours is not None:
            requests = [self.request(shape, size, open_) for (shape, size), open_ in zip(parts, opens, strict=True)]
            by_part, level = in_groups(self.neighbours, free, score, requests), None
        else:
            needs = [shape.part(size)._replace(open_=open_) for (shape, size), open_ in zip(parts, opens, strict=True)]
            by_part = places(free, self.weight, needs, [shape.fixed_ports for shape, _ in parts], level, score)
        if by_part is None:
            return None
        used = np.zeros_like(free)
        for (shape, _), hosts_of_part in zip(parts, by_part, strict=True):
            hosts, counts = counted(hosts_of_part)
            self._take_ports(hosts, shape)
            used[:, hosts] += shape.column * counts
            if level is not None:
                level[hosts] += counts
        from_own = np.minimum(used[:, own.hosts], own.amounts)
        self.kept[:, own.hosts] -= from_own
        used[:, own.hosts] -= from_own
        hosts = distinct(np.concatenate(by_part))
        self.free[:, hosts] -= used[:, hosts]
        self.score[hosts] = scores(self.free[:, hosts], self.weight)
        self._note(hosts)
        return by_part

    def _one_with_own(self, shape: ShapeView, own: OwnRoom) -> list[I64] | None:
        """The same for one task that is packed, without looking at each host; None: that isn't known so."""
        if shape.fixed_ports or shape.order is not None or shape.scoring is not None or len(own.hosts) > FEW:
            return None
        free = self.free[:, own.hosts] + own.amounts
        enough = have_room(free, shape.column) & shape.open[own.hosts]
        mine, score = own.hosts.tolist(), scores(free, self.weight)
        places = [(one, at) for at, (one, fit) in enumerate(zip(score.tolist(), enough.tolist(), strict=True)) if fit]
        elsewhere = shape.next(self) if shape.too_many > 1 else None
        if not places or elsewhere in mine:
            return None
        least, at = min(places)
        if elsewhere is not None and (int(self.score[elsewhere]), elsewhere) < (least, mine[at]):
            hosts = np.array([elsewhere])
            self._place(hosts, shape)
            return [hosts]
        host, from_own = mine[at], np.minimum(shape.column[:, 0], own.amounts[:, at])
        self.kept[:, host] -= from_own
        self.free[:, host] -= shape.column[:, 0] - from_own
        self.score[host] = score_of(self.free[:, host].tolist(), self.scales.plain)
        self._note(np.array([host]))
        return [np.array([host])]

    def fits_at_home(self, shape: ShapeView, hosts: I64) -> Mask:
        """True for tasks of a shape that find their room on hosts where it is kept for them: unless the host takes
        nothing now, or offers less than before. Ports are kept as far as they are fixed.
        """
        kinds = np.flatnonzero(np.array(shape.need[:-1]))
        fit: Mask = shape.meets[hosts] & (self.free[kinds][:, hosts] >= 0).all(axis=0)
        if any_ports := shape.ports - len(shape.fixed_ports):
            fit &= (turns(hosts) + 1) * any_ports <= self.free[-1, hosts]
        return fit

    def take_home(self, shape: ShapeView, hosts: I64, level: I64 | None) -> None:
        """Puts tasks there; of what is free that takes their ports."""
        np.subtract.at(self.free[-1], hosts, shape.ports - len(shape.fixed_ports))
        if self._engine is not None:
            self._engine.changed(hosts)
        self._take_ports(hosts, shape)
        if level is not None:
            np.add.at(level, hosts, 1)

    def room(self, shape: ShapeView, most: int) -> int:
        """Counts the tasks that would find a place now, at most `most` per host."""
        return int(fits(self.free, shape.need, np.flatnonzero(shape.open), min(most, shape.most)).sum())

    def take(self, host: int, count: int, shape: ShapeView) -> None:
        """Puts tasks on one host."""
        self.free[:, host] -= shape.column[:, 0] * count
        self.score[host] = score_of(self.free[:, host].tolist(), self.scales.plain)
        if self._engine is not None:
            self._engine.changed(np.array([host]))
        self.touched.append(host)
        if shape.fixed_ports:
            self._take_ports(np.array([host]), shape)

    def without(self, ports: Sequence[int], or_kept: bool = True) -> Mask:
        """The hosts on which no task has any of these ports, nor (`or_kept`) is one kept for it."""
        return self.hosts.ports.without(ports) & self.unclaimed(ports, or_kept)

    def unclaimed(self, ports: Sequence[int], or_kept: bool = True) -> Mask:
        """The hosts on which no task was put that has any of these ports, nor (`or_kept`) is one kept for it."""
        free: Mask = np.ones(len(self.hosts.ids), dtype=np.bool_)
        for port in ports:
            for hosts in self._put_ports.get(port, ()):
                free[hosts] = False
            if or_kept:
                free[self.kept_ports.get(port, [])] = False
        return free

    def _take_ports(self, hosts: I64, shape: ShapeView) -> None:
        """Tasks with fixed ports were put on hosts."""
        for port in shape.fixed_ports:
            self._put_ports.setdefault(port, []).append(hosts)
        for first in self._shapes.values() if shape.fixed_ports else ():
            for other in (first, *(first.others or ())):
                if not {*shape.fixed_ports}.isdisjoint(other.fixed_ports):
                    other.taken(hosts)

    def _fail(self, parts: Sequence[tuple[ShapeView, int]]) -> None:
        if len(parts) == 1:
            shape, size = parts[0]
            shape.too_many = min(shape.too_many, size)
        else:
            self._mixed.add(_mix(parts))

    def _place(self, host_of_task: I64, shape: ShapeView) -> None:
        if len(host_of_task) == 1:
            self.take(int(host_of_task[0]), 1, shape)
            return
        hosts, counts = counted(host_of_task)
        self.free[:, hosts] -= shape.column * counts
        self.score[hosts] = scores(self.free[:, hosts], self.weight)
        self._take_ports(hosts, shape)
        self._note(hosts)

    def _note(self, hosts: I64) -> None:
        """So many hosts have changed."""
        if self._engine is not None:
            self._engine.changed(hosts)
        if len(hosts) <= FEW:
            self.touched += hosts.tolist()
        else:
            self.epoch += 1


def _mix(parts: Sequence[tuple[ShapeView, int]]) -> tuple[tuple[int, int, int], ...]:
    """A gang of several shapes, to compare."""
    return tuple((shape.number, shape.alternative, size) for shape, size in parts)
