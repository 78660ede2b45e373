"""The board of one decision: copies of what is free, on which tasks are put before anything is said.

Three ways lead to the same places: `fill.pack` for many tasks, `Shape.few` for few tasks of a shape that comes up
again and again (it keeps the order of hosts and looks only at those touched since), `fill.spread`.
"""

from heapq import heappop, heappush

import numpy as np

from events.columns import I64, counted
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask, feasible, fits, pack, scores, spread, weights
from processors.state.record_rows import ConstraintRow

FEW = 16
"""Up to so many tasks are put one host after another; more are put at once."""

SCORE_MAX = 1 << 45
"""More than what fits on a host adds up to: the score of a task that fits on none is of no use."""

ShapeKey = tuple[tuple[int, ...], tuple[ConstraintRow, ...]]


class Shape:
    """What tasks ask of hosts: need and constraints. `open` says which hosts may be used now."""

    def __init__(self, board: "Board", need: tuple[int, ...], constraints: tuple[ConstraintRow, ...]) -> None:
        self.need = need
        self.constraints = constraints
        self.unmet = board.hosts.constraints.column(constraints)
        self.open: Mask = board.hosts.up & (self.unmet < 0)
        self.column = np.array(need, dtype=np.int64)[:, None]
        score = sum(one * int(weight) for one, weight in zip(need, board.weight, strict=False))
        self.score = min(score, SCORE_MAX)
        self.too_many = 1 << 62
        """So many at once found no place; a gang of as many won't either, since what is free only shrinks."""
        self._epoch = -1
        self._order: list[I64] = []
        self._at = 0
        self._recent: list[tuple[int, int]] = []
        self._seen = 0

    def few(self, board: "Board", wanted: int) -> I64:
        """As `fill.pack`, and puts the tasks on the board."""
        self._refresh(board)
        chosen: list[int] = []
        while len(chosen) < wanted:
            host, fit = self._next(board, wanted - len(chosen))
            if not fit:
                break
            chosen += [host] * fit
            board.take(host, fit, self)
            heappush(self._recent, (int(board.score[host]), host))
            self._seen = len(board.touched)
        return np.array(chosen, dtype=np.int64)

    def _refresh(self, board: "Board") -> None:
        """Brings the order of hosts up to what was put on the board since."""
        if self._epoch != board.epoch:
            hosts = feasible(board.free, self.need, self.open)
            order = np.argsort(board.score[hosts], kind="stable")
            self._order = [board.score[hosts][order], hosts[order]]
            self._at, self._recent = 0, []
            self._epoch, self._seen = board.epoch, len(board.touched)
            return
        if self._seen < len(board.touched):
            for host in dict.fromkeys(board.touched[self._seen :]):
                if self.open[host]:
                    heappush(self._recent, (int(board.score[host]), host))
            self._seen = len(board.touched)

    def _next(self, board: "Board", most: int) -> tuple[int, int]:
        """The host with least free that holds a task, and how many it holds; 0: there is none.

        What doesn't fit any more, or has moved in the order, is dropped.
        """
        scores_, hosts = self._order
        recent = self._recent
        while recent or self._at < len(hosts):
            kept = (int(scores_[self._at]), int(hosts[self._at])) if self._at < len(hosts) else None
            from_kept = kept is not None and (not recent or kept < recent[0])
            score, host = kept if kept is not None and from_kept else recent[0]
            if board.score[host] == score:
                fit = most
                for have, one in zip(board.free[:, host].tolist(), self.need, strict=True):
                    if one and have // one < fit:
                        fit = have // one
                if fit > 0:
                    return host, fit
            if from_kept:
                self._at += 1
            else:
                heappop(recent)
        return 0, 0


class Board:
    """Copies of the columns of hosts. `free` only shrinks."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.free: I64 = hosts.capacity - hosts.used
        self.weight = weights(np.max(hosts.capacity * hosts.counts, axis=1, initial=0))
        self.score = scores(self.free, self.weight)
        self.touched: list[int] = []
        """Hosts that got few tasks, in order."""
        self.epoch = 0
        """Grows when many hosts changed at once."""
        self._shapes: dict[ShapeKey, Shape] = {}

    def shape(self, need: tuple[int, ...], constraints: tuple[ConstraintRow, ...]) -> Shape:
        """The shape, one per need and constraints."""
        shape = self._shapes.get((need, constraints))
        if shape is None:
            shape = self._shapes[need, constraints] = Shape(self, need, constraints)
        return shape

    def pack(self, shape: Shape, wanted: int) -> I64:
        """Packs up to `wanted` tasks; returns a host for each that found one."""
        if wanted <= FEW:
            return shape.few(self, wanted)
        chosen = pack(self.free, self.score, shape.open, shape.need, wanted)
        self._put(chosen, shape)
        return chosen

    def spread(self, shape: Shape, wanted: int, level: I64) -> I64:
        """Spreads up to `wanted` tasks; `level` counts the job's tasks on each host, and is brought up."""
        chosen = spread(self.free, self.score, shape.open, shape.need, wanted, level, shape.score)
        np.add.at(level, chosen, 1)
        self._put(chosen, shape)
        return chosen

    def gang(self, shape: Shape, size: int, level: I64 | None) -> I64:
        """All tasks of a gang, or none; spread if `level` is given, else packed."""
        nothing = np.zeros(0, dtype=np.int64)
        if size >= shape.too_many:
            return nothing
        if level is not None:
            chosen = spread(self.free, self.score, shape.open, shape.need, size, level, shape.score)
        else:
            chosen = pack(self.free, self.score, shape.open, shape.need, size)
        if len(chosen) < size:
            shape.too_many = size
            return nothing
        if level is not None:
            np.add.at(level, chosen, 1)
        self._put(chosen, shape)
        return chosen

    def room(self, shape: Shape, most: int) -> int:
        """How many tasks would find a place now, counting at most `most` per host."""
        return int(fits(self.free, shape.need, np.flatnonzero(shape.open), most).sum())

    def take(self, host: int, count: int, shape: Shape) -> None:
        """Puts tasks on one host."""
        self.free[:, host] -= shape.column[:, 0] * count
        self.score[host] -= shape.score * count
        self.touched.append(host)

    def _put(self, chosen: I64, shape: Shape) -> None:
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
