"""The cluster as one decision sees it: copies of what is free, on which tasks are put before anything is decided.

Three ways lead to the same places: `packing.pack` for many tasks, `ShapeView.few` for few tasks of a shape that comes
up again and again (it keeps the order of hosts and looks only at those touched since), `packing.spread`.

What is kept for units isn't free; a unit for which some is kept sees that too.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from events.columns import I64, counted, distinct
from events.strategies import BALANCED, LOAD_AWARE, OF_POOL, PACK, SPREAD
from processors.placement import engine_view
from processors.placement.constraints import order_of
from processors.placement.gang_search import Part, choose, ranked
from processors.placement.hosts import Hosts
from processors.placement.neighbours import FREE, Neighbours, Request, one_by_one
from processors.placement.packing import (
    MANY,
    Mask,
    Scoring,
    feasible,
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
from processors.placement.ruled_units import in_groups
from processors.state.shapes import Shape, Shapes

FEW = 16
"""Up to so many tasks are put one host after another; more are put at once."""

SCORE_MAX = 1 << 45
"""More than what fits on a host adds up to: the score of a task that fits on none is of no use."""


class ShapeView:
    """A shape on the view: what its tasks ask of hosts, ports behind the kinds; `open` says which may be used now.
    `host`: the only one that may be, where a task is bound to it.
    """

    def __init__(self, view: "ClusterView", number: int, shape: Shape, host: int | None, strategy: int) -> None:
        self.number = number
        self.need = need = (*shape.need, shape.ports)
        self.ports = shape.ports
        self.strategy = strategy
        self.spread = strategy == SPREAD
        self.scoring: Scoring | None = None
        """The scores of hosts, where what is free alone isn't."""
        if strategy in (BALANCED, LOAD_AWARE):
            columns = view.hosts.capacity, view.hosts.load, view.scales.weight, view.scales.shifts
            self.scoring = Scoring(strategy, need, *columns)
        self.constraints = shape.constraints
        self.meeting = meeting = view.hosts.condition_set(shape)
        self.unmet = meeting.unmet if host is None else view.hosts.constraints.column(shape.constraints)
        """A task that is bound to a host goes there whatever its taints."""
        self.order = order_of(meeting.rank) if host is None else None
        """Goes before the score of each host; None: the same for all."""
        self.host = host
        self.port_numbers = shape.port_numbers
        self.fixed_ports = shape.fixed_ports
        self.most = 1 if self.fixed_ports else MANY
        """So many of its tasks a host holds at most."""
        self.ports_free = view.without(self.fixed_ports)
        """Where no other task has one of its fixed ports."""
        self.meets: Mask = (view.hosts.up if host is None else view.hosts.heard) & (self.unmet < 0)
        """Where only a port may be missing, and amounts."""
        if host is not None:
            self.meets &= np.arange(len(self.meets)) == host
        self.rules = shape.rules
        self.exclusive = shape.rules is not None and shape.rules.exclusive
        self.open: Mask = self.meets & self.ports_free
        self.shut_off: Mask | None = None
        """Where it might be but for tasks that want their hosts for themselves; None: nowhere."""
        self.is_told = False
        """Whether the engine knows which hosts may be used."""
        if view.closed is not None:
            self.shut(view.closed)
        self.column = np.array(need, dtype=np.int64)[:, None]
        self.score = min(score_of(need, view.scales.plain), SCORE_MAX)
        self.feasible: int | None = None
        """The hosts that had room when the first of its tasks was put; None: none was yet."""
        self.too_many = 1 << 62
        """So many at once found no place, nor will as many, or more, later: what is free only shrinks."""
        self._epoch = -1
        self._order: list[I64] = []
        self._at = 0
        self._recent: list[tuple[int, int]] = []
        self._seen = 0

    def takes_bound(self, hosts: Hosts) -> Mask:
        """The hosts that take such tasks if these are bound to them."""
        return hosts.heard & ~self.mismatch & self.ports_free

    @property
    def mismatch(self) -> Mask:
        """The hosts that don't meet the conditions, whatever their taints: tasks that are bound to a host go there."""
        return (self.unmet >= 0) & (self.unmet < len(self.constraints))

    def shut(self, closed: Mask) -> None:
        """Hosts are closed by tasks that want them for themselves; whose those are, its own rules say."""
        if self.host is None and not self.exclusive:
            self.is_told = False
            shut_off = self.meets & closed
            self.shut_off = shut_off if self.shut_off is None else self.shut_off | shut_off
            self.open &= ~closed
            self.meets &= ~closed

    def part(self, size: int) -> Part:
        """So many of its tasks that belong together."""
        return Part(
            self.need, self.open, self.score, self.spread, size, self.most, scoring=self.scoring, order=self.order
        )

    def scores(self, score: I64) -> I64:
        """The score of each host with its rank before it, which comes first whichever way hosts are chosen."""
        return ranked(score, self.order, self.spread)

    def key(self, view: "ClusterView", host: int) -> int:
        """The score of one host, with its rank before it."""
        return int(view.score[host]) + (0 if self.order is None else int(self.order[host]))

    def open_to(self, view: "ClusterView", own: OwnRoom) -> Mask:
        """The hosts that a unit may use for which room is kept: its ports are kept there for it."""
        if not self.fixed_ports:
            return self.open
        open_ = self.open.copy()
        open_[own.hosts] |= (self.meets & view.without(self.fixed_ports, or_kept=False))[own.hosts]
        return open_

    def taken(self, hosts: I64) -> None:
        """Other tasks have one of its fixed ports on hosts now."""
        self.ports_free[hosts] = self.open[hosts] = self.is_told = False

    def few(self, view: "ClusterView", most: int) -> I64:
        """As `packing.pack`, and puts the tasks on the view."""
        self._refresh(view)
        hosts: list[int] = []
        while len(hosts) < most:
            host, fit = self._next(view, most - len(hosts))
            if not fit:
                break
            hosts += [host] * fit
            view.take(host, fit, self)
            heappush(self._recent, (self.key(view, host), host))
            self._seen = len(view.touched)
        return np.array(hosts, dtype=np.int64)

    def next(self, view: "ClusterView") -> int | None:
        """The host that takes the next task, if any does; nothing is put there."""
        self._refresh(view)
        host, fit = self._next(view, 1)
        return host if fit else None

    def _refresh(self, view: "ClusterView") -> None:
        """Brings the order of hosts up to what was put on the view since."""
        if self._epoch != view.epoch:
            hosts = feasible(view.free, self.need, self.open)
            score = self.scores(view.score)[hosts]
            order = np.argsort(score, kind="stable")
            self._order = [score[order], hosts[order]]
            self._at, self._recent = 0, []
            self._epoch, self._seen = view.epoch, len(view.touched)
            return
        if self._seen < len(view.touched):
            for host in dict.fromkeys(view.touched[self._seen :]):
                if self.open[host]:
                    heappush(self._recent, (self.key(view, host), host))
            self._seen = len(view.touched)

    def _next(self, view: "ClusterView", most: int) -> tuple[int, int]:
        """The host with least free that holds a task, and how many it holds; 0: there is none.

        What doesn't fit any more, or has moved in the order, is dropped.
        """
        scores_, hosts = self._order
        recent = self._recent
        while recent or self._at < len(hosts):
            best = (int(scores_[self._at]), int(hosts[self._at])) if self._at < len(hosts) else None
            from_kept = best is not None and (not recent or best < recent[0])
            score, host = best if best is not None and from_kept else recent[0]
            if self.key(view, host) == score and self.open[host]:
                fit = min(most, self.most)
                for have, one in zip(view.free[:, host].tolist(), self.need, strict=True):
                    if one and have // one < fit:
                        fit = have // one
                if fit > 0:
                    return host, fit
            if from_kept:
                self._at += 1
            else:
                heappop(recent)
        return 0, 0


