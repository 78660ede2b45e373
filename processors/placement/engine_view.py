"""The engine as one decision uses it: brought up to what is free, told of what is put by other ways.

What a decision puts stays on the engine. The next one finds there what was accepted, and so touches only hosts that
differ from it: those that have changed since, and those of a decision that came to nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from events.columns import I64, distinct
from processors.placement import constraints
from processors.placement.engine.columns import CLOSED, I8, SPREAD
from processors.placement.engine.compiled import VECTORS, now
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import EMPTY, Request, Shape
from processors.placement.hosts import Hosts

__all__ = ["CLOSED", "ENGINE_FROM", "Asked", "EngineView", "of"]

ENGINE_FROM = 2000
"""From so many hosts on the engine decides; with fewer a look at all is as quick, and finds the same."""


class Conditions(NamedTuple):
    """The key of a set of conditions whose ranks the engine is given."""

    request: constraints.Request

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it looks at by itself: none."""
        return ()

    def rank(self, values: Mapping[str, str]) -> int:
        """The rank until others are given."""
        return 0


class Asked(NamedTuple):
    """The shape of tasks. `need`: ports behind the kinds; `ranks`: that of each host, or CLOSED; None where they are
    those that the engine has.
    """

    need: tuple[int, ...]
    strategy: int
    request: constraints.Request
    ranks: I8 | None


def of(hosts: Hosts, free: I64) -> "EngineView | None":
    """The engine with so much free; None where there are few hosts."""
    if len(hosts.ids) < ENGINE_FROM:
        return None
    if hosts.engine is None or hosts.engine.is_worn:
        ports, lent = len(hosts.kinds), hosts.kinds.revocable
        hosts.engine = Engine(ports + 1, unweighed=[ports] if lent < 0 else [ports, lent])
    hosts.engine.kernels = now()
    hosts.engine.synchronise(free, hosts.capacity, hosts.up, hosts.runs, hosts.load)
    return EngineView(hosts.engine)


class EngineView:
    """The engine in one decision."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed: list[I64] = []
        """Hosts on which something was put by other ways."""

    @property
    def is_compiled(self) -> bool:
        """Whether many tasks at once are placed quickly."""
        return self._engine.kernels is not VECTORS

    def changed(self, hosts: I64) -> None:
        """Something was put on hosts, by other ways."""
        self._changed.append(hosts)

    def is_up_to_date(self) -> None:
        """Says that the engine itself put what was put last."""
        self._changed.clear()

    def place(self, task: Asked, count: int, level: I64 | None, whole: bool, free: I64) -> I64:
        """Puts tasks, or if `whole` all of them or none; returns a host for each. `level`: the tasks of the job on each
        host, where they are spread.
        """
        if self._changed:
            hosts = distinct(np.concatenate(self._changed))
            self._engine.update(hosts, free[:, hosts])
            self._changed.clear()
        conditions = Conditions(task.request)
        if task.ranks is not None:
            self._engine.ranked(conditions, task.ranks)
        shape, job = Shape(task.need, task.strategy, conditions), EMPTY
        if task.strategy == SPREAD:
            assert level is not None
            there = np.flatnonzero(level)
            job = np.stack([there, level[there]], axis=1)
        return self._engine.place([Request(shape, count, whole, job)])[0]
