"""The credit that a pool saves for a turn: when it suffices, and when some is left. There is of each kind the amount
that it has, the amount by which it grows each millisecond, and what suffices (0: the pool isn't short of it).
"""

from collections.abc import Sequence


def suffices_after(credit: Sequence[int], rate: Sequence[int], full: Sequence[int], goes_on: bool) -> int | None:
    """The milliseconds after which a credit suffices; None: it doesn't as it is now. `goes_on`: the last turn of the
    pool has left some (`is_left`), so that the next one begins at once.
    """
    if not any(full):
        return None
    if goes_on:
        return 0
    latest = 0
    for have, more, most in zip(credit, rate, full, strict=True):
        if most and more < 0:
            return None  # it is being used
        if most and have < most:
            if not more:
                return None
            latest = max(latest, -((have - most) // more))
    return latest


def is_left(credit: Sequence[int], rate: Sequence[int], full: Sequence[int], passed_ms: int) -> bool:
    """Whether a turn that ends so many milliseconds after its credit was set leaves something of each kind."""
    return all(have + more * passed_ms > 0 for have, more, most in zip(credit, rate, full, strict=True) if most)
