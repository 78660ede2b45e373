"""Ranks of admission, and how records have them: the column `entitled` of GangsAdmitted and AdmissionsRanked."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from events.codes import Number
from events.columns import I32, I64
from events.records.entitlement import AdmissionsRanked, GangsAdmitted


class Rank(Number):
    """By what right a task is admitted (the column `rank` of entitlement and placement)."""

    WAITING = 0
    """It isn't admitted."""
    ENTITLED = 1
    """Within the entitlement of its pool; without a place it is a claim, for which others may have to leave."""
    BORROWED = 2
    """Beyond it, onto what others don't use now."""
    PARKED = 3
    """Entitled, and holds nothing under limits: placement asks before it places it."""
    PARKING = 4
    """Entitled; placement was asked to park it."""


_WRITTEN = (Rank.BORROWED, Rank.ENTITLED, Rank.PARKING)
"""By what stands in the column. A task is PARKED by GangsParked, and WAITING by what ends its admission."""
_RANKS = np.array(_WRITTEN, dtype=np.int32)
_NUMBERS = np.array([_WRITTEN.index(rank) if rank in _WRITTEN else -1 for rank in Rank], dtype=np.int32)


def ranks_of(event: GangsAdmitted | AdmissionsRanked) -> I32:
    """The rank of each range of a record."""
    ranks: I32 = _RANKS[event.entitled_array.clip(0, len(_RANKS) - 1)]
    return ranks


def entitled_of(ranks: Sequence[Rank] | I32 | I64) -> I32:
    """The values of the column for ranks of ranges: ENTITLED, BORROWED or PARKING."""
    numbers: I32 = _NUMBERS[np.asarray(ranks)]
    return numbers


def are_entitled(ranks: I32) -> NDArray[np.bool_]:
    """Return for each rank whether it is within the entitlement of its pool, parked or not."""
    entitled: NDArray[np.bool_] = (ranks != Rank.WAITING) & (ranks != Rank.BORROWED)
    return entitled
