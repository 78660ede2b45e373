"""The stages of hosts: what is wanted of each, beside the phase in which it is (decision 087).

A host that is simply wanted UP has no row. Rows change by `HostMaintenanceChanged` alone. Each part of placement that
sets stages (operators, campaigns, windows, health) does it in three steps:

1. `Stages.of(host_id)` is the row as it is: who has the host (`by`, `source`), in which stage since when.
2. `row.drained(...)`, `row.taken_back()`, or `row.goal._replace(stage=..., step=...)` is its `Goal`.
3. `changed({host_id: goal, ...}, code, by=..., ...)` is the decision about hosts that change alike. It is applied
   before anything else is decided of these hosts: `Maintenance.decide` returns at once, and so do others.

The rest follows from the stage: deadlines of a drain and DRAINED by `maintenance.py`, room given back and capacity by
the handlers of the machine.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from events.codes import Code, Stage, Step
from events.records.parts import Cause, DrainPlan
from events.records.placement import HostMaintenanceChanged, HostRemoved
from processors.placement.hosts import Hosts
from processors.placement.states import DRAINS, LEAVING
from processors.state.causes import CauseRow
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

OPERATOR, CAMPAIGN, WINDOW, HEALTH, TAINT = "operator", "campaign", "window", "health", "taint"
HOST_POOL = "host-pool"
"""Those who set stages (`HostMaintenanceChanged.by`)."""
STEPS = (Step.PENDING, Step.DRAIN, Step.WORK, Step.CHECK)
"""Those in which a campaign has the host: others don't touch it."""


class Goal(NamedTuple):
    """The fields of `HostMaintenanceChanged` that are about one host. Times are seconds since 1970; 0: none."""

    stage: Stage = Stage.UP
    cordon: bool = False
    batch: bool = False
    step: Step = Step.NONE
    preempt_at: int = 0
    force_at: int = 0
    check_until: int = 0


class StageRow(msgspec.Struct, array_like=True):
    """The stage of a host. The first fields are those of `Goal`."""

    stage: int = Stage.UP
    cordon: bool = False
    """It stays cordoned when its drain or window ends."""
    batch: bool = False
    step: int = Step.NONE
    preempt_at: int = 0
    force_at: int = 0
    check_until: int = 0
    by: str = ""
    """The one who has it; empty: nobody."""
    source: str = ""
    """The campaign, window, condition or taint."""
    since_ms: int = 0
    """Logical time at which the stage began."""
    cause: CauseRow | None = None
    """The record by which it is what it is: the fact of the operator who asked for the drain, say."""
    boot: str = ""
    """The boot that the host had when it was drained; empty: not known."""
    bound_left: bool = False
    """Tasks that are bound to it have left for its maintenance: they come back when it is UP or CORDONED."""

    @property
    def goal(self) -> Goal:
        """The same, to be changed by `_replace`."""
        return Goal(
            Stage(self.stage),
            self.cordon,
            self.batch,
            Step(self.step),
            self.preempt_at,
            self.force_at,
            self.check_until,
        )

    @property
    def drains(self) -> bool:
        """Whether what runs there is to leave."""
        return self.stage in DRAINS

    @property
    def in_campaign(self) -> bool:
        """Whether a campaign has it, or will."""
        return self.step in STEPS

    def drained(self, plan: DrainPlan, at_ms: int, *, replace: bool = False, force: bool = False) -> Goal:
        """The host drains by a plan from a time on. `replace`: the times of the plan replace those of a drain that goes
        on; else the earlier ones count. `force`: all that is there ends at once. A host that is DRAINED stays so.
        """
        deadline_ms = at_ms + plan.deadline_ms
        preempts, forces = plan.escalate in ("preempt", "force"), plan.escalate == "force"
        preempt_at = _second(deadline_ms) if plan.deadline_ms and preempts else 0
        force_at = _second(deadline_ms + plan.force_after_ms) if plan.deadline_ms and forces else 0
        batch, stage = plan.batch == "move", Stage.DRAINING
        if self.drains and not replace:
            preempt_at, force_at = _first(preempt_at, self.preempt_at), _first(force_at, self.force_at)
            batch = batch or self.batch
        if batch or (self.drains and self.stage != Stage.DRAINING and not replace):
            stage = Stage.DRAINING_BATCH
        if force or (self.stage == Stage.FORCING and not replace):
            stage = Stage.FORCING
        if self.stage == Stage.DRAINED:
            stage = Stage.DRAINED
        return Goal(stage, self.cordon, batch, Step(self.step), preempt_at, force_at)

    def taken_back(self, step: Step | None = None) -> Goal:
        """Its drain is over: the host is UP, or CORDONED where an operator wanted it to be. `step`: its next one in a
        campaign; None: the one that it has, as a campaign may wait for it.
        """
        stage = Stage.CORDONED if self.cordon else Stage.UP
        return Goal(stage, self.cordon, step=Step(self.step) if step is None else step)


