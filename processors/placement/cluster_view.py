"""The cluster as one decision sees it: copies of what is free, on which tasks are put before anything is decided.

Three ways lead to the same places: `packing.pack` for many tasks, `ShapeView.few` for few tasks of a shape that comes
up again and again (it keeps the order of hosts and looks only at those touched since), `packing.spread`.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from events.columns import I64, counted
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask, feasible, fits, pack, scores, spread, weights
from processors.state.shapes import Shape, Shapes

FEW = 16
"""Up to so many tasks are put one host after another; more are put at once."""

SCORE_MAX = 1 << 45
"""More than what fits on a host adds up to: the score of a task that fits on none is of no use."""


class ShapeView:
    """A shape on the view: what its tasks ask of hosts, ports behind the kinds; `open` says which may be used now."""

    def __init__(self, view: "ClusterView", number: int, shape: Shape) -> None:
        self.number = number
        self.need = need = (*shape.need, shape.ports)
        self.ports = shape.ports
        self.spread = shape.spread
        self.constraints = shape.constraints
        self.unmet = view.hosts.constraints.column(shape.constraints)
        self.open: Mask = view.hosts.up & (self.unmet < 0)
        self.column = np.array(need, dtype=np.int64)[:, None]
        score = sum(one * int(weight) for one, weight in zip(need, view.weight, strict=False))
        self.score = min(score, SCORE_MAX)
        self.too_many = 1 << 62
        """So many at once found no place; a gang of as many won't either, since what is free only shrinks."""
        self._epoch = -1
        self._order: list[I64] = []
        self._at = 0
        self._recent: list[tuple[int, int]] = []
        self._seen = 0

    def few(self, view: "ClusterView", wanted: int) -> I64:
        """As `packing.pack`, and puts the tasks on the view."""
        self._refresh(view)
        chosen: list[int] = []
        while len(chosen) < wanted:
            host, fit = self._next(view, wanted - len(chosen))
            if not fit:
                break
            chosen += [host] * fit
            view.take(host, fit, self)
            heappush(self._recent, (int(view.score[host]), host))
            self._seen = len(view.touched)
        return np.array(chosen, dtype=np.int64)

    def _refresh(self, view: "ClusterView") -> None:
        """Brings the order of hosts up to what was put on the view since."""
        if self._epoch != view.epoch:
            hosts = feasible(view.free, self.need, self.open)
            order = np.argsort(view.score[hosts], kind="stable")
            self._order = [view.score[hosts][order], hosts[order]]
            self._at, self._recent = 0, []
            self._epoch, self._seen = view.epoch, len(view.touched)
            return
        if self._seen < len(view.touched):
            for host in dict.fromkeys(view.touched[self._seen :]):
                if self.open[host]:
                    heappush(self._recent, (int(view.score[host]), host))
            self._seen = len(view.touched)

    def _next(self, view: "ClusterView", most: int) -> tuple[int, int]:
        """The host with least free that holds a task, and how many it holds; 0: there is none.

        What doesn't fit any more, or has moved in the order, is dropped.
        """
        scores_, hosts = self._order
        recent = self._recent
        while recent or self._at < len(hosts):
            kept = (int(scores_[self._at]), int(hosts[self._at])) if self._at < len(hosts) else None
            from_kept = kept is not None and (not recent or kept < recent[0])
            score, host = kept if kept is not None and from_kept else recent[0]
            if view.score[host] == score:
                fit = most
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


class ClusterView:
    """Copies of the columns of hosts. `free` only shrinks."""

    def __init__(self, hosts: Hosts, shapes: Shapes) -> None:
        self.hosts = hosts
        self.free: I64 = hosts.capacity - hosts.used
        self.weight = weights(np.max(hosts.capacity * hosts.counts, axis=1, initial=0))
        self.score = scores(self.free, self.weight)
        self.touched: list[int] = []
        """Hosts that got few tasks, in order."""
        self.epoch = 0
        """Grows when many hosts changed at once."""
        self._known = shapes
        self._shapes: dict[int, ShapeView] = {}

    def shape(self, number: int) -> ShapeView:
        """The shape of a number."""
        shape = self._shapes.get(number)
        if shape is None:
            shape = self._shapes[number] = ShapeView(self, number, self._known[number])
        return shape

    def pack(self, shape: ShapeView, wanted: int) -> I64:
        """Packs up to `wanted` tasks; returns a host for each that found one."""
        if wanted <= FEW:
            return shape.few(self, wanted)
        chosen = pack(self.free, self.score, shape.open, shape.need, wanted)
        self._place(chosen, shape)
        return chosen

    def spread(self, shape: ShapeView, wanted: int, level: I64) -> I64:
        """Spreads up to `wanted` tasks; `level` counts the job's tasks on each host, and is brought up."""
        chosen = spread(self.free, self.score, shape.open, shape.need, wanted, level, shape.score)
        np.add.at(level, chosen, 1)
        self._place(chosen, shape)
        return chosen

    def gang(self, shape: ShapeView, size: int, level: I64 | None) -> I64:
        """All tasks of a gang, or none. `level` is as in `spread`, None where all tasks of the job are packed."""
        nothing = np.zeros(0, dtype=np.int64)
        if size >= shape.too_many:
            return nothing
        chosen = self._choose(shape, size, level)
        if len(chosen) < size:
            shape.too_many = size
            return nothing
        self._place(chosen, shape)
        return chosen

    def mixed_gang(self, parts: Sequence[tuple[ShapeView, int]], levels: I64) -> list[I64] | int:
        """Hosts for each part of a gang, or the index of the part that found too few. The part whose tasks ask most is
        put first. `levels` is as in `spread`.
        """
        free, score, level = self.free.copy(), self.score.copy(), levels.copy()
        found: dict[int, I64] = {}
        for at in sorted(range(len(parts)), key=lambda one: -parts[one][0].score):
            shape, size = parts[at]
            found[at] = self._choose(shape, size, levels)
            self._place(found[at], shape)
            if len(found[at]) < size:
                self.free[:], self.score[:], levels[:] = free, score, level
                return at
        return [found[at] for at in range(len(parts))]

    def room(self, shape: ShapeView, most: int) -> int:
        """How many tasks would find a place now, counting at most `most` per host."""
        return int(fits(self.free, shape.need, np.flatnonzero(shape.open), most).sum())

    def take(self, host: int, count: int, shape: ShapeView) -> None:
        """Puts tasks on one host."""
        self.free[:, host] -= shape.column[:, 0] * count
        self.score[host] -= shape.score * count
        self.touched.append(host)

    def _choose(self, shape: ShapeView, size: int, level: I64 | None) -> I64:
        """Hosts for tasks that belong together, or too few."""
        if shape.spread and level is not None:
            chosen = spread(self.free, self.score, shape.open, shape.need, size, level, shape.score)
        else:
            chosen = pack(self.free, self.score, shape.open, shape.need, size)
        if level is not None and len(chosen) == size:
            np.add.at(level, chosen, 1)
        return chosen

    def _place(self, chosen: I64, shape: ShapeView) -> None:
        if len(chosen) == 1:
            self.take(int(chosen[0]), 1, shape)
            return
        hosts, counts = counted(chosen)
        self.free[:, hosts] -= shape.column * counts
        self.score[hosts] -= shape.score * counts
        if len(hosts) <= FEW:
            self.touched += hosts.tolist()
        else:
            self.epoch += 1
