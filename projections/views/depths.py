"""Depths of rounds in the order of cause and effect: an effect sorts after its cause."""

import sqlite3
from bisect import bisect_left

DEPTHS_KEPT = 4096
_DEPTH_BEFORE = "SELECT depth FROM rounds WHERE machine = ? AND position < ? ORDER BY position DESC LIMIT 1"


class Depths:
    """The depths of a machine's rounds in the order of cause and effect: the newest in memory, the others in
    the views.
    """

    def __init__(self, machine: str, older: bool) -> None:
        self._machine = machine
        self._older = older
        """Whether the views hold rounds that aren't in memory."""
        self._offsets: list[int] = []
        self._depths: list[int] = []

    def add(self, offset: int, depth: int) -> None:
        """The next accepted round."""
        self._offsets.append(offset)
        self._depths.append(depth)
        if len(self._offsets) > 2 * DEPTHS_KEPT:
            del self._offsets[:DEPTHS_KEPT], self._depths[:DEPTHS_KEPT]
            self._older = True

    def before(self, position: int, connection: sqlite3.Connection) -> int:
        """The depth of the last round before a position; 0 where there is none."""
        at = bisect_left(self._offsets, position)
        if at or not self._older:
            return self._depths[at - 1] if at else 0
        [(depth,)] = connection.execute(_DEPTH_BEFORE, (self._machine, position)).fetchall() or [(0,)]
        return int(depth)
