"""The engine as one decision uses it: brought up to what is free, told of what is put by other ways.

What a decision puts stays on the engine. The next one finds there what was accepted, and so touches only hosts that
differ from it: those that have changed since, and those of a decision that came to nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64, distinct
from processors.placement import constraints
from processors.placement.engine.columns import CLOSED, I8, SPREAD, Ruled
from processors.placement.engine.compiled import VECTORS, now
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import EMPTY, Request, Shape
from processors.placement.hosts import Hosts
from processors.placement.neighbours import Request as RuledRequest

__all__ = ["CLOSED", "ENGINE_FROM", "Asked", "EngineView", "OnEngine", "of"]

ENGINE_FROM = 2000
"""From so many hosts on the engine decides; with fewer a look at all is as quick, and finds the same."""


class Conditions(NamedTuple):
    """The key of a set of conditions whose ranks the engine is given."""

    request: constraints.Request
    ports: tuple[int, ...]
    """Those that each task must have: hosts where others have them are closed."""
    exclusive: bool
    """Hosts that tasks have for themselves aren't closed."""

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
    conditions: Conditions
    ranks: I8 | None


def of(hosts: Hosts, free: I64) -> "EngineView | None":
    """The engine with so much free; None where there are few hosts."""
    if len(hosts.ids) < ENGINE_FROM:
        hosts.engine = None
        return None
    if hosts.engine is None or hosts.engine.is_worn:
        ports, lent = len(hosts.kinds), hosts.kinds.revocable
        hosts.engine = Engine(ports + 1, unweighed=[ports] if lent < 0 else [ports, lent])
    hosts.engine.kernels = now()
    hosts.engine.synchronise(free, hosts.capacity, hosts.up, hosts.runs, hosts.load, hosts.offers)
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
        shape, job = self._shape(task, free), EMPTY
        if task.conditions.ports:
            shape = shape._replace(limit=1)
        if task.strategy == SPREAD:
            assert level is not None
            there = np.flatnonzero(level)
            job = np.stack([there, level[there]], axis=1)
        return self._engine.place([Request(shape, count, whole, job)])[0]

    def place_ruled(self, task: Asked, count: int, rules: Ruled, over: str, groups: I64 | None, free: I64) -> I64:
        """Puts tasks one by one where rules allow it; returns a host for each that has one. `groups`: those over which
        they are spread, by a name.
        """
        shape = self._shape(task, free)
        if groups is not None:
            self._engine.grouped(over, groups)
            shape = shape._replace(over=over)
        return self._engine.place_ruled(shape, count, rules)

    def mark(self) -> int:
        """Where a `rollback` goes back to."""
        return self._engine.mark()

    def rollback(self, mark: int) -> None:
        """Takes off what the engine has put since."""
        self._engine.rollback(mark)

    def _shape(self, task: Asked, free: I64) -> Shape:
        """The shape of tasks, on an engine that knows what is free."""
        if self._changed:
            hosts = distinct(np.concatenate(self._changed))
            self._engine.update(hosts, free[:, hosts])
            self._changed.clear()
        if task.ranks is not None:
            self._engine.ranked(task.conditions, task.ranks)
        return Shape(task.need, task.strategy, task.conditions)


class OnEngine:
    """The engine as it chooses hosts by rules. `shapes`: that of each part."""

    def __init__(self, engine: EngineView, shapes: Sequence[Asked], free: I64) -> None:
        self._engine, self._shapes, self._free = engine, shapes, free
        self._mark = engine.mark()
        self._has_put = False

    @staticmethod
    def can_be(request: RuledRequest) -> bool:
        """Whether it knows the rules: not wishes, devices, groups of single hosts, tasks that spread within groups."""
        spread_ = request.rules.spread
        if request.rules.wishes or request.rules.devices is not None or request.cards is not None:
            return False
        return spread_ is None or (not request.spread and len(spread_.counts) * 16 <= len(request.open_))

    def choose(self, at: int, request: RuledRequest) -> I64:
        """A host for each task of a part that has one."""
        self._has_put = True
        rules, spread_ = request.rules, request.rules.spread
        columns = rules.columns(request.open_, bool(request.ports))
        groups = None if spread_ is None else spread_.groups
        return self._engine.place_ruled(
            self._shapes[at], request.size, columns, rules.rules.spread_over, groups, self._free
        )

    def are_placed(self) -> None:
        """The tasks of all parts were put where it has put them, or others were found and it has put none."""
        if self._has_put:
            self._engine.is_up_to_date()

    def leave(self) -> None:
        """Nothing of it stays."""
        self._has_put = False
        self._engine.rollback(self._mark)
