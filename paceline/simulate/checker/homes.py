"""Room on hosts that is kept for the next runs of tasks that ended there to go on; it counts as used.

It ends after two minutes, but for tasks that are bound to their hosts.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from events.columns import ints
from events.records.lifecycle import GangsQueued
from paceline.simulate.checker.items import Task, ranges_of

HOME_MS = 120_000


class Room(Protocol):
    """A host, as far as amounts go."""

    def uses(self, amounts: Mapping[str, int], sign: int) -> None:
        """So much more is used, or (`sign` -1) less."""
        ...

    def has(self, amounts: Mapping[str, int]) -> bool:
        """Whether so much is free."""
        ...


class Home(NamedTuple):
    """Where a task goes next, what is kept for it there, and until when."""

    host_id: str
    amounts: Mapping[str, int]
    until_ms: int


class Homes:
    """Those of all tasks."""

    def __init__(self, hosts: Mapping[str, Room]) -> None:
        self._hosts = hosts
        self._homes: dict[Task, Home] = {}
        self._bound: dict[Task, str] = {}
        """The only hosts that tasks may have."""

    def bind(self, event: GangsQueued) -> None:
        """Tasks are queued for one host alone, or for any."""
        ranges = ranges_of(event)
        for each, at in zip(ranges, ints(event.pin).tolist() or [-1] * len(ranges), strict=True):
            for task in each.tasks():
                self._bound.pop(task, None)
                if at >= 0:
                    self._bound[task] = event.host_ids[at]

    def bound(self, task: Task) -> str:
        """The only host that a task may have; empty: it may have any."""
        return self._bound.get(task, "")

    def forget(self, task: Task) -> None:
        """A task is over."""
        self.leave(task)
        self._bound.pop(task, None)

    def removed(self, host_id: str) -> None:
        """A host is forgotten."""
        self.given_up(host_id)
        self._bound = {task: at for task, at in self._bound.items() if at != host_id}

    @property
    def hosts(self) -> set[str]:
        """The hosts that are kept for tasks."""
        return {home.host_id for home in self._homes.values()}

    def of(self, task: Task) -> Home | None:
        """The home of a task; None: it has none."""
        return self._homes.get(task)

    def keep(self, task: Task, host_id: str, amounts: Mapping[str, int], now: int) -> None:
        """A run is over, and its host is kept."""
        self._homes[task] = Home(host_id, amounts, -(-now // 1000) * 1000 + HOME_MS)
        self._hosts[host_id].uses(amounts, 1)

    def leave(self, *tasks: Task) -> Home | None:
        """Tasks have no home any more; returns the one that the last of them had."""
        home = None
        for task in tasks:
            home = self._homes.pop(task, None)
            if home is not None and home.host_id in self._hosts:
                self._hosts[home.host_id].uses(home.amounts, -1)
        return home

    def given_up(self, host_id: str) -> None:
        """Nothing is kept on a host."""
        self.leave(*(task for task, home in self._homes.items() if home.host_id == host_id))

    def passed(self, due_ms: int) -> None:
        """Time has passed."""
        over = [task for task, home in self._homes.items() if home.until_ms <= due_ms and task not in self._bound]
        self.leave(*over)

    def reshaped(self, tasks: Iterable[Task], amounts: Mapping[str, int]) -> None:
        """Tasks ask something else: what is more than their hosts have beside the others isn't kept."""
        homes = {task: home for task in tasks if (home := self.leave(task)) is not None}
        for task, home in homes.items():
            if home.host_id in self._hosts and self._hosts[home.host_id].has(amounts):
                self._homes[task] = home._replace(amounts=amounts)
                self._hosts[home.host_id].uses(amounts, 1)
