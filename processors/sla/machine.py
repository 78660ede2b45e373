"""Sla: tracks which instances of jobs are available, and decides which may be disrupted now.

An instance that is wanted is missing while no run of it is known to be healthy, and from the moment its disruption is
allowed: the budget is held until a later run of it is healthy, it isn't wanted any more, the job is over, or lifecycle
withdraws. A disruption that must wait is kept here and allowed as soon as budget is free, so it is asked for once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from events.codes import ENDED_TASKS, Code, RunCause
from events.columns import I64
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    JobSlaChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    SlaGroupSet,
)
from events.records.rounds import TimerPassed
from events.records.sla import DisruptionAllowed, DisruptionDeferred, SurplusSet
from events.sla import has_sla
from processors.base import MachineBase
from processors.sla.availability import ASK, COLUMNS, RIPE, Availability, Flag
from processors.sla.budgets import Budgets
from processors.sla.decisions import NO_SLOTS, Decisions
from processors.sla.hosts import Hosts
from processors.sla.rows import GroupRow, JobRow
from processors.sla.timers import Timers, ripe_at
from processors.sla.verdicts import TOLD
from processors.sla.waiting import Waiting
from processors.state.arena import REMOVED, change_instances, locate
from processors.state.causes import CurrentInput
from processors.state.conversion import Conversions
from processors.state.handlers import Handler
from processors.state.record_rows import SlaRow, row_of
from processors.state.seconds import EPOCH_S, milliseconds, second
from processors.state.steps import Pass, Step, decide_in_steps
from processors.state.table import Table, struct_table

_GONE_WITH_HOST = (RunCause.DRAIN, RunCause.EVICT)
"""A daemon's run that ends by one of these leaves with its host."""


