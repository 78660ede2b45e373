"""Checks that hosts take back what they lend: only from runs that hold it, the newest, and in time."""

from collections.abc import Callable, Mapping
from typing import Protocol

from events.columns import ints
from events.records.hosts import HostOffered
from events.records.placement import RevocationAsked
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, runs_of

REVOCABLE = "cpu/revocable"
PATIENCE_MS = 60_000
LATE_MS = 5_000
"""So much later than it may be runs are asked to end at the latest."""


class LendingHost(Protocol):
    """A host, as far as it lends."""

    offer: HostOffered | None


class Revocations:
    """Follows which hosts lend less than is held there. `on`: the tasks with a place on a host; `run_of`,
    `need_of`: the run of a task there, and what it holds of that.
    """

    def __init__(
        self,
        hosts: Mapping[str, LendingHost],
        on: Callable[[str], list[Task]],
        run_of: Callable[[Task], int],
        need_of: Callable[[Task], int],
    ) -> None:
        self._hosts = hosts
        self._on, self._run_of, self._need_of = on, run_of, need_of
        self._over_ms: dict[str, int] = {}
        """Since when."""
        self._asked: set[tuple[Task, int]] = set()

    def look(self, now: int) -> None:
        """Looks at all hosts after a change."""
        for host_id in self._hosts:
            if self._held(host_id) > self._lent(host_id):
                self._over_ms.setdefault(host_id, now)
            else:
                self._over_ms.pop(host_id, None)

    def asked(self, event: RevocationAsked, places: Mapping[Task, tuple[int, str, list[int]]], round_: Round) -> None:
        """Takes the runs that are to end. Raises `Violation`."""
        for (task, run), at in zip(runs_of(event), ints(event.host).tolist(), strict=True):
            what, host_id = f"{round_} takes back what {task} run {run} was lent", event.host_ids[at]
            if places[task][0] != run or not self._need_of(task):
                raise Violation(f"{what}, which holds nothing of that: {places[task]}")
            if round_.now_ms - self._over_ms.get(host_id, round_.now_ms) < PATIENCE_MS:
                raise Violation(f"{what} on {host_id} before a minute has passed")
            if (task, run) in self._asked:
                raise Violation(f"{what}, once more")
            self._asked.add((task, run))
        for host_id in event.host_ids:
            if self._held(host_id) > self._lent(host_id):
                raise Violation(f"{round_} leaves {host_id} {self._held(host_id)} of {self._lent(host_id)}")
        for host_id in list(self._over_ms):  # others too: members of gangs leave where they are
            if self._held(host_id) <= self._lent(host_id):
                del self._over_ms[host_id]

    def at_rest(self, now_ms: int) -> None:
        """Raises `Violation` where too much is held for long."""
        for host_id, since in self._over_ms.items():
            if host_id in self._hosts and now_ms - since > PATIENCE_MS + LATE_MS:
                raise Violation(f"at {now_ms}, {host_id} lends less than is held there since {since}")

    def _lent(self, host_id: str) -> int:
        offer = self._hosts[host_id].offer
        return offer.capacity.get(REVOCABLE, 0) if offer is not None else 0

    def _held(self, host_id: str) -> int:
        """The amount that those hold that weren't asked to end."""
        tasks = (task for task in self._on(host_id) if (task, self._run_of(task)) not in self._asked)
        return sum(map(self._need_of, tasks))
