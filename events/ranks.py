"""Ranks of admission: what each means, and its number in the column `entitled` of GangsAdmitted and AdmissionsRanked.

`RANKS` has a row for each; whoever asks what a rank means asks that table, by the functions below.
"""

from collections.abc import Sequence
from typing import NamedTuple

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


class RankRow(NamedTuple):
    """The meaning of a rank."""

    rank: Rank
    placed: Rank
    """The rank of its tasks once they have a place."""
    written: int | None = None
    """Its number in the column `entitled`; None: other records bring it about."""
    served: int | None = None
    """The place of its tasks in the order in which those are served that wait for a place; None: they don't."""
    entitled: bool = False
    """Whether it is within the entitlement of its pool. Only such units have plans of preemption."""
    parked: bool = False
    """Whether it holds nothing under limits. A task that is to be parked holds what it held."""
    reserves: bool = False
    """Whether hosts may be reserved for it."""


RANKS = (
    RankRow(Rank.WAITING, Rank.WAITING),
    RankRow(Rank.ENTITLED, Rank.ENTITLED, written=1, served=0, entitled=True, reserves=True),
    RankRow(Rank.BORROWED, Rank.BORROWED, written=0, served=2),
    RankRow(Rank.PARKED, Rank.ENTITLED, served=1, entitled=True, parked=True, reserves=True),
    RankRow(Rank.PARKING, Rank.ENTITLED, written=2, served=3, entitled=True),
)
"""The rows by number. A task is PARKED by GangsParked, and WAITING by what ends its admission."""

SERVED = tuple(rank for _, rank in sorted((row.served, row.rank) for row in RANKS if row.served is not None))
"""The ranks at which tasks wait for a place, in the order in which they are served."""
RESERVES = tuple(row.rank for row in RANKS if row.reserves)
"""The ranks for which hosts may be reserved."""
_WRITTEN = sorted((row.written, row.rank) for row in RANKS if row.written is not None)
_OF_NUMBER = np.array([rank for _, rank in _WRITTEN], dtype=np.int32)
"""The ranks by their number in the column."""
_NUMBERS = np.array([-1 if row.written is None else row.written for row in RANKS], dtype=np.int32)
_ENTITLED = np.array([row.entitled for row in RANKS])
_PLACED = np.array([row.placed for row in RANKS], dtype=np.int32)


def ranks_of(event: GangsAdmitted | AdmissionsRanked) -> I32:
    """The rank of each range of a record."""
    ranks: I32 = _OF_NUMBER[event.entitled_array.clip(0, len(_OF_NUMBER) - 1)]
    return ranks


def entitled_of(ranks: Sequence[Rank] | I32 | I64) -> I32:
    """The values of the column for ranks of ranges: ENTITLED, BORROWED or PARKING."""
    numbers: I32 = _NUMBERS[np.asarray(ranks)]
    return numbers


def are_entitled(ranks: I32) -> NDArray[np.bool_]:
    """Return for each rank whether it is within the entitlement of its pool, parked or not."""
    entitled: NDArray[np.bool_] = _ENTITLED[ranks]
    return entitled


def with_place(ranks: I32) -> I32:
    """The rank of tasks once they have a place, by the one that they had."""
    placed: I32 = _PLACED[ranks]
    return placed
