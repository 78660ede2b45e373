"""The ports, devices and whole cores of tasks that have some, from their place to the end of their run."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from events.columns import I64
from events.device_columns import RunDevice, device_fields, devices_of
from events.records.placement import TasksPlaced
from processors.lifecycle.lookups import Mask
from processors.state.table import Table, struct_table


class TaskPorts:
    """The tables of port numbers and of devices, by job and instance. `task_at`: the job and the instance at a slot."""

    def __init__(self, task_at: Callable[[int], tuple[str, int]]) -> None:
        self.table: Table[tuple[str, int], list[int]] = struct_table("ports", list[int], tuple[str, int])
        self.devices: Table[tuple[str, int], list[RunDevice]] = struct_table(
            "devices", list[RunDevice], tuple[str, int]
        )
        self.alternatives: Table[tuple[str, int], int] = struct_table("alternatives", int, tuple[str, int])
        """The alternative that a task took, of those that have some."""
        self._task_at = task_at

    def of(self, job_id: str, instance: int) -> list[int] | None:
        """The ports of a task; None where it has none."""
        return self.table.get((job_id, instance))

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All rows."""
        return self.table, self.devices, self.alternatives

    def device_columns(self, job_ids: Sequence[str], job: I64, instance: I64) -> dict[str, Any]:
        """The devices and alternatives of these tasks, as fields of a record; none where no task has any."""
        if not len(self.devices) and not len(self.alternatives):
            return {}
        tasks = [(job_ids[index], each) for index, each in zip(job.tolist(), instance.tolist(), strict=True)]
        took = [self.alternatives.get(task, -1) for task in tasks]
        return {**device_fields([self.devices.get(task) or [] for task in tasks]), "alternative": took}

    def placed(self, event: TasksPlaced, exists: Mask) -> None:
        """Tasks have places; `exists`: which of those that the record names there are."""
        ports, at = event.ports_array.tolist(), 0
        columns: Any = (column.tolist() for column in (event.job_array, event.instance_array, event.port_count_array))
        for index, instance, count, is_there in zip(*columns, exists, strict=True) if ports else ():
            if count and is_there:
                self.table.put((event.job_ids[index], instance), ports[at : at + count])
            at += count
        for item, devices in devices_of(event):
            if exists[item]:
                job_id = event.job_ids[int(event.job_array[item])]
                self.devices.put((job_id, int(event.instance_array[item])), devices)
        for item in np.flatnonzero(event.alternative_array >= 0).tolist() if event.alternative else ():
            if exists[item]:
                job_id = event.job_ids[int(event.job_array[item])]
                self.alternatives.put((job_id, int(event.instance_array[item])), int(event.alternative_array[item]))

    def ended(self, slots: I64) -> None:
        """The runs of these slots are over."""
        tables = [table for table in self.tables if len(table)]
        for task in map(self._task_at, slots.tolist()) if tables else ():
            for table in tables:
                if task in table:
                    table.remove(task)
