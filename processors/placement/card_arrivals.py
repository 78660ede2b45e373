"""Learns the mix of tasks from those that are admitted, for the strategies that look at the cards of hosts."""

from events.columns import counted
from events.records.entitlement import GangsAdmitted
from processors.placement.devices.cards import task_shape
from processors.placement.hosts import Hosts
from processors.placement.runs import Runs
from processors.state.arena import locate_ranges


def arrived(event: GangsAdmitted, runs: Runs, hosts: Hosts) -> None:
    """Counts the tasks of an admission by their shapes."""
    slots, _ = locate_ranges(event, runs.jobs)
    numbers, counts = counted(runs.arena["shape"][slots])
    shapes = [runs.shapes[number] for number in numbers.tolist()]
    tasks = [task_shape(shape.need, hosts.device_need(shape)) for shape in shapes]
    if hosts.expected.arrived(zip(tasks, counts.tolist(), strict=True)):
        free = hosts.capacity - hosts.used
        hosts.expected.refresh(free[0], free[1], hosts.devices.column, hosts.devices.states)
