"""Words of sentences that people read."""

from collections.abc import Mapping, Sequence


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int, count: int = 0) -> str:
    """Names the first few, and says how many more there are: `a, b and 3 more`. `count`: of so many; 0: of `names`."""
    more = (count or len(names)) - min(most, len(names))
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


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


_VERBS: Mapping[str, tuple[str, str]] = {
    "kept for others": ("is kept for others", "are kept for others"),
    "host limit": ("has as many tasks of the job as it may", "have as many tasks of the job as they may"),
    "affinity": ("has no task beside it that is wanted", "have no tasks beside them that are wanted"),
    "anti-affinity": ("is beside tasks kept apart", "are beside tasks kept apart"),
    "spread": ("has as much of the job as its spread allows", "have as much of the job as its spread allows"),
    "spread target": ("has as much of the job as its target allows", "have as much of the job as their targets allow"),
    "other tasks": ("has tasks of other jobs (`exclusive`)", "have tasks of other jobs (`exclusive`)"),
    "within": ("is in no group that holds the gang", "are in no group that holds the gang"),
    "port taken": ("has the port taken", "have the port taken"),
    "offers less than runs there": ("offers less than runs there", "offer less than runs there"),
    **{
        name: (f"is {name}", f"are {name}")
        for name in (
            *("returning", "silent", "lost", "suspected", "tainted", "exclusive"),
            *("cordoned", "draining", "drained", "being checked"),
        )
    },
}
"""The words for hosts that lack no resource: for one, and for several."""


WITHIN = "within:"
"""Followed by an attribute: hosts are passed over since those with their value of it don't hold a gang."""
SEGMENTS = "segments:"
"""The same, since they hold no segment more."""


def why_not(by_reason: Mapping[str, int], counted: bool = True) -> str:
    """Why placement passes over hosts, by their number: `1,937 lack cpu, 63 lack memory`."""

    def one(name: str, count: int) -> str:
        if name.startswith("constraint:"):
            attribute = name.removeprefix("constraint:")
            verbs = f"doesn't match on {attribute}", f"don't match on {attribute}"
        elif name.startswith(WITHIN):
            there = f"in a {name.removeprefix(WITHIN)} too small for the gang"
            verbs = f"is {there}", f"are {there}"
        elif name.startswith(SEGMENTS):
            there = f"in a {name.removeprefix(SEGMENTS)} without room for a segment more"
            verbs = f"is {there}", f"are {there}"
        else:
            verbs = _VERBS.get(name, (f"lacks {name}", f"lack {name}"))
        return f"{count:,} {verbs[count != 1]}" if counted else verbs[count != 1]

    return ", ".join(one(name, count) for name, count in sorted(by_reason.items()))


def strategy_words(name: str, pool: str | None, own: bool) -> str:
    """A strategy and where it is from: `spread`, `spread (that of pool /x)`; `own`: who is asked for names it."""
    if own:
        return name
    return f"{name} (that of pool {pool})" if pool else f"{name} (the default)"


def image_pulls(hosts: int, have: int, faults: int, fault: str) -> str:
    """The number of hosts that have an image: `3 of 5 hosts have it, 1 can't: no such image`."""
    text = f"{have} of {plural(hosts, 'host')} {'has' if have == 1 else 'have'} it"
    return f"{text}, {faults} can't: {fault}" if faults else text
