"""Drains, cordons and their ends: what operators ask for, the deadlines of drains, and when a host is DRAINED.

A fact about several hosts is answered once, for all or none of them. What it asks for stands in the stages of the hosts
(`stages.py`); lifecycle lets runs leave by these.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from events.codes import Code, RunCause, Stage
from events.maintenance_refusals import NO_FORCE, drain_refused
from events.records.base import Event
from events.records.hosts import HostsCordonRequested, HostsDrainRequested, HostsResumeRequested
from events.records.lifecycle import RunsEnded
from events.records.parts import Cause, DrainPlan
from events.records.placement import HostMaintenanceChanged, HostsAnswered
from processors.placement.drain_cost import cheapest, drain_costs
from processors.placement.hosts import Hosts
from processors.placement.runs import Runs
from processors.placement.stages import CAMPAIGN, OPERATOR, STEPS, Goal, StageRow, Stages, changed
from processors.placement.states import ABSENT, DRAINS
from processors.state.arena import locate
from processors.state.causes import CurrentInput, host_fact, recorded
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import earliest
from processors.state.table import Table, struct_table

MAINTENANCE = (RunCause.DRAIN, RunCause.EVICT)
"""Causes of the end of runs that leave their host for its maintenance."""
BATCH, ESCALATE = ("wait", "move"), ("wait", "preempt", "force")


class HostsAskRow(msgspec.Struct, array_like=True):
    """A request of an operator about hosts, while it waits for its answer. Durations are in milliseconds."""

    kind: Literal["drain", "cordon", "resume"]
    host_ids: tuple[str, ...]
    command_id: str
    at_ms: int
    most: int = 0
    batch: str = "wait"
    deadline_ms: int = 0
    escalate: str = "wait"
    force_after_ms: int = 0
    force: bool = False
    cordon_only: bool = False

    @property
    def plan(self) -> DrainPlan:
        """The plan by which the hosts are emptied."""
        return DrainPlan(
            batch=self.batch,
            deadline_ms=self.deadline_ms,
            escalate=self.escalate,
            force_after_ms=self.force_after_ms,
        )

    @property
    def fault(self) -> str:
        """The sentence that refuses it; empty: there is nothing wrong with it."""
        if not self.host_ids:
            return "The request names no host."
        if self.batch not in BATCH or self.escalate not in ESCALATE:
            return f"`batch` must be one of {', '.join(BATCH)}, `escalate` {', '.join(ESCALATE)}."
        if min(self.most, self.deadline_ms, self.force_after_ms) < 0:
            return "Times and numbers of hosts must be 0 or more."
        return ""


class Maintenance:
    """Decides `HostMaintenanceChanged` and answers operators."""

    def __init__(self, hosts: Hosts, runs: Runs, stages: Stages, settings: CellSettings, current: CurrentInput) -> None:
        self.asks: Table[int, HostsAskRow] = struct_table("host_asks", HostsAskRow, int)
        self._hosts = hosts
        self._runs = runs
        self._stages = stages
        self._settings = settings
        self._input = current
        self.resumed_in_campaign: Callable[[str, StageRow, int], Goal] | None = None
        """Returns the goal of a host that a campaign has, where an operator resumes it at a time."""

    # What is said.

    def drain_asked(self, event: HostsDrainRequested, now: int) -> None:
        """An operator wants hosts empty."""
        row = self._asked("drain", event, now)
        row.most, row.batch, row.deadline_ms = event.most, event.batch, event.deadline_ms
        row.escalate, row.force_after_ms, row.force = event.escalate, event.force_after_ms, event.force

    def cordon_asked(self, event: HostsCordonRequested, now: int) -> None:
        """An operator keeps new tasks away from hosts."""
        self._asked("cordon", event, now)

    def resume_asked(self, event: HostsResumeRequested, now: int) -> None:
        """An operator ends drains and cordons."""
        self._asked("resume", event, now).cordon_only = event.cordon_only

    def _asked(
        self,
        kind: Literal["drain", "cordon", "resume"],
        event: HostsDrainRequested | HostsCordonRequested | HostsResumeRequested,
        now: int,
    ) -> HostsAskRow:
        host_ids = tuple(dict.fromkeys(event.host_ids))
        return self.asks.put(self._input.offset, HostsAskRow(kind, host_ids, event.command_id, now))

    def answered(self, event: HostsAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over; to be called while they have their places. Those that stay on their hosts and left one for its
        maintenance don't come back before that is over.
        """
        if not self._stages.table or not (drained := np.isin(event.why_array, MAINTENANCE)).any():
            return
        slots, exists = locate(event, self._runs.jobs)
        leavers = slots[exists & drained]
        for job_id, part in self._runs.waits.by_job(np.sort(leavers)):
            row = self._runs.jobs[job_id]
            hosts = self._runs.arena["host"][part] if row.stays or row.bound else part[:0]
            for number in dict.fromkeys(hosts[hosts > 0].tolist()):
                host_id = self._hosts.ids[number - 1]
                if self._stages.of(host_id).drains:
                    self._stages.bound_left(host_id)

    # What is decided.

    def next_ms(self) -> int | None:
        """When a deadline of a drain is; an operator's ask is due at once."""
        asked_ms = next(iter(self.asks.values())).at_ms if self.asks else None
        force_ms = self._stages.force_ms.first() if self._settings.now.drain_force else None
        return earliest(asked_ms, self._stages.preempt_ms.first(), force_ms)

    def decide(self, now: int, budget: int) -> list[Event]:
        """At most `budget` answers and changes of hosts, each host once; to be asked only when caught up, as deadlines
        count only then.
        """
        if self.asks:
            return self._answers(now, budget)
        return [*self._overdue(now, budget)] or [*self._empty(budget)]

    def _answers(self, now: int, budget: int) -> list[Event]:
        """The answers to operators, up to the first that is about a host which another has changed."""
        out: list[Event] = []
        touched: dict[str, None] = {}
        for offset, ask in islice(self.asks.items(), max(1, budget)):
            if any(host_id in touched for host_id in ask.host_ids):
                break
            changes, answer = self._answer(ask, offset, now)
            out += changes
            out.append(answer)
            touched |= dict.fromkeys(ask.host_ids if changes else ())
        return out

    def _answer(self, ask: HostsAskRow, offset: int, now: int) -> tuple[list[HostMaintenanceChanged], HostsAnswered]:
        """Returns the decisions that follow from a request, and the answer to it."""

        def answer(code: Code, message: str, refused: Mapping[str, Code] | None = None) -> HostsAnswered:
            return HostsAnswered(
                hosts_offset=offset,
                command_id=ask.command_id,
                code=code,
                message=message,
                host_ids=tuple(refused if refused is not None else goals),
                codes=tuple(refused.values()) if refused is not None else (),
            )

        goals: dict[str, Goal] = {}
        if ask.fault:
            return [], answer(Code.INVALID_SPEC, ask.fault, {})
        if ask.kind == "drain" and self._forces(ask) and not self._settings.now.drain_force:
            return [], answer(Code.FORCE_NOT_ALLOWED, NO_FORCE, {})
        if ask.most:
            ask = self._cheapest(ask, now)
        refused = {host_id: code for host_id in ask.host_ids if (code := self._refusal(ask, host_id)) is not None}
        if refused:
            return [], answer(*drain_refused(refused, len(ask.host_ids)), refused)
        goals = {host_id: each for host_id in ask.host_ids if (each := self._goal(ask, host_id)) is not None}
        if not goals:
            return [], answer(Code.REPEATED, "That is so already.")
        changes = [*self._changes(ask.kind, goals, host_fact(offset))]
        return changes, answer(Code.DONE, "")

    def _forces(self, ask: HostsAskRow) -> bool:
        return ask.force or ask.escalate == "force"

    def _cheapest(self, ask: HostsAskRow, now: int) -> HostsAskRow:
        """A request for some of many hosts, for those that cost least. Hosts that are lost, or in maintenance already,
        are left out, unless there are no others.
        """
        table, absent = self._hosts.table, self._hosts.are(ABSENT)
        rows = {host_id: table[host_id].number for host_id in ask.host_ids if host_id in table}
        free = [
            number
            for host_id, number in rows.items()
            if not absent[number]
            and self._stages.of(host_id).goal.stage in (Stage.UP, Stage.CORDONED)
            and not self._stages.of(host_id).in_campaign
        ]
        if len(rows) < len(ask.host_ids) or not free:
            return ask
        costs = drain_costs(self._runs, self._hosts, now)
        numbers = cheapest(self._hosts, free, costs)[: ask.most]
        return replace(ask, host_ids=tuple(self._hosts.ids[number] for number in numbers))

    def _refusal(self, ask: HostsAskRow, host_id: str) -> Code | None:
        """Why nothing is done with a host; None: it is."""
        if host_id not in self._hosts.table:
            return Code.NOT_FOUND
        row = self._stages.of(host_id)
        if row.in_campaign and (ask.kind != "resume" or ask.cordon_only):
            return Code.HOST_IN_CAMPAIGN
        if ask.cordon_only and row.stage not in (Stage.UP, Stage.CORDONED):
            return Code.HOST_DRAINING
        return None

    def _goal(self, ask: HostsAskRow, host_id: str) -> Goal | None:
        """The goal of a host; None: it is so."""
        row = self._stages.of(host_id)
        if ask.kind == "drain":
            goal = row.drained(ask.plan, ask.at_ms, replace=row.by == OPERATOR, force=ask.force)
            return goal if goal != row.goal or row.by != OPERATOR else None
        if ask.kind == "cordon":
            goal = row.goal._replace(cordon=True)
            if row.stage == Stage.UP:
                goal = goal._replace(stage=Stage.CORDONED)
        elif row.in_campaign and self.resumed_in_campaign is not None:
            goal = self.resumed_in_campaign(host_id, row, ask.at_ms)
        else:
            goal = Goal()
        return goal if goal != row.goal else None

    def _changes(self, kind: str, goals: Mapping[str, Goal], cause: Cause) -> Iterator[HostMaintenanceChanged]:
        """The decisions by an operator, one for those hosts whose maintenance is of the same."""
        of_whom: dict[tuple[str, str], dict[str, Goal]] = {}
        for host_id, each in goals.items():
            row = self._stages.of(host_id)
            stays = each.step in STEPS or (kind == "cordon" and row.by)
            whose = (row.by, row.source) if stays else ("", "") if each.stage == Stage.UP else (OPERATOR, "")
            of_whom.setdefault(whose, {})[host_id] = each
        for (by, source), hosts in of_whom.items():
            code = Code.ASKED if kind != "resume" else Code.WORK_DONE if by == CAMPAIGN else Code.RESUMED
            yield changed(hosts, code, by=by, source=source, cause=cause)

    def _overdue(self, now: int, budget: int) -> Iterator[HostMaintenanceChanged]:
        """Drains whose deadline has passed. Nothing is forced while the cell doesn't permit it, whoever asked for it
        when: it is once the cell does.
        """
        forces = self._stages.force_ms.due(now) if self._settings.now.drain_force else []
        force = dict.fromkeys(forces[:budget], Stage.FORCING)
        preempt = [host_id for host_id in self._stages.preempt_ms.due(now) if host_id not in force]
        batch = dict.fromkeys(preempt[: budget - len(force)], Stage.DRAINING_BATCH)
        yield from self._moved_on(force, Code.FORCED)
        yield from self._moved_on(batch, Code.DEADLINE)

    def _empty(self, budget: int) -> Iterator[HostMaintenanceChanged]:
        """Hosts that drain and have nothing left: the end of each run that was placed there was heard."""
        drains = np.isin(self._hosts.stage, DRAINS) & (self._hosts.runs == 0)
        empty = [self._hosts.ids[number] for number in np.flatnonzero(drains)[:budget].tolist()]
        yield from self._moved_on(dict.fromkeys(empty, Stage.DRAINED), Code.EMPTY)

    def _moved_on(self, stages: Mapping[str, Stage], code: Code) -> Iterator[HostMaintenanceChanged]:
        """Drains that are in another stage, together those of the same cause: by it they are told who forces, say."""
        of_whom: dict[tuple[object, ...], tuple[StageRow, dict[str, Goal]]] = {}
        for host_id, stage in stages.items():
            row = self._stages.of(host_id)
            _, hosts = of_whom.setdefault((row.by, row.source, row.cause), (row, {}))
            hosts[host_id] = row.goal._replace(stage=stage)
        for row, hosts in of_whom.values():
            yield changed(hosts, code, by=row.by, source=row.source, cause=recorded(row.cause))
