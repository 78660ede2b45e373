"""The order of hosts for a shape that comes up again and again: kept from task to task, and only those hosts are looked
at that were touched since.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from events.columns import I64
from processors.placement.packing import Mask, feasible


class View(Protocol):
    """The hosts as they are now."""

    free: I64
    score: I64
    touched: list[int]
    epoch: int


class Asking(Protocol):
    """A shape."""

    need: tuple[int, ...]
    open: Mask
    most: int
    order: I64 | None

    def scores(self, score: I64) -> I64:
        """The score of each host with its rank before it."""


class HostOrder:
    """The hosts that take a task of a shape, by their scores."""

    def __init__(self, shape: Asking) -> None:
        self._shape = shape
        self._epoch = -1
        self._order: Sequence[I64] = ()
        self._at = 0
        self._recent: list[tuple[int, int]] = []
        self._seen = 0

    def key(self, view: View, host: int) -> int:
        """The score of one host, with its rank before it."""
        order = self._shape.order
        return int(view.score[host]) + (0 if order is None else int(order[host]))

    def refresh(self, view: View) -> None:
        """Brings the order of hosts up to what was put on the view since."""
        shape = self._shape
        if self._epoch != view.epoch:
            hosts = feasible(view.free, shape.need, shape.open)
            score = shape.scores(view.score)[hosts]
            order = np.argsort(score, kind="stable")
            self._order = [score[order], hosts[order]]
            self._at, self._recent = 0, []
            self._epoch, self._seen = view.epoch, len(view.touched)
            return
        if self._seen < len(view.touched):
            for host in dict.fromkeys(view.touched[self._seen :]):
                if shape.open[host]:
                    heappush(self._recent, (self.key(view, host), host))
            self._seen = len(view.touched)

    def took(self, view: View, host: int) -> None:
        """The host that came up took tasks of the shape."""
        heappush(self._recent, (self.key(view, host), host))
        self._seen = len(view.touched)

    def next(self, view: View, most: int) -> tuple[int, int]:
        """The host with least free that holds a task, and how many it holds; 0: there is none.

        What doesn't fit any more, or has moved in the order, is dropped.
        """
        scores_, hosts = self._order
        shape, recent = self._shape, self._recent
        while recent or self._at < len(hosts):
            best = (int(scores_[self._at]), int(hosts[self._at])) if self._at < len(hosts) else None
            from_kept = best is not None and (not recent or best < recent[0])
            score, host = best if best is not None and from_kept else recent[0]
            if self.key(view, host) == score and shape.open[host]:
                fit = min(most, shape.most)
                for have, one in zip(view.free[:, host].tolist(), shape.need, strict=True):
                    if one and have // one < fit:
                        fit = have // one
                if fit > 0:
                    return host, fit
            if from_kept:
                self._at += 1
            else:
                heappop(recent)
        return 0, 0
