"""Hosts that offer less than is held there, and their surplus; `surplus.py` has what follows from it.

What a host lends is no part of that (`slack.py`), nor are ports: whoever has a number keeps it.
"""

import numpy as np

from events.columns import I64
from events.resources import REVOCABLE, Kinds


class Shrunken:
    """The hosts to look at, by number. Amounts are columns over hosts, or of one, by kind, ports last."""

    def __init__(self, kinds: Kinds) -> None:
        self.watched: dict[int, None] = {}
        """Those that offered less than was held there at some time since they made their offer."""
        self._own_kinds = np.array([name != REVOCABLE for name in kinds.names], dtype=np.bool_)

    def watch(self, number: int, is_short: bool) -> None:
        """Notes whether a host is short with the offer that it makes now."""
        if is_short:
            self.watched[number] = None
        else:
            self.watched.pop(number, None)

    def forget(self, number: int) -> None:
        """A host offers nothing any more."""
        self.watched.pop(number, None)

    def short(self, used: I64, capacity: I64) -> list[int]:
        """The hosts that are short now."""
        numbers: list[int] = np.flatnonzero((used > capacity)[:-1][self._own_kinds].any(axis=0)).tolist()
        return numbers

    def surplus(self, used: I64, capacity: I64) -> I64:
        """The amounts of one that are held beyond what is offered, ports left out."""
        return np.where(self._own_kinds, np.maximum(used[:-1] - capacity[:-1], 0), 0)
