"""Columns over the tasks of all jobs in blocks of 512, of which a bounded number is in memory.

A job has a stretch of neighbouring slots, so that one numpy operation serves the tasks of many jobs, and a block is
written once per batch however many of its tasks changed.
"""

from sqlite3 import Connection

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Table

from events.columns import I32, I64, distinct

BLOCK = 512
FRAMES = 2048
"""Blocks kept in memory: a million tasks."""


class Blocks:
    """int32 columns by name; the first is the state where `live` and `waiting` name states. `place` says where slots
    are in memory now; that holds until the next `flush`.
    """

    def __init__(
        self,
        table: Table,
        columns: tuple[str, ...],
        live: tuple[int, ...] = (),
        waiting: tuple[int, ...] = (),
        frames: int = FRAMES,
    ) -> None:
        self._name = table.name
        self._index = {name: at for at, name in enumerate(columns)}
        self._live = live
        self._waiting = waiting
        self._frames_max = frames
        self._matrix: I32 = np.zeros((len(columns), BLOCK), dtype=np.int32)
        self._block_of: I64 = np.full(1, -1, dtype=np.int64)
        self._frame_of: dict[int, int] = {}
        self._used: I64 = np.zeros(1, dtype=np.int64)
        self._dirty: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
        self._tick = 0
        self.connection: Connection | None = None

    def __getitem__(self, column: str) -> I32:
        """The column over all that is in memory; index it by what `place` gave, and call `touch` after a change."""
        row: I32 = self._matrix[self._index[column]]
        return row

    def place(self, slots: I64) -> I64:
        """Where slots are in memory, read from the file where they weren't."""
        block_numbers = slots // BLOCK
        blocks = distinct(block_numbers)
        numbers = blocks.tolist()
        missing = [number for number in numbers if number not in self._frame_of]
        if missing:
            self._load(np.array(missing, dtype=np.int64))
        frames = np.array([self._frame_of[number] for number in numbers], dtype=np.int64)
        self._tick += 1
        self._used[frames] = self._tick
        return frames[np.searchsorted(blocks, block_numbers)] * BLOCK + slots % BLOCK

    def touch(self, places: I64) -> None:
        """Marks the values at these places as changed."""
        self._dirty[places // BLOCK] = True

    def clear(self, start: int, size: int) -> None:
        """Frees a stretch of slots: they are 0 again. Blocks that lie in it go unread."""
        end = start + size
        first, last = -(-start // BLOCK), end // BLOCK
        if first < last:
            assert self.connection is not None
            self.connection.execute(f"DELETE FROM {self._name} WHERE block >= ? AND block < ?", (first, last))
            for number in [number for number in self._frame_of if first <= number < last]:
                frame = self._frame_of.pop(number)
                self._block_of[frame], self._dirty[frame] = -1, False
        edges = (start, min(end, first * BLOCK)), (max(start, first * BLOCK, last * BLOCK), end)
        self.zero(np.concatenate([np.arange(*edge, dtype=np.int64) for edge in edges]))

    def zero(self, slots: I64) -> None:
        """Slots are 0 again."""
        places = self.place(slots)
        self._matrix[:, places] = 0
        self.touch(places)

    def move(self, start: int, size: int, to: int) -> None:
        """Moves what is in a stretch of slots to another one, which is free."""
        old, new = self.place(np.arange(start, start + size)), self.place(np.arange(to, to + size))
        self._matrix[:, new] = self._matrix[:, old]
        self.touch(new)
        self.clear(start, size)

    def flush(self) -> None:
        """Writes the changed blocks, and removes those in which nothing is left; then forgets those that were used
        longest ago, if there are too many.
        """
        assert self.connection is not None
        frames = np.flatnonzero(self._dirty)
        rows, empty = [], []
        for frame in frames.tolist():
            data = self._matrix[:, frame * BLOCK : (frame + 1) * BLOCK]
            if not data.any():
                empty.append((int(self._block_of[frame]),))
                continue
            live, waiting = (int(np.isin(data[0], states).sum()) for states in (self._live, self._waiting))
            rows.append((int(self._block_of[frame]), live, waiting, data.tobytes()))
        if rows:
            text = f"INSERT OR REPLACE INTO {self._name} (block, live, waiting, data) VALUES (?, ?, ?, ?)"
            self.connection.executemany(text, rows)
        if empty:
            self.connection.executemany(f"DELETE FROM {self._name} WHERE block = ?", empty)
        self._dirty[:] = False
        loaded = np.flatnonzero(self._block_of >= 0)
        if len(loaded) > self._frames_max:
            oldest = loaded[np.argsort(self._used[loaded], kind="stable")][: len(loaded) - self._frames_max // 2]
            for number in self._block_of[oldest].tolist():
                del self._frame_of[number]
            self._block_of[oldest] = -1

    def _load(self, blocks: I64) -> None:
        frames = self._free_frames(len(blocks))
        self._frame_of.update(zip(blocks.tolist(), frames.tolist(), strict=True))
        self._block_of[frames] = blocks
        for frame in frames.tolist():
            self._matrix[:, frame * BLOCK : (frame + 1) * BLOCK] = 0
        assert self.connection is not None
        low, high = int(blocks[0]), int(blocks[-1])
        missing = set(blocks.tolist())
        text = f"SELECT block, data FROM {self._name} WHERE block BETWEEN ? AND ?"
        if high - low > 4 * len(blocks):
            text = f"SELECT block, data FROM {self._name} WHERE block IN ({','.join(map(str, blocks.tolist()))})"
        for block, data in self.connection.execute(text, (low, high) if "?" in text else ()):
            if block in missing:
                frame = self._frame_of[block]
                self._matrix[:, frame * BLOCK : (frame + 1) * BLOCK] = unpack(data, len(self._index))

    def _free_frames(self, count: int) -> I64:
        free = np.flatnonzero(self._block_of < 0)[:count]
        if len(free) == count:
            return free
        have = len(self._block_of)
        more = max(have, count)
        width = len(self._index)
        self._matrix = np.concatenate([self._matrix, np.zeros((width, more * BLOCK), dtype=np.int32)], axis=1)
        self._block_of = np.concatenate([self._block_of, np.full(more, -1, dtype=np.int64)])
        self._used = np.concatenate([self._used, np.zeros(more, dtype=np.int64)])
        self._dirty = np.concatenate([self._dirty, np.zeros(more, dtype=np.bool_)])
        return np.flatnonzero(self._block_of < 0)[:count]


def unpack(data: bytes, columns: int) -> I32:
    """A block's columns."""
    return np.frombuffer(data, dtype="<i4").reshape(columns, BLOCK)
