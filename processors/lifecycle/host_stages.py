"""The stages of the maintenance of hosts, as placement says them, and which runs are to leave by them.

Runs leave a host that drains: those of stateless jobs at once, batch tasks from DRAINING_BATCH on, if preemption may
end them; what is bound to the host goes when nothing else is left there, all of it together. A gang leaves as soon as
one member has to. At FORCING all that is left is ended. What a stage caused is withdrawn when it no longer holds, but
for stops that were ordered (decision 093).

By a taint whose effect is to evict those leave that don't tolerate it, as from a host that drains; firm batch tasks and
what is bound to the host stay.

A row of a host has its stage; the rest is derived from the columns, for hosts that drain alone.
"""

from functools import partial

import numpy as np

from events.codes import Stage, TaskState
from events.columns import I64, distinct
from events.records.parts import Cause, PlacementRules
from events.records.placement import HostMaintenanceChanged, HostTainted
from events.taints import is_tolerated
from processors.lifecycle.causes import EndCause
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import JobRow, TolerationsRow
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import PLACED, TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.updates import Updates
from processors.state.causes import recorded
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
        self._evicts: dict[int, dict[str, str]] = {}
        """The taints of hosts by which runs leave."""
        self._others: dict[int, int] = {}
        """The number of tasks on each of these that aren't bound to their hosts."""

    def restored(self) -> None:
        """Finds again what is derived."""
        rows = self._hosts.table.values()
        for row in rows:
            if row.stage:
                self._tasks.stage_is(row.number, row.stage)
        self._evicts = {row.number: row.evicts for row in rows if row.evicts}
        self.drains = {row.number: row.stage for row in rows if row.stage in DRAINS or row.evicts}
        self._others = {number: self._count(self._on(number)) for number in self.drains}

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
        row.evicts = {key: event.taints[key] for key in event.evicts if key in event.taints}
        row.evicts_by = self._tasks.input.cause if row.evicts else None
        self._evicts.pop(number, None)
        if row.evicts:
            self._evicts[number] = row.evicts
        self._follow(number, row.stage)

    def job_has(self, job_id: str, rules: PlacementRules) -> None:
        """Tasks of a job have these rules."""
        row = self.tolerations.get(job_id)
        before = row.tolerations if row is not None else ()
        if not {*rules.tolerations} <= {*before}:
            self.tolerations.put(job_id, TolerationsRow(tuple(sorted({*before, *rules.tolerations}))))

    def host_removed(self, number: int) -> None:
        """A host is forgotten, and its number free; nothing is there."""
        self._tasks.stage_is(number, Stage.UP)
        self._evicts.pop(number, None)
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
            for key, value in self._evicts.get(number, {}).items():
                here = hosts == number
                mask[here] |= self._jobs.of_slots(slots[here], partial(self._tolerates, key, value)) == 0
        return mask

    def _tolerates(self, key: str, value: str, job: JobRow) -> int:
        row = self.tolerations.get(self._jobs.at[job.base])
        return int(row is not None and is_tolerated(key, value, row.tolerations))
