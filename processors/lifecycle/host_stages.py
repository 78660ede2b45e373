"""The stages of the maintenance of hosts, as placement says them, and which runs are to leave by them.

Runs leave a host that drains: those of stateless jobs at once, batch tasks from DRAINING_BATCH on, if preemption may
end them; what is bound to the host goes when nothing else is left there, all of it together. A gang leaves as soon as
one member has to. At FORCING all that is left is ended. What a stage caused is withdrawn when it no longer holds, but
for stops that were ordered (decision 093).

By a taint whose effect is to evict those leave that don't tolerate it, as from a host that drains, and those that do so
for a time once that has passed; firm batch tasks and what is bound to the host stay.

A row of a host has its stage; the rest is derived from the columns, for hosts that drain alone.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np

from events.codes import Stage, TaskState
from events.columns import I64, distinct
from events.records.parts import Cause, PlacementRules
from events.records.placement import HostMaintenanceChanged, HostTainted
from events.records.rounds import TimerPassed
from events.taints import is_tolerated
from processors.lifecycle.causes import EndCause
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import HostRow, JobRow, TolerationsRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import PLACED, TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.updates import Updates
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.record_rows import StayRow
from processors.state.table import Table, struct_table

DRAINS = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING, Stage.DRAINED)
"""Stages by which runs leave."""
_MOVES_BATCH = (Stage.DRAINING_BATCH, Stage.FORCING, Stage.DRAINED)
_THERE = (PLACED, TaskState.ORDERED, TaskState.RUNNING)
"""States of tasks whose runs can still be told to leave."""
_STATELESS, _BATCH, _FIRM, _BOUND = range(4)
"""The ways in which tasks leave a host."""
_KINDS = {"stateless": _STATELESS, "batch": _BATCH}


class HostStages:
    """Notes the stages, and causes of runs."""

    def __init__(self, tasks: Tasks, jobs: Jobs, hosts: Hosts, updates: Updates) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._hosts = hosts
        self._updates = updates
        self.drains: dict[int, int] = {}
        """The stages of hosts that drain, by number."""
        self.tolerations: Table[str, TolerationsRow] = struct_table("tolerations", TolerationsRow)
        """The tolerations of the jobs that have some."""
        self._evicts: dict[int, HostRow] = {}
        """The rows of hosts that have taints by which runs leave."""
        self.ends: Deadlines[int] = Deadlines()
        """When tolerations of taints of a host end next."""
        self._others: dict[int, int] = {}
        """The number of tasks on each of these that aren't bound to their hosts."""

    def restored(self) -> None:
        """Finds again what is derived."""
        rows = self._hosts.table.values()
        for row in rows:
            if row.stage:
                self._tasks.stage_is(row.number, row.stage)
        self._evicts = {row.number: row for row in rows if row.evicts}
        self.drains = {row.number: row.stage for row in rows if row.stage in DRAINS or row.evicts}
        self._others = {number: self._count(self._on(number)) for number in self.drains}
        self.ends.restore(())
        self._time(self._evicts)

    def said(self, event: HostMaintenanceChanged, now: int) -> None:
        """Placement says the stages of hosts."""
        for host_id, stage in zip(event.host_ids, event.stage_array.tolist(), strict=True):
            if host_id not in self._hosts.table and stage not in DRAINS:
                continue  # nothing of it is known, and nothing has to be
            number = self._hosts.number(host_id, 0)
            row = self._hosts.table.change(host_id)
            row.stage, row.stage_by = stage, self._tasks.input.cause
            self._set(number, stage, now)

    def tainted(self, event: HostTainted, now: int) -> None:
        """A host has these taints; runs that don't tolerate them leave by some, and stay where those are taken off."""
        row = self._hosts.table.get(event.host_id)
        if not event.evicts and (row is None or not row.evicts):
            return
        number = self._hosts.number(event.host_id, 0)
        row = self._hosts.table.change(event.host_id)
        before, since = row.evicts, row.evicts_ms
        row.evicts = {key: event.taints[key] for key in event.evicts if key in event.taints}
        row.evicts_ms = {key: since[key] if before.get(key) == value else now for key, value in row.evicts.items()}
        row.looked_ms = row.looked_ms if row.evicts else 0
        row.evicts_by = self._tasks.input.cause if row.evicts else None
        self._evicts.pop(number, None)
        if row.evicts:
            self._evicts[number] = row
        self._time((number,))
        self._follow(number, row.stage)

    def passed(self, event: TimerPassed, now: int) -> None:
        """Tolerations of some hosts have ended."""
        for number in self.ends.due(event.due_ms):
            row = self._hosts.table.change(self._hosts.id_of(number))
            row.looked_ms = event.due_ms
            self._evicts[number] = row
            self._time((number,))
            self._follow(number, row.stage)

    def job_has(self, job_id: str, rules: PlacementRules) -> None:
        """Tasks of a job have these rules."""
        row = self.tolerations.get(job_id)
        row = row or TolerationsRow(())
        stays = {each.taint: each.for_ms for each in row.stays}
        for each in rules.stays:
            stays[each.taint] = max(stays.get(each.taint, 0), each.for_ms)
        tolerations = tuple(sorted({*row.tolerations, *rules.tolerations}))
        after = TolerationsRow(tolerations, tuple(StayRow(*each) for each in sorted(stays.items())))
        if after == row:
            return
        self.tolerations.put(job_id, after)
        if after.stays:
            self._time(self._evicts)

    def job_dropped(self, job_id: str) -> None:
        """A job is no more."""
        row = self.tolerations.get(job_id)
        if row is not None:
            self.tolerations.remove(job_id)
            if row.stays:
                self._time(self._evicts)

    def host_removed(self, number: int) -> None:
        """A host is forgotten, and its number free; nothing is there."""
        self._tasks.stage_is(number, Stage.UP)
        self._evicts.pop(number, None)
        self.ends.clear(number)
        self.drains.pop(number, None)
        self._others.pop(number, None)

    def placed(self, slots: I64) -> None:
        """Tasks are placed, some perhaps on a host that has begun to drain since that was decided."""
        there = self._draining(slots)
        for number in there:
            mine = slots[self._tasks.arena["host"][slots] == number]
            had = self._others[number]
            self._others[number] += self._count(mine)
            self._review(mine if had or not self._others[number] else self._on(number))

    def ordered(self, slots: I64) -> None:
        """Runs are ordered: those of stateful jobs are bound to their hosts from now on."""
        for number in self._draining(slots):
            self._review(slots[self._tasks.arena["host"][slots] == number])

    def leaving(self, slots: I64) -> dict[int, int]:
        """The hosts that drain and that the runs of these tasks leave, which are over, with how many aren't bound."""
        hosts = self._tasks.arena["host"]
        return {number: self._count(slots[hosts[slots] == number]) for number in self._draining(slots)}

    def left(self, hosts: dict[int, int]) -> None:
        """Runs have left hosts, see `leaving`: when the last is gone that isn't bound there, those go that are."""
        for number, others in hosts.items():
            self._others[number] -= others
            assert self._others[number] >= 0, number
            if others and not self._others[number]:
                self._review(self._on(number))

    def led_by(self, slots: I64) -> tuple[list[Cause], I64]:
        """The causes of the stages by which tasks leave, and for each task which of them; -1: none."""
        arena, index = self._tasks.arena, np.full(len(slots), -1, dtype=np.int64)
        causes: dict[int, int] = {}
        records: list[Cause] = []
        leaves = arena["causes"][slots] & int(EndCause.DRAIN | EndCause.EVICT) != 0
        for at in np.flatnonzero(leaves).tolist():
            number = self._led_to(int(slots[at]))
            if number not in causes:
                row = self._hosts.table[self._hosts.id_of(number)] if number else None
                by = (row.stage_by if row.stage in DRAINS else row.evicts_by) if row else None
                cause = recorded(by)
                causes[number] = len(records) if cause else -1
                records += [cause] if cause else []
            index[at] = causes[number]
        return records, index

    def _led_to(self, slot: int) -> int:
        """The host by which a task leaves, its own or that of a member of its gang; 0: none drains any more."""
        arena = self._tasks.arena
        number = int(arena["host"][slot])
        if number in self.drains or not arena["traits"][slot] & Trait.GANG:
            return number if number in self.drains else 0
        hosts = arena["host"][self._jobs.gangs.with_members(np.array([slot]))].tolist()
        return min((number for number in hosts if number in self.drains), default=0)

    def _set(self, number: int, stage: int, now: int) -> None:
        """A host has a stage: whoever runs there is to leave or not."""
        there = self._on(number)
        self._tasks.stage_is(number, stage)
        self._updates.host_changed(number, there, now)
        self._follow(number, stage)

    def _follow(self, number: int, stage: int) -> None:
        """Whoever runs on a host is to leave or not."""
        there = self._on(number)
        if stage in DRAINS or number in self._evicts:
            self.drains[number] = stage
            self._others[number] = self._count(there)
        elif number in self.drains:
            del self.drains[number], self._others[number]
        else:
            return
        self._review(there)

    def _on(self, number: int) -> I64:
        return self._tasks.by_host.of(np.array([number - 1]))

    def _draining(self, slots: I64) -> list[int]:
        """The hosts that drain among those of tasks."""
        if not self.drains:
            return []
        return [number for number in distinct(self._tasks.arena["host"][slots]).tolist() if number in self.drains]

    def _count(self, slots: I64) -> int:
        """Counts those of these tasks that aren't bound to their hosts."""
        return int(np.count_nonzero(self._kinds(slots) != _BOUND))

    def _kinds(self, slots: I64) -> I64:
        return self._jobs.of_slots(slots, self._kind)

    def _kind(self, row: JobRow) -> int:
        kind = _KINDS.get(row.kind, _BOUND)
        firm = row.preempt_fails or not self._updates.preemptible(self._jobs.at[row.base])
        return _FIRM if kind == _BATCH and firm else kind

    def _review(self, slots: I64) -> None:
        """Gives tasks the causes that the stages of their hosts demand, and takes those that they no longer do."""
        slots = self._jobs.gangs.with_members(slots)
        arena = self._tasks.arena
        slots = slots[among(arena["state"][slots], _THERE)]
        if not len(slots):
            return
        forced, leaves = self._demands(slots)
        causes = arena["causes"][slots]
        evicted, drained = (causes & int(cause) != 0 for cause in (EndCause.EVICT, EndCause.DRAIN))
        for event, which in (
            (TaskEvent.EVICT, forced & ~evicted),
            (TaskEvent.UNEVICT, evicted & ~forced),
            (TaskEvent.DRAIN, leaves & ~drained & ~forced),
            (TaskEvent.UNDRAIN, drained & ~leaves & ~forced),
        ):
            self._tasks.record_event(event, slots[which])

    def _demands(self, slots: I64) -> tuple[Mask, Mask]:
        """True for tasks that are to be ended, whatever budgets say, and for such as leave as budgets let them."""
        arena = self._tasks.arena
        hosts, kind, state = arena["host"][slots], self._kinds(slots), arena["state"][slots]
        stage = self._tasks.stages(hosts)
        forced = stage == Stage.FORCING
        leaves = among(stage, DRAINS) & (kind == _STATELESS)
        leaves |= among(stage, _MOVES_BATCH) & (kind == _BATCH)
        unbound = (state == PLACED) & (arena["pin"][slots] <= 0)
        last = np.array([self._others.get(number, 0) == 0 for number in hosts.tolist()])
        leaves |= among(stage, DRAINS) & (kind == _BOUND) & (unbound | (last & (state != PLACED)))
        if self._evicts:
            leaves |= self._untolerated(slots, hosts.astype(np.int64)) & ((kind == _STATELESS) | (kind == _BATCH))
        gang = arena["traits"][slots] & Trait.GANG != 0
        if gang.any():
            owners = arena["owner"][slots]
            forced |= gang & np.isin(owners, owners[gang & forced])
            leaves |= gang & np.isin(owners, owners[gang & leaves])
        return forced, leaves

    def _untolerated(self, slots: I64, hosts: I64) -> Mask:
        """True for tasks that don't tolerate a taint of their host by which runs leave."""
        mask = np.zeros(len(slots), dtype=bool)
        for number in distinct(hosts).tolist():
            row, here = self._evicts.get(number), hosts == number
            if row is not None:
                for key in row.evicts:
                    mask[here] |= self._jobs.of_slots(slots[here], partial(self._tolerates, row, key)) == 0
        return mask

    def _tolerates(self, host: HostRow, key: str, job: JobRow) -> int:
        row = self.tolerations.get(self._jobs.at[job.base])
        if row is None or is_tolerated(key, host.evicts[key], row.tolerations):
            return int(row is not None)
        end = _end(host, key, row)
        return int(end is not None and end > host.looked_ms)

    def _time(self, numbers: Iterable[int]) -> None:
        """Sets when tolerations end next, of jobs wherever they run."""
        stays = [row for row in self.tolerations.values() if row.stays] if self._evicts else []
        for number in numbers:
            ends: list[int] = []
            if (host := self._evicts.get(number)) is not None:
                times = [_end(host, key, row) for row in stays for key in host.evicts]
                ends = [each for each in times if each is not None and each > host.looked_ms]
            self.ends.set(number, min(ends, default=None))


def _end(host: HostRow, key: str, row: TolerationsRow) -> int | None:
    """When a job no longer tolerates a taint of a host; the shortest of its times counts. None: it has none."""
    texts = key, f"{key}={host.evicts[key]}"
    return min((host.evicts_ms[key] + each.for_ms for each in row.stays if each.taint in texts), default=None)