NOTHING: I64 = np.zeros(0, dtype=np.int64)


class ClusterView:
    """Copies of the columns of hosts. `free` only shrinks."""

    def __init__(self, hosts: Hosts, shapes: Shapes, kept_room: KeptRoom) -> None:
        self.hosts = hosts
        self.kept = kept_room.amounts.copy()
        """The room that is kept for units and isn't used by what was put here."""
        self.free: I64 = hosts.capacity - hosts.used - kept_room.amounts
        self.scales = hosts.scales()
        self.weight, self.lack_weight = self.scales.weight, self.scales.lack
        self.score = scores(self.free, self.weight)
        self._engine = engine_view.of(hosts, self.free)
        self.touched: list[int] = []
        """Hosts that got few tasks, in order."""
        self.epoch = 0
        """Grows when many hosts changed at once."""
        self.kept_ports = kept_room.ports
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
        self._shapes: dict[tuple[int, int, int | None], ShapeView] = {}
        self._ruled_feasible: dict[int, int] = {}  # by shape, when tasks with neighbours were put last
        self._mixed: set[tuple[tuple[int, int], ...]] = set()
        """Gangs of several shapes that found no place."""

    def shape(self, number: int, of_pool: int = PACK, host: int | None = None) -> ShapeView:
        """The shape of a number, where a task is bound to a host that alone; `of_pool`: the strategy if it has none."""
        shape = self._shapes.get((number, of_pool, host))
        if shape is None:
            shape_row = self._known[number]
            if shape_row.strategy not in (OF_POOL, of_pool):  # the same whatever the pool has
                shape = self.shape(number, shape_row.strategy, host)
            else:
                shape = ShapeView(self, number, shape_row, host, of_pool)
            self._shapes[number, of_pool, host] = shape
        return shape

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
        rules = self.neighbours.of(shape.rules, shape.unmet, shape.column)
        may = have_room(self.free, shape.column) & (rules.why() == FREE)
        self._ruled_feasible[shape.number] = int(np.count_nonzero(open_ & may))
        return Request(
            size, shape.column, shape.score, open_, shape.spread, shape.scoring, shape.order, shape.fixed_ports, rules
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
            shape.shut(self.closed)

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
        return engine_view.Asked(shape.need, shape.strategy, conditions, ranks)

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
        return len(parts) > 1 and tuple((shape.number, size) for shape, size in parts) in self._mixed

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
        for other in self._shapes.values() if shape.fixed_ports else ():
            if not {*shape.fixed_ports}.isdisjoint(other.fixed_ports):
                other.taken(hosts)

    def _fail(self, parts: Sequence[tuple[ShapeView, int]]) -> None:
        if len(parts) == 1:
            shape, size = parts[0]
            shape.too_many = min(shape.too_many, size)
        else:
            self._mixed.add(tuple((shape.number, size) for shape, size in parts))

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
