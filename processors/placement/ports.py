"""The port numbers of the tasks that have a place.

A task most often has the lowest numbers that its host has free, which are neighbours: of it are kept the first number
and how many, as columns over the slots of the arena. They stand in rows of 64 tasks, of which there are only those with
a task that has ports, so jobs without ports cost nothing here. Other numbers (those that a job names, and what was free
between others) stand in a row of their own, in their order.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from events.columns import FEW, I32, I64, indexed
from processors.state.table import Table, struct_table

BLOCK = 64
"""Tasks in a row: few, as most often few tasks of neighbouring slots begin or end in a round."""
FIRST, COUNT = 0, 1


class TaskPorts:
    """Port numbers by the slot of their task."""

    def __init__(self) -> None:
        self.ranges: Table[int, I32] = Table("port_ranges", np.ndarray.tobytes, _unpack, int)
        self.ranges.columns = ("first", "count")
        self.scattered: Table[int, list[int]] = struct_table("scattered_ports", list[int], int)
        """Numbers that are no range."""

    @property
    def tables(self) -> tuple[Table[int, I32], Table[int, list[int]]]:
        """All rows."""
        return self.ranges, self.scattered

    def __len__(self) -> int:
        return len(self.ranges) + len(self.scattered)

    def __getitem__(self, slot: int) -> Sequence[int]:
        """The numbers of the task at a slot, in the order in which they were given."""
        row = self.ranges.get(slot // BLOCK)
        count = int(row[COUNT, slot % BLOCK]) if row is not None else 0
        if row is None or not count:
            return self.scattered.get(slot, ())
        first = int(row[FIRST, slot % BLOCK])
        return range(first, first + count)

    def put(self, slot: int, ports: list[int]) -> None:
        """The task at a slot, which has none, has these."""
        first, count = ports[0], len(ports)
        if count > 1 and ports != [*range(first, first + count)]:
            self.scattered.put(slot, ports)
            return
        number, ranges = slot // BLOCK, self.ranges
        row = ranges.change(number) if number in ranges else ranges.put(number, np.zeros((2, BLOCK), dtype=np.int32))
        row[FIRST, slot % BLOCK], row[COUNT, slot % BLOCK] = first, count

    def take_away(self, slots: I64) -> list[tuple[int, Sequence[int]]]:
        """Tasks have no ports any more; returns those that had some, with their numbers."""
        had = [(slot, ports) for slot in self._candidates(slots) if (ports := self[slot])]
        blocks: dict[int, None] = {}
        for slot, _ in had:
            if slot in self.scattered:
                self.scattered.remove(slot)
            else:
                number = slot // BLOCK
                blocks[number] = None
                self.ranges.change(number)[:, slot % BLOCK] = 0
        for number in blocks:
            if not self.ranges[number][COUNT].any():
                self.ranges.remove(number)
        return had

    def move(self, start: int, tasks: int, to: int) -> None:
        """The tasks of a job have other slots."""
        for slot, ports in self.take_away(np.arange(start, start + tasks)):
            self.put(slot + to - start, [*ports])

    def items(self) -> Iterator[tuple[int, Sequence[int]]]:
        """The slots of all tasks that have ports, with their numbers."""
        yield from self.scattered.items()
        for number, row in self.ranges.items():
            for at in np.flatnonzero(row[COUNT]).tolist():
                yield number * BLOCK + at, self[number * BLOCK + at]

    def _candidates(self, slots: I64) -> list[int]:
        """Those of some slots that are near others with ports."""
        ranges, scattered = self.ranges, self.scattered
        if len(slots) <= FEW:
            return [slot for slot in slots.tolist() if slot // BLOCK in ranges or slot in scattered]
        numbers, index = indexed(slots // BLOCK)
        near = np.array([number in ranges for number in numbers.tolist()], dtype=np.bool_)[index]
        if scattered:
            near |= np.isin(slots, [*scattered])
        there: list[int] = slots[near].tolist()
        return there


def _unpack(row: bytes) -> I32:
    return np.frombuffer(row, dtype="<i4").reshape(2, BLOCK).copy()
