"""The devices of the tasks that have a place, by slot."""

from collections.abc import Iterator

from events.columns import I64
from processors.placement.devices.host_devices import Held
from processors.state.table import Table, struct_table


class TaskDevices:
    """A row for each task that has devices or cores of its own."""

    def __init__(self) -> None:
        self.table: Table[int, Held] = struct_table("task_devices", Held, int)

    def __len__(self) -> int:
        return len(self.table)

    def items(self) -> Iterator[tuple[int, Held]]:
        """The slots of all tasks that have some, with what they have."""
        yield from self.table.items()

    def put(self, slot: int, holding: Held) -> None:
        """The task at a slot, which has none, has these."""
        self.table.put(slot, holding)

    def take_away(self, slots: I64) -> list[int]:
        """Tasks have no devices any more; returns those that had some."""
        had = [slot for slot in slots.tolist() if slot in self.table] if len(self.table) else []
        for slot in had:
            self.table.remove(slot)
        return had

    def move(self, start: int, tasks: int, to: int) -> list[int]:
        """The tasks of a job have other slots; returns those before of tasks that have devices."""
        slots = [slot for slot in range(start, start + tasks) if slot in self.table]
        rows = [self.table[slot] for slot in slots]
        for slot in slots:
            self.table.remove(slot)
        for slot, row in zip(slots, rows, strict=True):
            self.table.put(slot + to - start, row)
        return slots
