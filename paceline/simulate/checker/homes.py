"""What is kept on hosts for the next runs of tasks that an update ended there; it counts as used."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from paceline.simulate.checker.items import Task

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
        self.leave(*(task for task, home in self._homes.items() if home.until_ms <= due_ms))

    def reshaped(self, tasks: Iterable[Task], amounts: Mapping[str, int]) -> None:
        """Tasks ask something else: what is more than their hosts have beside the others isn't kept."""
        homes = {task: home for task in tasks if (home := self.leave(task)) is not None}
        for task, home in homes.items():
            if home.host_id in self._hosts and self._hosts[home.host_id].has(amounts):
                self._homes[task] = home._replace(amounts=amounts)
                self._hosts[home.host_id].uses(amounts, 1)
