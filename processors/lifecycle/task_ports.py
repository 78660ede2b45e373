"""The ports of tasks that have some, from their place to the end of their run."""

from collections.abc import Callable
from typing import Any

from events.columns import I64
from events.records.placement import TasksPlaced
from processors.lifecycle.lookups import Mask
from processors.state.table import Table, struct_table


class TaskPorts:
    """The table of port numbers, by job and instance. `task_at`: the job and the instance at a slot."""

    def __init__(self, task_at: Callable[[int], tuple[str, int]]) -> None:
        self.table: Table[tuple[str, int], list[int]] = struct_table("ports", list[int], tuple[str, int])
        self._task_at = task_at

    def of(self, job_id: str, instance: int) -> list[int] | None:
        """The ports of a task; None where it has none."""
        return self.table.get((job_id, instance))

    def placed(self, event: TasksPlaced, exists: Mask) -> None:
        """Tasks have places; `exists`: which of those that the record names there are."""
        ports, at = event.ports_array.tolist(), 0
        columns: Any = (column.tolist() for column in (event.job_array, event.instance_array, event.port_count_array))
        for index, instance, count, is_there in zip(*columns, exists, strict=True) if ports else ():
            if count and is_there:
                self.table.put((event.job_ids[index], instance), ports[at : at + count])
            at += count

    def ended(self, slots: I64) -> None:
        """The runs of these slots are over."""
        for task in map(self._task_at, slots.tolist()) if len(self.table) else ():
            if task in self.table:
                self.table.remove(task)
