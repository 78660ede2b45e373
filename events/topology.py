"""The levels of the tree in which the hosts of a cell are near each other or not (decision 107).

A level is an attribute of hosts, and hosts with one value of it are a group. The levels may end with the host itself,
and below it the groups of cards within a host that are linked directly.
"""

from collections.abc import Sequence

from events.bounds import WORD_MAX

HOST = "host"
"""In place of an attribute: the host itself."""
LINK_GROUP = "link_group"
"""In place of an attribute: cards of one host that are linked directly, as by NVLink."""
LEVELS_MAX = 8


def levels_fault(levels: Sequence[str]) -> str:
    """Why levels, the largest first, are no tree of hosts; empty: they are."""
    if len(levels) > LEVELS_MAX:
        return f"names {len(levels)} levels, at most {LEVELS_MAX} are allowed"
    for at, name in enumerate(levels):
        if not 1 <= len(name) <= WORD_MAX:
            return f"names a level of {len(name)} characters, 1 to {WORD_MAX} are allowed"
        if name in levels[:at]:
            return f"names {name} twice"
        if name == LINK_GROUP and (not at or levels[at - 1] != HOST):
            return f"names {LINK_GROUP}, groups of cards within a host, and not {HOST} just before it"
        if at and levels[at - 1] == LINK_GROUP:
            return f"names {name} below {LINK_GROUP}, which is the last level"
        if at and levels[at - 1] == HOST and name != LINK_GROUP:
            return f"names {name} below {HOST}, where {LINK_GROUP} alone may be"
    return ""
