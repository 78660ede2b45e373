"""Shapes of tasks, and requests for places."""

from typing import NamedTuple

import numpy as np

from events.columns import I64
from processors.placement.engine.columns import FAR, PACK
from processors.placement.engine.ranks import Conditions

EMPTY: I64 = np.zeros((0, 2), dtype=np.int64)


class Shape(NamedTuple):
    """The needs and wishes of one task. Equal shapes share what the engine knows of them."""

    need: tuple[int, ...]
    """An amount of each resource."""
    strategy: int = PACK
    conditions: Conditions | None = None
    limit: int = FAR
    """So many tasks of the job a host holds at most."""
    over: str = ""
    """The attribute over whose values tasks of a job are spread."""
    skew: int = 0
    """So many tasks more than the group with least a group has at most; 0: any number."""
    carries: tuple[str, ...] = ()
    """Its labels, each once."""
    shuns: tuple[tuple[str, str], ...] = ()
    """Labels and attributes: no task with the label may be within the same value. The attribute "": on the host."""
    wants: tuple[tuple[str, str], ...] = ()
    """A task with the label must be within the same value, if there is any or the task doesn't carry it itself."""
    exclusive: bool = False
    """No task of another job on its hosts."""


class Request(NamedTuple):
    """Tasks of a job and one shape that are to be placed one by one, or all of them or none."""

    shape: Shape
    tasks: int
    whole: bool = False
    job: I64 = EMPTY
    """[pairs, 2]: a host, and how many tasks of the job are there."""
    desired: int = -1
    """The host that the first task has if it can."""
    within: str = ""
    """All of them on hosts with one value of this attribute."""
    targets: tuple[tuple[str, int], ...] = ()
    """Percentages of the job's tasks by value of `over`. The other values share evenly what is left of 100."""
    total: int = 0
    """The number of the job's tasks, of which targets take their part, rounded up, and no more; 0: they are wishes."""