class Stages:
    """Keeps up the rows, the deadlines of drains, and what hosts know of their stages."""

    def __init__(self, hosts: Hosts) -> None:
        self.table: Table[str, StageRow] = struct_table("stages", StageRow)
        self.preempt_ms: Deadlines[str] = Deadlines()
        """When preemptible batch tasks are to leave hosts that drain."""
        self.force_ms: Deadlines[str] = Deadlines()
        """When all is ended there that is left."""
        self._hosts = hosts

    def restored(self) -> None:
        """Finds again what is derived; after hosts were."""
        self.preempt_ms.restore((host_id, at) for host_id, row in self.table.items() if (at := _preempts(row)))
        self.force_ms.restore((host_id, at) for host_id, row in self.table.items() if (at := _forces(row)))
        for host_id, row in self.table.items():
            self._hosts.staged(host_id, Stage(row.stage), row.bound_left)

    def of(self, host_id: str) -> StageRow:
        """The row of a host, to look at."""
        return self.table.get(host_id) or StageRow()

    def is_drained(self, host_id: str) -> bool:
        """Whether a host is DRAINED and empty: nothing is lost with it."""
        row = self.table.get(host_id)
        return (
            row is not None and row.stage == Stage.DRAINED and not self._hosts.runs[self._hosts.table[host_id].number]
        )

    def changed(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts have other stages."""
        stages, cordons, batches, steps, preempts, forces, checks = (
            each.tolist()
            for each in (
                *(event.stage_array, event.cordon_array, event.batch_array, event.step_array),
                *(event.preempt_at_array, event.force_at_array, event.check_until_array),
            )
        )
        cause = _row_of(event.cause)
        for at, host_id in enumerate(event.host_ids):
            if host_id not in self._hosts.table:  # it is removed in the same round
                continue
            before = self.of(host_id)
            goal = Goal(
                Stage(stages[at]),
                cordons[at] > 0,
                batches[at] > 0,
                Step(steps[at]),
                preempts[at],
                forces[at],
                checks[at],
            )
            self._set(host_id, before, goal, event, cause, now)

    def bound_left(self, host_id: str) -> None:
        """Tasks that are bound to a host have left for its maintenance."""
        row = self.table.change(host_id)
        row.bound_left = True
        self._hosts.staged(host_id, Stage(row.stage), True)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten, and with it what was wanted of it; to be called while it has its number."""
        if event.host_id in self.table:
            self._forget(event.host_id)

    def _set(
        self,
        host_id: str,
        before: StageRow,
        goal: Goal,
        event: HostMaintenanceChanged,
        cause: CauseRow | None,
        now: int,
    ) -> None:
        stage = goal.stage
        if stage == Stage.UP and goal.step not in STEPS:
            if host_id in self.table:
                self._forget(host_id)
            return
        same = before.by == event.by and goal._replace(cordon=before.cordon) == before.goal
        row = self.table.put(
            host_id,
            StageRow(
                *goal,
                by=event.by,
                source=event.source,
                since_ms=before.since_ms if before.stage == stage else now,
                cause=before.cause if same else cause,
                boot=self._hosts.table[host_id].boot if stage == Stage.DRAINED != before.stage else before.boot,
                bound_left=before.bound_left and stage not in (Stage.UP, Stage.CORDONED),
            ),
        )
        self.preempt_ms.set(host_id, _preempts(row) or None)
        self.force_ms.set(host_id, _forces(row) or None)
        self._hosts.staged(host_id, stage, row.bound_left)
        if (stage in LEAVING) != (before.stage in LEAVING):
            self._hosts.changed()

    def _forget(self, host_id: str) -> None:
        if self.table[host_id].stage in LEAVING:
            self._hosts.changed()
        self.table.remove(host_id)
        self.preempt_ms.clear(host_id)
        self.force_ms.clear(host_id)
        self._hosts.staged(host_id, Stage.UP, False)


def changed(
    hosts: Mapping[str, Goal],
    code: Code,
    *,
    by: str = "",
    source: str = "",
    message: str = "",
    cause: Cause | None = None,
) -> HostMaintenanceChanged:
    """The decision that hosts are to be so."""
    rows = list(hosts.values())
    return HostMaintenanceChanged.pack(
        host_ids=tuple(hosts),
        stage=[row.stage for row in rows],
        cordon=[int(row.cordon) for row in rows],
        batch=[int(row.batch) for row in rows],
        step=[row.step for row in rows],
        preempt_at=[row.preempt_at for row in rows],
        force_at=[row.force_at for row in rows],
        check_until=[row.check_until for row in rows],
        code=code,
        by=by,
        source=source,
        message=message,
        cause=cause,
    )


def _preempts(row: StageRow) -> int:
    """When preemptible batch tasks are to leave, in milliseconds; 0: never, or they do."""
    return row.preempt_at * 1000 if row.stage == Stage.DRAINING else 0


def _forces(row: StageRow) -> int:
    """When all is to end, in milliseconds; 0: never, or it does."""
    return row.force_at * 1000 if row.stage in (Stage.DRAINING, Stage.DRAINING_BATCH) else 0


def _second(at_ms: int) -> int:
    """The first whole second not before a time."""
    return -(-at_ms // 1000)


def _first(one: int, other: int) -> int:
    """The earlier of two times, of which 0 is none."""
    return min(one or other, other or one)


def _row_of(cause: Cause | None) -> CauseRow | None:
    """A cause as rows have it."""
    if cause is None:
        return None
    return CauseRow(cause.topic, cause.offset) if cause.topic else CauseRow(cause.machine, cause.round, cause.index)
