"""What a task of a part adds to the counts of the part and to the sums of its pool, by the state in which it is."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from events.columns import I32, I64

WAITS, IS_ENTITLED, IS_BORROWED, HAS_PLACE, LEAVES, IS_PARKED = (1 << bit for bit in range(6))
"""The state of a task in bits."""
STATES = 64
BITS_OF_RANK = (0, IS_ENTITLED, IS_BORROWED, IS_ENTITLED | IS_PARKED, IS_ENTITLED)
"""What the state of a task has of its rank, by `Rank`; one that is to be parked holds what it held."""


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


CLAIMS = [claims(state) for state in range(STATES)]


def loans(state: int) -> bool:
    """Whether a task in a state is borrowed and has no place."""
    return state & (IS_BORROWED | HAS_PLACE) == IS_BORROWED


Numbers = list[int] | I64 | I32


class Passed(NamedTuple):
    """Tasks of a job that passed from a state to another, and since which second each was, and is, entitled without a
    place. `owner` is the base of the job plus 1.
    """

    owner: int
    was: int
    is_: int
    slots: Numbers
    since: Numbers
    due_s: Numbers


def apart(
    owners: list[int], slots: list[int], before: list[int], since: list[int], after: list[int], due_s: list[int]
) -> Iterator[Passed]:
    """What has passed of tasks that are few, or of about as many jobs; ascending by job and states."""
    groups: dict[tuple[int, int, int], tuple[list[int], list[int], list[int]]] = {}
    for owner, slot, was, from_, is_, due in zip(owners, slots, before, since, after, due_s, strict=True):
        if was == is_ and from_ == due:
            continue
        columns = groups.setdefault((owner, was, is_), ([], [], []))
        columns[0].append(slot)
        columns[1].append(from_)
        columns[2].append(due)
    for name, columns in sorted(groups.items()):
        yield Passed(*name, *columns)
