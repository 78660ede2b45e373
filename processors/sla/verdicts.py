"""Verdicts: budgets are given oldest first, whoever asks, and nobody who waits holds any (decision 094).

Time isn't looked at here: what it changes, `timers.py` has written into rows. So who looks again at the same rows
says the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from events.codes import VERDICT_CODES, Code
from events.columns import I64, spread
from processors.sla.asks import Ask, Unit, units_of
from processors.sla.availability import Availability, is_healthy, is_ready
from processors.sla.budgets import Budget, Budgets
from processors.sla.rows import JobRow
from processors.state.table import Table

TOLD = {code: number for number, code in enumerate(VERDICT_CODES, start=1)}
"""In a column `told` a code stands by its place, from 1."""
_KEEPS = (Code.SLA_BUDGET_SPENT, Code.SLA_RATE_REACHED, Code.SLA_GROUP_SPENT)
"""A unit that waits for one of these is overtaken by younger ones only for so long."""
MANY = 64
"""From so many disruptions on that wait in plain jobs, columns are cheaper than one by one."""


@dataclass(slots=True)
class Verdicts:
    """`go` are slots in the order of their verdicts, in parts that go whole or not at all; `alone` others that go each
    for itself; `wait` are slots to be told, by code; `missing` are instances of jobs, once those that go are gone.
    """

    go: list[list[int]] = field(default_factory=list)
    alone: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    wait: dict[Code, list[int]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of slots."""
        return sum(map(len, self.go)) + len(self.alone) + sum(map(len, self.wait.values()))


class Room:
    """The budgets of some jobs, while verdicts are given."""

    def __init__(self, jobs: Iterable[str], budgets: Budgets) -> None:
        self._budgets = budgets
        self.job: dict[str, Budget] = {job_id: budgets.of_job(job_id) for job_id in jobs}
        self.rate = {job_id: budgets.rate(job_id) for job_id in self.job}
        self.used = {job_id: budgets.used(job_id) for job_id, rate in self.rate.items() if rate is not None}
        self.group_of = {job_id: group for job_id in self.job if (group := budgets.group_of(job_id))}
        self.group = {group: budgets.of_group(group) for group in dict.fromkeys(self.group_of.values())}
        self.closed = {job_id for job_id in self.job if budgets.is_closed(job_id)}
        self.replaces = {job_id for job_id in self.job if budgets.replaces_first(job_id)}
        self.lacking: set[str] = set()
        """Jobs of which a unit lacked slack: what is younger leaves it to that unit."""
        self.reserved: set[str] = set()
        """Jobs and groups whose slack the oldest unit keeps, which has waited for too long."""
        self.reserved_hours: set[str] = set()
        """Jobs whose hour it keeps."""
        self.keeper: Unit | None = None
        """That unit."""

    def refusal(self, unit: Unit) -> Code | None:
        """Why a unit waits; None: it may go."""
        needs = unit.jobs()
        groups = self._needs_of_groups(needs)
        if any(self._never(job_id, asks) for job_id, asks in needs.items()) or any(
            need > self.group[group].limit for group, need in groups.items()
        ):
            return Code.SLA_NEVER_ALLOWS
        if any(job_id in self.closed and any(ask.by_others for ask in asks) for job_id, asks in needs.items()):
            return Code.OUTSIDE_WINDOW
        if any(self._waits_for_replacement(job_id, asks) for job_id, asks in needs.items()):
            return Code.WAITS_FOR_REPLACEMENT
        if self._lacks(unit, needs):
            return Code.SLA_BUDGET_SPENT
        if any(self._is_hour_spent(unit, job_id, asks) for job_id, asks in needs.items()):
            return Code.SLA_RATE_REACHED
        barred = set[str]() if unit is self.keeper else self.reserved
        if any(self.group[group].slack < need or (group in barred and need) for group, need in groups.items()):
            return Code.SLA_GROUP_SPENT
        return None

    def take(self, unit: Unit) -> None:
        """A unit goes."""
        for job_id, asks in unit.jobs().items():
            for ask in asks:
                for budget in (self.job[job_id], self.group.get(self.group_of.get(job_id, ""))):
                    if budget is not None and ask.healthy:
                        budget.missing += 1
                if job_id in self.used:
                    self.used[job_id] += ask.by_others

    def leave_to(self, unit: Unit, is_oldest: bool, code: Code) -> None:
        """A unit lacks slack, of jobs or groups, or room in an hour: runs that are younger and go alone don't take the
        slack of a job, and where the unit is the oldest and has waited for too long, nobody takes any of it. While it
        waits for the hour it keeps no slack.
        """
        needs = unit.jobs()
        self.lacking.update(job_id for job_id, asks in needs.items() if self._is_short(job_id, asks))
        if is_oldest and any(ask.aged for ask in unit.asks):
            self.keeper = unit
            self.reserved_hours.update(needs)
            if code is not Code.SLA_RATE_REACHED:
                self.reserved.update(needs, self._needs_of_groups(needs))

    def _never(self, job_id: str, asks: Sequence[Ask]) -> bool:
        """Whether a unit needs more of a job than that ever allows."""
        need = max(1, sum(ask.healthy for ask in asks))
        rate = self.rate[job_id]
        beyond = need > self.job[job_id].limit and job_id not in self.replaces
        return beyond or (rate is not None and sum(ask.by_others for ask in asks) > rate)

    def _waits_for_replacement(self, job_id: str, asks: Sequence[Ask]) -> bool:
        """Whether a run waits for its replacement, and there is none that is up and not needed for others."""
        if job_id not in self.replaces:
            return False
        budget = self.job[job_id]
        return budget.extra <= budget.missing and any(
            ask.healthy and (ask.patient or (ask.replaceable and not budget.limit)) for ask in asks
        )

    def _is_short(self, job_id: str, asks: Sequence[Ask]) -> bool:
        return sum(ask.healthy for ask in asks) > max(self.job[job_id].slack, 0) or self.job[job_id].slack < 0

    def _lacks(self, unit: Unit, needs: dict[str, list[Ask]]) -> bool:
        barred = set[str]() if unit is self.keeper else self.reserved
        left_to_others = self.lacking | barred if unit.is_single else barred
        return any(
            self._is_short(job_id, asks) or (job_id in left_to_others and any(ask.healthy for ask in asks))
            for job_id, asks in needs.items()
        )

    def _is_hour_spent(self, unit: Unit, job_id: str, asks: Sequence[Ask]) -> bool:
        """Whether more go for others than may in this hour, or any while another unit keeps it."""
        rate, count = self.rate[job_id], sum(ask.by_others for ask in asks)
        is_kept = job_id in self.reserved_hours and unit is not self.keeper
        return rate is not None and (count > rate - self.used[job_id] or (is_kept and count > 0))

    def _needs_of_groups(self, needs: dict[str, list[Ask]]) -> dict[str, int]:
        needed: dict[str, int] = {}
        for job_id, asks in needs.items():
            if group := self.group_of.get(job_id):
                needed[group] = needed.get(group, 0) + sum(ask.healthy for ask in asks)
        return needed


