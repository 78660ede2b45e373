"""The part of the rules of ends (whose failure, which retries are left) that depends on more than columns of tasks.

Decisions 059 and 061.
"""

from collections.abc import Callable

import numpy as np

from events.bounds import INT_MAX
from events.cell_settings import Settings
from events.codes import RunReport, TaskState
from events.columns import I32, I64
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.tasks import Tasks
from processors.state.seconds import elapsed
from processors.state.table import Table, struct_table

HOSTS_MAX = 3
"""A task that so many hosts, one after another, couldn't start is at fault itself."""

DOUBLINGS_MAX = 22
"""The most doublings of the wait before a task of a service runs again: times `MS_MAX` that is within 64 bits."""


class Failures:
    """See `task_rules.EndRules`. `unstarted`: the hosts that couldn't start a task since it last started, most often
    none.
    """

    def __init__(
        self,
        tasks: Tasks,
        jobs: Jobs,
        hosts: Hosts,
        settings: Callable[[], Settings],
        proof_ms: Callable[[I64, int], I64],
    ) -> None:
        self.unstarted: Table[tuple[str, int], list[str]] = struct_table("unstarted", list[str], tuple[str, int])
        self._tasks = tasks
        self._jobs = jobs
        self._hosts = hosts
        self._settings = settings
        self._proof_ms = proof_ms

    def failing_gangs(self, slots: I64, outcome: I64, counts_as: I64) -> I64:
        """Implements `EndRules.failing_gangs`."""
        return self._jobs.gangs.failing(slots, outcome, counts_as, self.hopeless(slots))

    def hopeless(self, slots: I64) -> Mask:
        """Implements `EndRules.hopeless`."""
        cannot_start: Mask = self._tasks.arena["report"][slots] == RunReport.CANNOT_START
        for at in np.flatnonzero(cannot_start).tolist():
            cannot_start[at] = len(self._hosts.table) <= 1 or self._task(int(slots[at])) in self.unstarted
        return cannot_start

    def failed_elsewhere(self, slots: I64) -> Mask:
        """Implements `EndRules.failed_elsewhere`."""
        failed = [len({*self._hosts_of(slot), self._host_at(slot)}) >= HOSTS_MAX for slot in slots.tolist()]
        return np.array(failed, dtype=np.bool_)

    def host_retries(self, slots: I64) -> I64:
        """Implements `EndRules.host_retries`."""
        return self._jobs.of_slots(slots, lambda row: row.retries_system)

    def held(self, slots: I64) -> Mask:
        """Implements `EndRules.held`."""
        return self._jobs.of_slots(slots, lambda row: row.on_hold) > 0

    def recovered(self, slots: I64, now: int) -> Mask:
        """Implements `EndRules.recovered`."""
        arena = self._tasks.arena
        ready = arena["ready"][slots]
        recovered: Mask = (arena["host"][slots] > 0) & (ready > 0) & (arena["traits"][slots] & Trait.STATELESS != 0)
        recovered &= ready <= elapsed(now - self._proof_ms(slots, self._settings().restart_backoff_max_ms))
        return recovered

    def backoff(self, failures: I64) -> I64:
        """The milliseconds that a task waits before it runs again, by how often it has failed: doubling each time, up
        to a bound.
        """
        doublings, settings = np.clip(failures - 1, 0, DOUBLINGS_MAX), self._settings()
        longest = min(settings.restart_backoff_max_ms, INT_MAX)
        waits: I64 = np.minimum(settings.restart_backoff_ms << doublings, longest)
        return waits

    def ended(self, slots: I64, following: I32) -> None:
        """Runs of these slots are over: notes who couldn't start those that run again. Where trying again there can't
        help, the next run goes elsewhere if it can.
        """
        arena = self._tasks.arena
        report = arena["report"][slots]
        never = (report == RunReport.CANNOT_START) & (following == TaskState.BACKOFF)
        if never.any():
            away = slots[never & (arena["pin"][slots] == 0)]
            arena.set("pin", away, -arena["host"][away])
        unstarted = never | ((report == RunReport.NOT_STARTED) & (following == TaskState.BACKOFF))
        for slot in slots[unstarted].tolist():
            host_id, hosts = self._host_at(slot), self._hosts_of(slot)
            if host_id not in hosts:
                self.unstarted.put(self._task(slot), [*hosts, host_id])
        for slot in slots[~unstarted].tolist() if len(self.unstarted) else ():
            if (key := self._task(slot)) in self.unstarted:
                self.unstarted.remove(key)

    def _task(self, slot: int) -> tuple[str, int]:
        base = int(self._tasks.arena["owner"][slot]) - 1
        return self._jobs.at[base], slot - base

    def _hosts_of(self, slot: int) -> list[str]:
        return self.unstarted.get(self._task(slot)) or []

    def _host_at(self, slot: int) -> str:
        return self._hosts.named(int(self._tasks.arena["host"][slot]))[0]
