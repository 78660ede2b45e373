"""Checks at placement's positions that no task is told to wait for devices that are free on a host which it may use."""

from events.records.parts import PlacementRules
from events.records.placement import GangsReturned, GangsUnplaced, HostsReserved, PreemptionAsked, TasksPlaced
from events.task_shapes import shape_of
from paceline.simulate.checker.device_room import asks_devices
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.plans import Plans

NO_PLACE = ("NO_DEVICES_FIT", "NO_HOST_FITS", "NEVER_FITS")
ABOUT_TASKS = (TasksPlaced, GangsUnplaced, GangsReturned, HostsReserved, PreemptionAsked)


class Unplaced:
    """Looks at tasks that are placed one by one and ask devices, beside no other rule. `hosts`, `devices` and `plans`
    have taken the round before.
    """

    def __init__(self, hosts: Hosts, plans: Plans, devices: Devices) -> None:
        self._hosts = hosts
        self._plans = plans
        self._devices = devices

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        if not all(isinstance(event, ABOUT_TASKS) for event in round_.decisions):
            return  # a host, or what is kept there, may have come free after it was said
        for event in round_.decisions:
            if isinstance(event, GangsUnplaced) and event.size == 1 and event.code in NO_PLACE:
                self._judge(event, round_)

    def _judge(self, event: GangsUnplaced, round_: Round) -> None:
        task, job = (event.job_id, event.instance), self._hosts.jobs[event.job_id]
        shape = shape_of(job, event.instance)
        if not _is_plain(shape.rules) or shape.ports or job.labels or job.longest_ms:
            return
        if self._hosts.bound_to(task) or self._hosts.home_of(task) or self._hosts.waits(task) != event.run:
            return
        closed = {host_id for plan in self._plans.plans.values() for host_id in plan.hosts}
        closed |= {host_id for each in self._plans.reserved.values() for host_id in each.host_ids}
        closed |= self._hosts.homes | self._hosts.claimed()
        for choice in self._devices.choices(task):
            for host_id in self._hosts.hosts if asks_devices(choice) else ():
                may = self._hosts.is_up(host_id) and host_id not in closed
                may = may and self._hosts.allows(job.job_id, choice, host_id) and self._hosts.has_room(choice, host_id)
                if may and self._devices.fit(choice, host_id):
                    raise Violation(f"{round_} tells {task} {event.code}, and it would fit on {host_id}")


def _is_plain(rules: PlacementRules | None) -> bool:
    """Whether rules say nothing of those beside a task."""
    return rules is None or rules == PlacementRules(
        rules.tolerations,
        stays=rules.stays,
        devices=rules.devices,
        devices_within=rules.devices_within,
        cores=rules.cores,
        alternatives=rules.alternatives,
    )
