"""Decisions of sla: verdicts on disruptions and surplus of jobs, as records."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

import numpy as np

from events.codes import Code
from events.columns import I64, Names
from events.records.base import Event
from events.records.sla import DisruptionAllowed, DisruptionDeferred, SurplusSet
from processors.sla.availability import Availability, is_ready
from processors.sla.budgets import Budgets
from processors.sla.rows import JobRow
from processors.sla.surplus import Surplus
from processors.sla.verdicts import MANY, Judge, Verdicts
from processors.sla.waiting import Waiting
from processors.state.budget import Budget as Work
from processors.state.causes import all_recorded
from processors.state.seconds import milliseconds
from processors.state.steps import Pass
from processors.state.table import Table

NO_SLOTS = np.zeros(0, dtype=np.int64)


class Decisions:
    """Reads the state and changes nothing of it but marks."""

    def __init__(
        self,
        jobs: Table[str, JobRow],
        unguarded: Table[tuple[str, int], int],
        available: Availability,
        budgets: Budgets,
        waiting: Waiting,
    ) -> None:
        self._jobs = jobs
        self._unguarded = unguarded
        self._available = available
        self._budgets = budgets
        self._waiting = waiting
        self._judge = Judge(jobs, available, budgets)
        self._surplus = Surplus(jobs, available, budgets)
        self._answered: dict[str, None] = {}
        """Plain jobs on all of whose disruptions verdicts were decided last."""

    def unguarded(self, this: Pass) -> list[Event]:
        """Disruptions of instances that no SLA protects go on."""
        runs = nsmallest(this.budget.left, self._unguarded.items())
        this.budget.spend(len(runs))
        if not runs:
            return []
        names = Names()
        job = [names[job_id] for (job_id, _), _ in runs]
        return [
            DisruptionAllowed.pack(
                job_ids=names.all(),
                job=job,
                instance=(instance for (_, instance), _ in runs),
                run=(run for _, run in runs),
                causes=all_recorded([None] * len(names)),
            )
        ]

    def verdicts(self, this: Pass) -> list[Event]:
        """The verdicts on what waits in jobs that have changed, and in those that share budgets or units with them."""
        out: list[Event] = []
        self._answered.clear()
        plain, others = list[str](), list[str]()
        for job_id in sorted(self._waiting.changed):
            (plain if self._judge.is_plain(job_id) else others).append(job_id)
        if others:
            related = self._waiting.related(others)
            out += self._given(related, self._judge.of_units(related), this.budget)
        if plain and this.budget:
            some, waiting = self._some(plain, this.budget.left)
            judge = self._judge.of_plain if waiting >= MANY else self._judge.of_units
            out += self._given(some, judge(some), this.budget, plain=True)
        return out

    def apply(self, job_ids: Iterable[str]) -> None:
        """Verdicts were applied. Where these were all on a plain job, it needs no second look."""
        for job_id in job_ids:
            if job_id in self._answered:
                self._waiting.changed.pop(job_id, None)

    def _some(self, job_ids: Sequence[str], most: int) -> tuple[Sequence[str], int]:
        """The first jobs in which so many disruptions wait, at least one, and how many do."""
        waiting = 0
        for at, job_id in enumerate(job_ids, start=1):
            waiting += self._available.counts[job_id].waiting
            if waiting >= most:
                return job_ids[:at], waiting
        return job_ids, waiting

    def _given(self, job_ids: Sequence[str], verdicts: Verdicts, work: Work, plain: bool = False) -> list[Event]:
        """Verdicts as records, as many as there is room for; jobs without any are looked at no more."""
        go = []
        for unit in verdicts.go:
            if not work.holds(len(unit)):
                break
            work.spend(len(unit))
            go += unit
        alone = verdicts.alone[: work.left]
        work.spend(len(alone))
        slots = np.sort(np.concatenate((np.array(go, dtype=np.int64), alone)))
        parts = [slots]
        out: list[Event] = [self._allow(slots)] if len(slots) else []
        for code, waits in verdicts.wait.items():
            tell = np.sort(np.array(waits[: work.left], dtype=np.int64))
            work.spend(len(tell))
            parts.append(tell)
            before = self._available.arena["told"][tell] > 0
            out += [self._defer(code, tell[before == again], again, verdicts) for again in (False, True)
                    if (before == again).any()]  # fmt: skip
        if sum(len(part) for part in parts) == verdicts.size:
            self._answered = dict.fromkeys(job_ids) if plain else {}
            concerned = {*self._available.jobs_of(np.concatenate(parts))}
            if plain or not concerned:  # others are looked at together for as long as there is a verdict on one
                for job_id in job_ids:
                    if job_id not in concerned:
                        self._waiting.changed.pop(job_id, None)
        return out

    def _allow(self, slots: I64) -> DisruptionAllowed:
        arena = self._available.arena
        columns, rows = self._named(slots)
        ready = is_ready(arena["available"][slots], arena["allowed"][slots], arena["flags"][slots])
        return DisruptionAllowed.pack(
            **columns,
            deferred=arena["told"][slots] > 0,
            causes=all_recorded(row.changed_by for row in rows),
            free=None if ready.all() else ~ready,
        )

    def _defer(self, code: Code, slots: I64, again: bool, verdicts: Verdicts) -> DisruptionDeferred:
        columns, rows = self._named(slots)
        numbers = [self._numbers(code, job_id, verdicts) for job_id in columns["job_ids"]]
        groups = tuple(self._group(code, job_id) for job_id in columns["job_ids"])
        until = [until for _, _, until in numbers]
        return DisruptionDeferred.pack(
            **columns,
            code=code,
            unavailable=[missing for missing, _, _ in numbers],
            max_unavailable=[most for _, most, _ in numbers],
            causes=all_recorded(row.changed_by for row in rows),
            again=again,
            groups=groups if any(groups) else (),
            until=until if any(until) else None,
        )

    def _group(self, code: Code, job_id: str) -> str:
        """The group whose budget a verdict is about; empty: it is about that of the job."""
        name = self._budgets.group_of(job_id)
        if not name or code is Code.SLA_GROUP_SPENT:
            return name
        stricter = self._budgets.of_group(name).limit < self._budgets.of_job(job_id).limit
        return name if stricter and code is Code.SLA_NEVER_ALLOWS else ""

    def _numbers(self, code: Code, job_id: str, verdicts: Verdicts) -> tuple[int, int, int]:
        """The used part of a budget, its size, and the second from which on it may allow more; 0: that isn't known."""
        if code is Code.SLA_RATE_REACHED:
            over_ms = self._budgets.hour_over_ms(job_id)
            rate = self._budgets.rate(job_id) or 0
            return max(self._budgets.used(job_id), rate), rate, 0 if over_ms is None else over_ms // 1000
        if name := self._group(code, job_id):
            group = self._budgets.of_group(name)
            return group.missing if code is Code.SLA_NEVER_ALLOWS else max(group.missing, group.limit), group.limit, 0
        budget = self._budgets.of_job(job_id)
        if code is Code.OUTSIDE_WINDOW:
            return budget.missing, budget.limit, self._jobs[job_id].opens_s
        missing = verdicts.missing.get(job_id, max(budget.missing, budget.limit))
        if code is Code.WAITS_FOR_REPLACEMENT:
            return missing, budget.limit, self._patience_ends(job_id)
        return missing, budget.limit, 0

    def _patience_ends(self, job_id: str) -> int:
        """The second from which on the plain budget of a job is used, where it has one."""
        row, slots = self._jobs[job_id], self._available.waiting(job_id)
        since = int(self._available.arena["asked_at"][slots].min())
        has_budget = self._budgets.of_job(job_id).limit > 0
        return (milliseconds(since) + row.rules.replace_wait_ms) // 1000 if has_budget else 0

    def surplus(self, this: Pass) -> list[Event]:
        """The surplus of jobs that have changed."""
        changes = self._surplus.changes(sorted(self._waiting.replacing))
        if not changes:
            self._waiting.replacing.clear()
            return []
        changes = changes[: max(1, this.budget.left)]
        this.budget.spend(len(changes))
        job_ids, surplus, serial = zip(*changes, strict=True)
        return [
            SurplusSet.pack(
                job_ids=job_ids,
                job=range(len(job_ids)),
                surplus=surplus,
                serial=serial,
                causes=all_recorded(self._jobs[job_id].surplus_by for job_id in job_ids),
            )
        ]

    def _named(self, slots: I64) -> tuple[dict[str, Any], list[JobRow]]:
        """The fields that name the runs that are asked for, and the rows of their jobs."""
        job_ids, job, instance = self._available.named(slots)
        columns = {
            "job_ids": tuple(job_ids),
            "job": job,
            "instance": instance,
            "run": self._available.arena["asked"][slots],
        }
        return columns, [self._jobs[job_id] for job_id in job_ids]
