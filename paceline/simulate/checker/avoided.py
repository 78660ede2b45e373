"""Checks avoided hosts: they get no new tasks, they are few, and it ends."""

from events.records.placement import HostAvoided, HostRemoved, HostTrusted, TasksPlaced
from paceline.simulate.checker.bound import Bound
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import places_of

SOON_MS = 120_000
"""So long after its time a host may still be avoided."""


WHILE_ILL = 1 << 62
"""In place of a time: until no condition lasts."""


class Avoided:
    """Follows placement. `hosts` has taken each round of it, `bound` each round of it and of lifecycle."""

    def __init__(self, hosts: Hosts, bound: Bound) -> None:
        self._hosts = hosts
        self._bound = bound
        self._until_ms: dict[str, int] = {}

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for event in round_.decisions:
            match event:
                case HostAvoided():
                    most = max(1, len(self._hosts.hosts) // 10)
                    if event.host_id not in self._until_ms and len(self._until_ms) >= most:
                        raise Violation(
                            f"{round_} avoids {event.host_id} beside {[*self._until_ms]}, {most} is the most"
                        )
                    self._until_ms[event.host_id] = event.until_ms or WHILE_ILL
                case HostTrusted() | HostRemoved():
                    self._until_ms.pop(event.host_id, None)
                case TasksPlaced():
                    self._place(event, round_)

    def at_rest(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where a host is avoided for too long."""
        late = [host_id for host_id, until_ms in self._until_ms.items() if now - until_ms > SOON_MS]
        if late:
            raise Violation(f"at {now}, {late} should take tasks again")

    def _place(self, event: TasksPlaced, round_: Round) -> None:
        for task, run, host_id, _, _ in places_of(event):
            if host_id in self._until_ms and self._bound.host_of(task) != host_id:
                raise Violation(f"{round_} places {task} run {run} on {host_id}, which is avoided")