class Judge:
    """Gives the verdicts."""

    def __init__(self, jobs: Table[str, JobRow], available: Availability, budgets: Budgets) -> None:
        self._jobs = jobs
        self._available = available
        self._budgets = budgets

    def is_plain(self, job_id: str) -> bool:
        """Whether the disruptions of a job wait for its slack alone, each for itself."""
        policy = self._jobs[job_id].policy
        if self._available.counts[job_id].in_units:
            return False
        if policy is None:
            return True
        rate = policy.per_hour is not None or policy.per_hour_percent is not None
        return not (rate or policy.group or policy.replace or policy.windows)

    def of_units(self, job_ids: Sequence[str]) -> Verdicts:
        """The verdicts on all that waits in some jobs, one unit after another."""
        room, verdicts = Room(job_ids, self._budgets), Verdicts()
        waiting = units_of(job_ids, self._jobs, self._available)
        is_oldest = True
        for patient in (False, True):
            rest = []
            for unit in waiting:
                if any(ask.patient and ask.healthy for ask in unit.asks) != patient:
                    rest.append(unit)
                elif (code := room.refusal(unit)) is None:
                    room.take(unit)
                    verdicts.go.append([ask.slot for ask in unit.asks])
                else:
                    rest.append(unit)
                    if code in _KEEPS and not unit.is_single:
                        room.leave_to(unit, is_oldest, code)
                    is_oldest &= unit.is_single or code in (Code.SLA_NEVER_ALLOWS, Code.OUTSIDE_WINDOW)
            waiting = rest
        for unit in waiting:
            code = room.refusal(unit) or Code.SLA_BUDGET_SPENT
            slots = [ask.slot for ask in unit.asks if ask.code != TOLD[code]]
            if slots:
                verdicts.wait.setdefault(code, []).extend(slots)
        verdicts.missing = {job_id: budget.missing for job_id, budget in room.job.items()}
        return verdicts

    def of_plain(self, job_ids: Sequence[str]) -> Verdicts:
        """The same of plain jobs, all at once."""
        arena, rows = self._available.arena, [self._jobs[job_id] for job_id in job_ids]
        slots = self._waiting(rows)
        owner = arena["owner"][slots]
        slots = slots[np.lexsort((slots, arena["asked_at"][slots], owner))]
        owner = arena["owner"][slots]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        job = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(owner))))
        waits = [self._available.job_of(slot) for slot in slots[starts].tolist()]
        limits = np.array([self._budgets.limit(job_id) for job_id in waits])
        counts = [self._available.counts[job_id] for job_id in waits]
        slack = (limits - np.array([each.missing - each.extra for each in counts]))[job]
        never = (limits <= 0)[job]
        available, allowed, flags = (arena[name][slots] for name in ("available", "allowed", "flags"))
        ready = is_ready(available, allowed, flags)
        healthy = ready & is_healthy(available, allowed, flags)
        before = np.cumsum(healthy)
        rank = before - (before - healthy)[starts][job]  # 1 is the oldest healthy one
        go = ~ready | (~never & np.where(healthy, rank <= slack, slack >= 0))
        verdicts = Verdicts(alone=slots[go])
        for code, which in ((Code.SLA_BUDGET_SPENT, ~go & ~never), (Code.SLA_NEVER_ALLOWS, ~go & never)):
            tell = slots[which & (arena["told"][slots] != TOLD[code])]
            if len(tell):
                verdicts.wait[code] = tell.tolist()
        return verdicts

    def _waiting(self, rows: Sequence[JobRow]) -> I64:
        """The slots with disruptions that wait in some jobs."""
        bases, sizes = np.array([(row.base, row.instances) for row in rows]).T
        slots = spread(bases, sizes)
        return slots[self._available.arena["asked"][slots] > 0]
