"""The part of an entitlement that is for revocable work (decision 068)."""

from events.resources import Vector
from processors.entitlement.rows import UNLIMITED, PoolRow


def slack_limit(row: PoolRow, revocable: int) -> Vector:
    """The most to which revocable work of a pool may be entitled: a part of each reservation. `UNLIMITED` of what hosts
    lend, the kind `revocable`, and of what is divided by share alone.
    """
    return tuple(
        [
            row.slack_percent * amount // 100 if amount and kind != revocable else UNLIMITED
            for kind, amount in enumerate(row.reservation)
        ]
    )


def within_limit(row: PoolRow, amount: Vector, revocable: int) -> Vector:
    """An amount of revocable work of a pool, as far as it may be entitled to it."""
    pairs = zip(amount, slack_limit(row, revocable), strict=True)
    return tuple([want if most == UNLIMITED else min(want, most) for want, most in pairs])


def slack_of(row: PoolRow, entitlement: Vector, regular: Vector, revocable: int) -> Vector:
    """The amount to which revocable work of a pool may be entitled: what hosts lend to it, and of other kinds what its
    regular work, which wants `regular`, leaves of the entitlement.
    """
    leaves = [
        have if kind == revocable else max(0, have - want)
        for kind, (have, want) in enumerate(zip(entitlement, regular, strict=True))
    ]
    return within_limit(row, tuple(leaves), revocable)
