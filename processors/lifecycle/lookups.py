"""Small arrays that give a code for a code, for all slots at once."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from events.columns import I32, I64

Mask = NDArray[np.bool_]
Lookup = NDArray[Any]
CODES_MAX = 256


def table(codes: Iterable[int], kind: DTypeLike = np.uint8) -> Lookup:
    """The code at each index."""
    return np.array([*codes], dtype=kind)


def among(values: I32 | I64, codes: Iterable[int]) -> Mask:
    """True where a code of a machine (a state, an outcome, a verdict) is among `codes`."""
    mask: Mask = _among(tuple(codes)).take(values, mode="clip")
    return mask


@cache
def _among(codes: tuple[int, ...]) -> Mask:
    mask = np.zeros(CODES_MAX, dtype=np.bool_)
    mask[list(codes)] = True
    return mask