class Sla(MachineBase):
    """Implements `processors.machine.Machine`."""

    name: ClassVar[str] = "sla"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools", "paceline.hosts")
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "entitlement")
    logic: ClassVar[int] = 6
    state: ClassVar[int] = 5
    conversions: ClassVar[Conversions] = {}
    """None: rows of 0.3 don't say since when a disruption was asked for, nor where runs are (decision 032)."""

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.groups: Table[str, GroupRow] = struct_table("groups", GroupRow)
        self.unguarded: Table[tuple[str, int], int] = struct_table("unguarded", int, tuple[str, int])
        """Disruptions asked of instances that no SLA protects, and the run that each is about."""
        self.going: Table[tuple[str, int], int] = struct_table("going", int, tuple[str, int])
        """Runs that were allowed to go, of jobs that no SLA protects now, but did."""
        self.available = Availability(self.jobs)
        self.arena = self.available.arena
        self.hosts = Hosts(self.available)
        self.budgets = Budgets(self.jobs, self.groups, self.available)
        self.timers = Timers(self.jobs, self.available, self.budgets)
        super().__init__(CurrentInput())
        self._waiting = Waiting(self._input, self.jobs, self.available, self.budgets, self.timers)
        self._decisions = Decisions(self.jobs, self.unguarded, self.available, self.budgets, self._waiting)
        self._deadlines = self.timers.deadlines
        self._steps = (
            Step("time", self._pass_time, "what time changes is written into rows before anything looks at them", True),
            Step("unguarded", self._decisions.unguarded, "they wait for nobody"),
            Step("verdicts", self._decisions.verdicts, "what an SLA protects comes after time has passed", True),
            Step("surplus", self._decisions.surplus, "what verdicts have just spent isn't given up"),
        )
        self._set_handlers(
            (JobAccepted, self._accepted),
            (JobChanged, self._changed),
            (JobPriorityChanged, self._priority_changed),
            (JobSlaChanged, self._sla_changed),
            (SlaGroupSet, self._group_set),
            (InstancesChanged, self._instances_changed),
            (InstancesWanted, self._wanted),
            (RunsOrdered, self._of_protected(self._ordered)),
            (RunsAvailable, self._of_protected(self._available)),
            (RunsStopping, self._of_protected(self._stopping)),
            (RunsEnded, self._of_protected(self._ended)),
            (HostConnected, self._heard),
            (HostBack, self._heard),
            (HostSilent, self._silent),
            (DisruptionAsked, self._asked),
            (DisruptionWithdrawn, self._withdrawn),
            (DisruptionAllowed, self._allowed),
            (DisruptionDeferred, self._deferred),
            (SurplusSet, self._surplus_set),
            (TimerPassed, self._time_passed),
        )

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""
        return (self.jobs, self.groups, self.unguarded, self.going, self.hosts.table, self.arena.table)

    def _restored(self) -> None:
        self.available.restored()
        self.hosts.restored()
        self.budgets.restored()
        self.timers.restored()
        self._waiting.restored()

    def _decide(self, this: Pass) -> list[Event]:
        """A unit of work is a verdict."""
        if not self.jobs and not self.unguarded:
            return []
        return decide_in_steps(self._steps, this)

    def unavailable(self, job_id: str) -> int:
        """Counts the instances of a job with an SLA that are unavailable, or about to be."""
        return self.available.counts[job_id].missing

    def _pass_time(self, this: Pass) -> list[Event]:
        at = self.next_wakeup()
        return [TimerPassed(machine=self.name, due_ms=this.now)] if at is not None and at <= this.until_ms else []

    def _time_passed(self, event: TimerPassed, now: int) -> None:
        ripe, job_ids = self.timers.passed(event.due_ms)
        self._touch(ripe)
        self._waiting.touch(job_ids)

    # What inputs and decisions do.

    def _locate(self, event: Any) -> tuple[I64, I64, I64]:
        """The slots that a record names among jobs with an SLA, each once, their runs, and where each stands."""
        slots, exists = locate(event, self.jobs)
        items = np.flatnonzero(exists)
        if len(items) > 1:
            _, first = np.unique(slots[items], return_index=True)
            items = np.sort(items[first])
        return slots[items], event.run_array[items].astype(np.int64), items

    def _of_protected(self, handler: Handler) -> Handler:
        """Skips records about runs while no job has an SLA, as in most cells at most times."""
        return lambda event, now: handler(event, now) if self.jobs else None

    def _touch(self, slots: I64) -> None:
        """Instances have changed."""
        if len(slots):
            self._waiting.touch(self.available.jobs_of(slots))

    def _accepted(self, event: JobAccepted, now: int) -> None:
        if has_sla(event.max_unavailable, event.sla):
            row = JobRow(0, event.instances, event.max_unavailable, _policy(event), event.kind, event.priority)
            begun = Flag.NOT_BEGUN if event.kind == "batch" else 0
            self.available.add_job(event.job_id, row, ended=event.first_run - 1, flags=int(begun))
            self.budgets.join(event.job_id)
            self.budgets.look_at_windows(event.job_id, now)
            self._waiting.touch((event.job_id,))

    def _changed(self, event: JobChanged, now: int) -> None:
        if is_over(event) and event.job_id in self.jobs:
            self._drop(event.job_id)
        elif self.going and is_over(event):
            self._forget_going(event.job_id)

    def _priority_changed(self, event: JobPriorityChanged, now: int) -> None:
        if event.job_id in self.jobs:
            self.jobs.change(event.job_id).priority = event.priority
            self._waiting.touch((event.job_id,))

    def _sla_changed(self, event: JobSlaChanged, now: int) -> None:
        job_id, row = event.job_id, self.jobs.get(event.job_id)
        if not has_sla(event.max_unavailable, event.sla):
            if row is not None:
                slots = self.available.waiting(job_id)
                for slot, run in zip(slots.tolist(), self.arena["asked"][slots].tolist(), strict=True):
                    self.unguarded.put((job_id, slot - row.base), run)
                allowed = self.available.stretch(job_id, "allowed")
                for instance in np.flatnonzero(allowed).tolist():
                    self.going.put((job_id, instance), int(allowed[instance]))
                self._drop(job_id)
            return
        if row is None:
            self._protect(event, now)
        else:
            self.budgets.leave(job_id)
            before, row = row.rules, self.jobs.change(job_id)
            row.max_unavailable, row.policy = event.max_unavailable, _policy(event)
            self.budgets.join(job_id)
            self._ripen_by(job_id, row.rules.min_healthy_ms - before.min_healthy_ms)
            slots = self.available.waiting(job_id)
            self.available.flag(slots, off=int(Flag.PATIENT))
            self.available.flag(slots[self._is_patient(job_id, slots, now)], on=int(Flag.PATIENT))
            if before.group and before.group in self.groups:
                self._waiting.touch_group(before.group)
        self.budgets.look_at_windows(job_id, now)
        self._waiting.touch((job_id,))

    def _ripen_by(self, job_id: str, more_ms: int) -> None:
        """Runs of a job count so much later, if they don't yet."""
        slots = self.available.slots_of(job_id)
        slots = slots[self.arena["ripe_at"][slots] > 0]
        if more_ms and len(slots):
            at = np.maximum(self.arena["ripe_at"][slots] + -(-more_ms // 1000), 1)
            self.arena.set("ripe_at", slots, at)
            self.timers.ripen(slots)

    def _protect(self, event: JobSlaChanged, now: int) -> None:
        """A job has an SLA that had none. Disruptions of it that have no verdict yet wait for one by its SLA; runs that
        were allowed to go, and are still there, hold its budget.
        """
        job_id, count = event.job_id, event.count_array
        row = JobRow(0, event.instances, event.max_unavailable, _policy(event), event.kind, event.priority)
        self.available.add_job(job_id, row, ended=REMOVED)
        self.budgets.join(job_id)
        slots, instances = row.base + event.named_instances(), event.named_instances()
        runs, want = (np.repeat(each, count).astype(np.int64) for each in (event.run_array, event.wanted_array))
        ripens = self._ripens(event, runs, row.rules.min_healthy_ms, now)
        flags: I64 = np.where(want == 0, int(Flag.UNWANTED), 0)
        flags |= np.where((runs > 0) & (ripens == 0), RIPE, 0)
        if event.kind == "batch":
            flags |= np.where(runs > 0, 0, int(Flag.NOT_BEGUN))
        going = [self.going.get((job_id, instance), -1) for instance in instances.tolist()] if self.going else [0]
        allowed = np.where((runs > 0) & (np.array(going) == runs), runs, 0)
        self.available.change(slots, ended=0, available=runs, ripe_at=ripens, allowed=allowed, flags=flags)
        self.timers.ripen(slots[ripens > 0])
        if len(event.host):
            host = np.repeat(event.host_array, count)
            self.hosts.order(event, slots[host >= 0], host[host >= 0].astype(np.int64), now)
        self.available.flag(slots[want > 1], on=int(Flag.AWAY))
        self._forget_going(job_id)
        for key, run in [(key, run) for key, run in self.unguarded.items() if key[0] == job_id]:
            self.unguarded.remove(key)
            slots = np.array([row.base + key[1]]) if 0 <= key[1] < row.instances else NO_SLOTS
            slots = slots[(self.arena["ended"][slots] < run) & (self.arena["available"][slots] <= run)]
            self.available.change(slots, asked=run, asked_at=1)

    def _ripens(self, event: JobSlaChanged, runs: I64, wait_ms: int, now: int) -> I64:
        """The column `ripe_at` of runs that are available as a job gets its SLA."""
        if not wait_ms or not len(event.since):
            return np.zeros(len(runs), dtype=np.int64)
        at = np.maximum(np.repeat(event.since_array, event.count_array) - EPOCH_S + -(-wait_ms // 1000), 1)
        ripens: I64 = np.where((runs > 0) & (milliseconds(at) > now), at, 0)
        return ripens

    def _forget_going(self, job_id: str) -> None:
        for key in [key for key in self.going if key[0] == job_id]:
            self.going.remove(key)

    def _drop(self, job_id: str) -> None:
        group = self.budgets.group_of(job_id)
        self.budgets.leave(job_id)
        self._waiting.forget(job_id)
        self.timers.forget(job_id)
        self.available.drop_job(job_id)
        if group:
            self._waiting.touch_group(group)

    def _group_set(self, event: SlaGroupSet, now: int) -> None:
        if event.removed:
            if event.group in self.groups:
                self.groups.remove(event.group)
        else:
            self.groups.put(event.group, row_of(GroupRow, event))
        self._waiting.touch_group(event.group)

    def _instances_changed(self, event: InstancesChanged, now: int) -> None:
        row = self.jobs.get(event.job_id)
        if row is None:
            return
        added, removed, _ = instance_change(event)
        slots = row.base + removed[removed < row.instances]
        self.arena.put(slots, **dict.fromkeys(COLUMNS, 0))
        base = change_instances(self.arena, row.base, row.instances, event)
        flags = Flag.NOT_BEGUN if row.kind == "batch" else 0
        if event.surplus:
            flags = Flag.SURPLUS if event.surplus == row.serial and row.surplus else Flag.SURPLUS | Flag.LEFTOVER
        self.arena.set("flags", base + added, int(flags))
        if event.adopted:
            slots = base + np.flatnonzero(self.arena["flags"][base : base + event.instances] & int(Flag.SURPLUS))
            slots = slots[self.arena["flags"][slots] & int(Flag.LEFTOVER) == 0][: event.adopted]
            self.arena.set("flags", slots, self.arena["flags"][slots] & ~int(Flag.SURPLUS))
        self.available.resize(event.job_id, base, event.instances)
        self.timers.moved(event.job_id)
        self.hosts.moved(self.available.slots_of(event.job_id))
        self._waiting.touch((event.job_id,))

    def _wanted(self, event: InstancesWanted, now: int) -> None:
        row = self.jobs.get(event.job_id)
        if row is None:
            return
        instances = event.named_instances() if event.first else np.arange(row.instances)
        slots = row.base + np.unique(instances[(instances >= 0) & (instances < row.instances)])
        slots = slots[self.arena["ended"][slots] != REMOVED]
        if event.wanted:
            self.available.flag(slots, off=int(Flag.UNWANTED))
        else:
            self.available.flag(slots, on=int(Flag.UNWANTED))
        self._touch(slots)

    def _ordered(self, event: RunsOrdered, now: int) -> None:
        slots, runs, items = self._locate(event)
        new = self.arena["ended"][slots] < runs
        if new.any():
            self.hosts.order(event, slots[new], event.host_array[items[new]].astype(np.int64), now)
            self._touch(slots[new])

    def _available(self, event: RunsAvailable, now: int) -> None:
        slots, runs, _ = self._locate(event)
        newer = (self.arena["ended"][slots] < runs) & (self.arena["available"][slots] < runs)
        slots, runs = slots[newer], runs[newer]
        if not len(slots):
            return
        arena, (job_ids, job, _) = self.arena, self.available.named(slots)
        waits = np.array([self.jobs[job_id].rules.min_healthy_ms for job_id in job_ids])[job]
        ripens = np.array([ripe_at(now, wait) if wait else 0 for wait in waits.tolist()])
        again = (arena["allowed"][slots] > 0) & (arena["allowed"][slots] < runs)
        off = RIPE | int(Flag.NOT_BEGUN | Flag.AWAY)
        flags = arena["flags"][slots] & ~off & ~np.where(again, int(Flag.HOURLY), 0) | np.where(waits > 0, 0, RIPE)
        allowed = np.where(again, 0, arena["allowed"][slots])
        self.available.change(slots, available=runs, ripe_at=ripens, flags=flags, allowed=allowed)
        self.timers.ripen(slots[ripens > 0])
        self._waiting.touch(job_ids)

    def _stopping(self, event: RunsStopping, now: int) -> None:
        slots, runs, _ = self._locate(event)
        slots = slots[self.arena["available"][slots] == runs]
        self.available.change(slots, available=0, ripe_at=0, flags=self.arena["flags"][slots] & ~RIPE)
        self._touch(slots)

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, runs, items = self._locate(event)
        if not len(slots):
            return
        arena = self.arena
        ended, flags = arena["ended"][slots], arena["flags"][slots]
        over = (arena["available"][slots] == runs) | (arena["available"][slots] == 0)
        current = runs > ended
        flags = np.where(over, flags & ~RIPE, flags)
        flags |= self._ended_flags(event, slots, items, current)
        answered = arena["asked"][slots] == runs
        self.available.change(
            slots,
            ended=np.maximum(ended, runs),
            available=np.where(over, 0, arena["available"][slots]),
            ripe_at=np.where(over, 0, arena["ripe_at"][slots]),
            host=np.where(current, 0, arena["host"][slots]),
            flags=flags,
        )
        self._answer(slots[answered])
        self._touch(slots)

    def _ended_flags(self, event: RunsEnded, slots: I64, items: I64, current: Any) -> I64:
        """The flags of instances whose present runs have ended: batch tasks may be over, daemons leave with hosts."""
        flags = np.zeros(len(slots), dtype=np.int64)
        job_ids, job, _ = self.available.named(slots)
        kinds = [self.jobs[job_id].kind for job_id in job_ids]
        if "batch" in kinds and len(event.next):
            over = np.isin(event.next_array[items], ENDED_TASKS) & np.array([kind == "batch" for kind in kinds])[job]
            flags[over & current] = int(Flag.NOT_BEGUN)
        if "daemon" in kinds and len(event.why):
            away = np.isin(event.why_array[items], _GONE_WITH_HOST) & np.array([k == "daemon" for k in kinds])[job]
            flags[away & current] = int(Flag.AWAY)
        return flags

    def _heard(self, event: HostConnected | HostBack, now: int) -> None:
        if self.hosts.table:
            self._touch(self.hosts.hear(event))

    def _silent(self, event: HostSilent, now: int) -> None:
        self._touch(self.hosts.miss(event, now))

    def _asked(self, event: DisruptionAsked, now: int) -> None:
        if any(job_id not in self.jobs for job_id in event.job_ids):
            for job_id, instance, run in _runs(event):
                if job_id not in self.jobs:
                    self.unguarded.put((job_id, instance), run)
        slots, runs, items = self._locate(event)
        new = self.arena["ended"][slots] < runs
        slots, runs, items = slots[new], runs[new], items[new]
        if not len(slots):
            return
        why = event.why_array[items] if len(event.why) else np.zeros(len(slots), dtype=np.int64)
        since = np.full(len(slots), second(now))
        if len(event.since):
            since = np.clip(event.since_array[items] - EPOCH_S, 1, second(now))
        flags = self.arena["flags"][slots] & ~int(Flag.PATIENT | Flag.AGED | Flag.HOURLY)
        unit = self._units(event, items)
        self.available.change(slots, asked=runs, asked_at=since, why=why, unit=unit, told=0, flags=flags)
        job_ids, job, _ = self.available.named(slots)
        for at, job_id in enumerate(job_ids):
            self.budgets.forget_hour(job_id, now)
            self.budgets.look_at_windows(job_id, now)
            if self.budgets.replaces_first(job_id):
                mine = slots[job == at]
                self.available.flag(mine[self._is_patient(job_id, mine, now)], on=int(Flag.PATIENT))
        self._waiting.touch(job_ids)

    def _is_patient(self, job_id: str, slots: I64, now: int) -> Any:
        """Says of disruptions of a job whether they wait for a replacement, before the plain budget is used."""
        since, why = (self.arena[column][slots].astype(np.int64) for column in ("asked_at", "why"))
        young = milliseconds(since) + self.jobs[job_id].rules.replace_wait_ms > now
        return young & (why != RunCause.PREEMPT) & self.budgets.replaces_first(job_id)

    def _units(self, event: DisruptionAsked, items: I64) -> I64:
        """The column `unit`, with the numbers that hosts have here."""
        if not len(event.unit):
            return np.zeros(len(items), dtype=np.int64)
        unit = event.unit_array[items].astype(np.int64)
        for number in sorted({*unit[unit > 0].tolist()}):
            unit[event.unit_array[items] == number] = self.hosts.number(event.host_ids[number - 1])
        return unit

    def _withdrawn(self, event: DisruptionWithdrawn, now: int) -> None:
        self._clear_unguarded(event)
        for job_id, instance, run in _runs(event) if self.going else ():
            if self.going.get((job_id, instance)) == run:
                self.going.remove((job_id, instance))
        slots, runs, _ = self._locate(event)
        holders = slots[self.arena["allowed"][slots] == runs]
        for slot in holders[self.arena["flags"][holders] & int(Flag.HOURLY) > 0].tolist():
            self.budgets.take_back(self.available.job_of(slot), int(self.arena["asked_at"][slot]))
        self.available.change(holders, allowed=0, flags=self.arena["flags"][holders] & ~int(Flag.HOURLY))
        self._answer(slots[self.arena["asked"][slots] == runs])
        self._touch(slots)

    def _answer(self, slots: I64) -> None:
        """Nothing is asked about slots any more."""
        flags = self.arena["flags"][slots] & ~int(Flag.PATIENT | Flag.AGED)
        self.available.change(slots, **dict.fromkeys(ASK, 0), flags=flags)

    def _allowed(self, event: DisruptionAllowed, now: int) -> None:
        for job_id, instance, run in self._clear_unguarded(event):
            self.going.put((job_id, instance), run)
        slots, runs, items = self._locate(event)
        if not len(slots):
            return
        arena, job_ids = self.arena, self.available.jobs_of(slots)
        before = [self.available.counts[job_id].missing for job_id in job_ids]
        counts = np.ones(len(slots), dtype=np.bool_) if not len(event.free) else event.free_array[items] == 0
        counts &= arena["why"][slots] != RunCause.UPDATE
        flags = arena["flags"][slots] & ~int(Flag.PATIENT | Flag.AGED)
        asked_at = np.zeros(len(slots), dtype=np.int64)
        job_ids, job, _ = self.available.named(slots)
        for at, job_id in enumerate(job_ids):
            if self.budgets.rate(job_id) is not None and (hourly := counts & (job == at)).any():
                asked_at[hourly] = self.budgets.note_hour(job_id, int(hourly.sum()), now)
                flags[hourly] |= int(Flag.HOURLY)
        self.available.change(slots, **dict.fromkeys(ASK, 0) | {"allowed": runs, "flags": flags, "asked_at": asked_at})
        for job_id, missing in zip(job_ids, before, strict=True):
            after = self.budgets.of_job(job_id)
            assert after.missing <= max(missing, after.limit + after.extra), job_id
        self._waiting.touch(job_ids)
        self._decisions.apply(job_ids)

    def _deferred(self, event: DisruptionDeferred, now: int) -> None:
        slots, _, _ = self._locate(event)
        self.arena.set("told", slots, TOLD[Code(event.code)])
        self._decisions.apply(event.job_ids)

    def _surplus_set(self, event: SurplusSet, now: int) -> None:
        columns = (event.job_array.tolist(), event.surplus_array.tolist(), event.serial_array.tolist())
        for job, surplus, serial in zip(*columns, strict=True):
            job_id = event.job_ids[job]
            if job_id not in self.jobs:
                continue
            row = self.jobs.change(job_id)
            row.surplus, row.serial = surplus, serial
            if not surplus:
                slots = self.available.slots_of(job_id)
                slots = slots[self.arena["flags"][slots] & int(Flag.SURPLUS) > 0]
                self.available.flag(slots, on=int(Flag.LEFTOVER))
            self._waiting.touch((job_id,))

    def _clear_unguarded(self, event: DisruptionWithdrawn | DisruptionAllowed) -> list[tuple[str, int, int]]:
        """No verdict is due any more on what a record names; returns what of it no SLA protects."""
        runs = [run for run in _runs(event) if self.unguarded.get(run[:2]) == run[2]] if len(self.unguarded) else []
        for job_id, instance, _ in runs:
            self.unguarded.remove((job_id, instance))
        return runs


def _policy(event: JobAccepted | JobSlaChanged) -> SlaRow | None:
    return None if event.sla is None else row_of(SlaRow, event.sla)


def _runs(event: DisruptionAsked | DisruptionWithdrawn | DisruptionAllowed) -> Iterator[tuple[str, int, int]]:
    """Job, instance and run of all that a record names."""
    columns = (column.tolist() for column in event.items())
    return ((event.job_ids[job], instance, run) for job, instance, run in zip(*columns, strict=True))
