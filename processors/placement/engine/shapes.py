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
    """The attribute over whose values tasks of a job are spread, by rules."""


class Request(NamedTuple):
    """Tasks of a job and one shape that are to be placed one by one, or all of them or none."""

    shape: Shape
    tasks: int
    whole: bool = False
    job: I64 = EMPTY
    """[pairs, 2]: a host, and how many tasks of the job are there."""
