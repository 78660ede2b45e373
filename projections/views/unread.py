"""Content of other topics, until a machine has read it.

The series of a machine are as that machine saw the cell: what another topic says counts from the round on that covers
it. So they follow from the machine's topic alone, whichever of the two topics is folded first.
"""

from collections import deque
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from events.topics import RANK
from projections.views import tables
from projections.views.cache import Lines
from projections.views.series_rows import UnreadRow


class Unread:
    """The content of one topic that one machine has not read yet: items, each a tuple that MessagePack can write."""

    def __init__(self, lines: Lines[UnreadRow], machine: str, topic: str) -> None:
        self._lines = lines
        self._key = (machine, RANK[topic])
        self._items: deque[tuple[int, int, Any]] = deque()
        self._written = 0
        """The number of them, from the first on, that are in the file."""

    def restore(self, connection: Connection) -> None:
        """Finds the items again."""
        rows = tables.unread.c
        mine = (rows.machine == self._key[0]) & (rows.topic == self._key[1])
        query = select(rows.offset, rows.place, rows.item).where(mine).order_by(rows.offset, rows.place)
        for offset, place, item in connection.execute(query):
            self._items.append((offset, place, msgspec.msgpack.decode(item)))
        self._written = len(self._items)

    def add(self, offset: int, *item: Any) -> None:
        """A record says something."""
        last = self._items[-1] if self._items else (-1, 0, None)
        self._items.append((offset, last[1] + 1 if last[0] == offset else 0, item))

    def items(self) -> list[Any]:
        """The items, in order."""
        return [item for _, _, item in self._items]

    def read(self, position: int) -> list[Any]:
        """The machine has read the topic up to a position: what is said before that."""
        items = []
        while self._items and self._items[0][0] < position:
            items.append(self._items.popleft()[2])
        if items and self._written:
            self._lines.delete("machine = ? AND topic = ? AND offset < ?", [(*self._key, position)])
            self._written = max(0, self._written - len(items))
        return items

    def flush(self) -> None:
        """Writes the items that aren't in the file yet."""
        for at in range(self._written, len(self._items)):
            offset, place, item = self._items[at]
            self._lines.add(*self._key, offset, place, msgspec.msgpack.encode(item))
        self._written = len(self._items)
