"""Words of sentences that people read."""

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def over_reserved(over: Sequence[tuple[str, str]]) -> str:
    """That pools reserve more than there is; `over`: what is reserved, and what the cell has, of each resource of
    which it is so. Empty: of none.
    """
    if not over:
        return ""
    reserved, have = (", ".join(each) for each in zip(*over, strict=True))
    return (
        f"the pools at the first level reserve {reserved}; the cell has {have}. Each gets its part of that in "
        "proportion to its reservation. Add hosts, or lower a reservation"
    )
