"""Why units can't be admitted: for good, until hosts or pools change, or now."""

from collections.abc import Sequence
from typing import NamedTuple

from events.codes import Code
from events.resources import Vector
from processors.entitlement.parts import FIRM
from processors.entitlement.rows import CellRow, PoolRow
from processors.state.table import Table


class Refusal(NamedTuple):
    """A code, and the pool that says no."""

    code: Code
    at: str


def refused_for_good(
    pools: Table[str, PoolRow],
    cell: CellRow,
    levels: Sequence[str],
    kind: int,
    need: Vector,
    tasks: Sequence[Vector],
) -> Refusal | None:
    """Why a unit of a class that needs so much can't be admitted before hosts or pools change, whoever leaves; `levels`
    are its pool and those above, `tasks` what its tasks need. None: it can.
    """
    pool = levels[0]
    if pool not in pools:
        return Refusal(Code.NO_SUCH_POOL, pool)
    for level in levels:
        if any(0 <= most < want for most, want in zip(pools[level].limit, need, strict=True)):
            return Refusal(Code.LIMIT_REACHED, level)
    if kind & FIRM:
        for level in levels[:-1]:
            if exceeds(need, pools[level].reservation):
                return Refusal(Code.RESERVATION_REACHED, level)
    if cell.hosts and (exceeds(need, cell.capacity) or any(map(cell.lacks, tasks))):
        return Refusal(Code.NEVER_FITS, "/")
    return None


def exceeds(need: Vector, room: Vector) -> bool:
    """Whether more is needed of a kind than there is."""
    return any(want > have for want, have in zip(need, room, strict=True) if want > 0)
