"""What a task of a part adds to the counts of the part and to the sums of its pool, by the state in which it is."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

WAITS, IS_ENTITLED, IS_BORROWED, HAS_PLACE, LEAVES, IS_PARKED = (1 << bit for bit in range(6))
"""The state of a task in bits."""
STATES = 64


class Passage(NamedTuple):
    """What one task adds to counts and sums when it passes from a state to another."""

    queued: int
    entitled: int
    borrowed: int
    claims: int
    loans: int
    sums: tuple[tuple[str, int], ...]


@cache
def passage_of(before: int, after: int, preemptible: bool, controller: bool, daemon: bool) -> Passage:
    """The passage of a task of a class between two states."""

    def more(is_counted: Callable[[int], bool]) -> int:
        return is_counted(after) - is_counted(before)

    def holds(state: int) -> bool:
        return state & (IS_ENTITLED | IS_BORROWED) > 0

    placed = more(lambda state: state & HAS_PLACE > 0)
    sums = {
        "allocation": more(lambda state: holds(state) and not state & IS_PARKED),
        "parked": more(lambda state: state & IS_PARKED > 0),
        "firm": 0 if preemptible else more(holds),
        "controllers": more(holds) if controller else 0,
        "placed": placed,
        "leaving": more(lambda state: state & HAS_PLACE > 0 and state & LEAVES > 0),
        "claims": more(claims),
        "loans": more(loans),
    }
    counted = sums
    if daemon:
        counted = {"allocation": sums["allocation"], "daemons": more(holds), "daemons_placed": placed}
    return Passage(
        more(lambda state: state & WAITS > 0),
        more(lambda state: state & IS_ENTITLED > 0),
        more(lambda state: state & IS_BORROWED > 0),
        sums["claims"],
        sums["loans"],
        tuple((name, sign) for name, sign in counted.items() if sign),
    )


def claims(state: int) -> bool:
    """Whether a task in a state is entitled and has no place."""
    return state & (IS_ENTITLED | HAS_PLACE) == IS_ENTITLED


def loans(state: int) -> bool:
    """Whether a task in a state is borrowed and has no place."""
    return state & (IS_BORROWED | HAS_PLACE) == IS_BORROWED
