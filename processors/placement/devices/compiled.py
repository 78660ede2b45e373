"""The kernels that score hosts with GPUs: as numpy, or compiled by numba. Their answers are the same."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from events.columns import I64
from processors.placement.devices import kernels, vectors
from processors.placement.devices.columns import TASK, GpuHosts, Mask, Worths, new_hosts, new_worths
from processors.placement.engine.compiled import compile_all


class Kernels(NamedTuple):
    """The functions that a board of hosts with GPUs calls."""

    best_host: Callable[[GpuHosts, Worths, I64, I64, Mask, int], int]
    card_of: Callable[[GpuHosts, Worths, I64, int], int]
    usable_by_all: Callable[[GpuHosts, Worths, I64], None]


LOOPS = Kernels(kernels.best_host, kernels.card_of, kernels.usable_by_all)
"""The loops as they stand, in plain Python: slow, for tests."""
VECTORS = Kernels(vectors.best_host, vectors.card_of, vectors.usable_by_all)


_now = [VECTORS]


def now() -> Kernels:
    """The kernels that decide in this process."""
    return _now[0]


def use(kernels_: Kernels) -> None:
    """From now on these decide, with the same answers."""
    _now[0] = kernels_


def compiled() -> Kernels:
    """The kernels compiled for the types that a board calls them with; raises ImportError where numba is missing."""
    hosts, worths, row, flat = new_hosts(1), new_worths(), np.zeros(TASK, dtype=np.int64), np.zeros(1, dtype=np.int64)
    arguments: dict[str, tuple[Any, ...]] = {
        "best_host": (hosts, worths, row, flat, np.zeros(1, dtype=np.bool_), 0),
        "card_of": (hosts, worths, row, 0),
        "usable_by_all": (hosts, worths, flat),
    }
    scope = compile_all((kernels,), (), arguments)
    return Kernels(*(scope[name] for name in Kernels._fields))
