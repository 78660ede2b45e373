"""Checks the stages of hosts: no task is put on one that drains or is drained, one is DRAINED where nothing is left,
forced only where and when an operator or a window has set it, and few are drained by automation.
"""

from typing import NamedTuple

from events.codes import RunCause, Stage
from events.columns import ints
from events.records.base import Event
from events.records.hosts import HostsDrainRequested, MaintenanceWindowSet
from events.records.lifecycle import RunsEnded
from events.records.placement import (
    HostMaintenanceChanged,
    HostRemoved,
    HostsAnswered,
    TasksPlaced,
)
from paceline.simulate.checker.bound import Bound
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of, runs_of

DRAINS = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING)
SOON_MS = 120_000
"""So long after its time a drain may still not be forced, and a drained host still not be said to be."""
HOUR_MS = 3_600_000
LEAVES = (RunCause.DRAIN, RunCause.EVICT)


class Goal(NamedTuple):
    """The stage of a host, and all that was decided with it. Times are seconds since 1970; 0: none."""

    stage: int = Stage.UP
    by: str = ""
    source: str = ""
    cordon: bool = False
    batch: bool = False
    step: int = 0
    preempt_at: int = 0
    force_at: int = 0
    check_until: int = 0


def goals_of(event: HostMaintenanceChanged) -> dict[str, Goal]:
    """The goal of each host of a decision."""
    columns = zip(
        event.stage_array.tolist(),
        event.cordon_array.tolist(),
        event.batch_array.tolist(),
        event.step_array.tolist(),
        event.preempt_at_array.tolist(),
        event.force_at_array.tolist(),
        event.check_until_array.tolist(),
        strict=True,
    )
    return {
        host_id: Goal(stage, event.by, event.source, bool(cordon), bool(batch), *rest)
        for host_id, (stage, cordon, batch, *rest) in zip(event.host_ids, columns, strict=True)
    }


class Stages:
    """Follows placement. `hosts` has taken each round of it, `bound` each round of it and of lifecycle."""

    def __init__(self, hosts: Hosts, bound: Bound) -> None:
        self._hosts = hosts
        self._bound = bound
        self.goals: dict[str, Goal] = {}
        self._empty_since: dict[str, int] = {}
        """Since when nothing is on hosts that drain."""
        self._left: set[str] = set()
        """Hosts that tasks which are bound to them have left for their maintenance."""
        self._drains: dict[int, tuple[HostsDrainRequested, int]] = {}
        """Requests without an answer by offset, and when each was made."""
        self._may_force_ms: dict[str, int] = {}
        """From when on what operators and windows have said of hosts lets them be forced."""
        self._forcing_windows: set[str] = set()
        self._automatic_ms: list[int] = []
        """When automation has begun to drain a host."""

    def of(self, host_id: str) -> Goal:
        """The goal of a host."""
        return self.goals.get(host_id, Goal())

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, offset, event, at_ms in round_.inputs:
            if isinstance(event, HostsDrainRequested):
                self._drains[offset] = event, at_ms
            elif isinstance(event, MaintenanceWindowSet) and event.escalate == "force":
                self._forcing_windows.add(event.window_id)
            elif isinstance(event, RunsEnded) and self.goals:
                self._ended(event)
        for event in round_.decisions:
            if isinstance(event, HostsAnswered) and event.hosts_offset in self._drains:
                self._answered(event, round_)
        for event in round_.decisions:
            self._decided(event, round_)

    def at_rest(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where a drain isn't forced in time, or doesn't end."""
        for host_id, goal in self.goals.items():
            drains = goal.stage in DRAINS
            due_ms = self._force_ms(goal)
            if drains and goal.stage != Stage.FORCING and due_ms is not None and due_ms < now - SOON_MS:
                raise Violation(f"at {now}, {host_id} isn't forced though its time was {goal.force_at}: {goal}")
            if goal.stage == Stage.DRAINING and 0 < goal.preempt_at * 1000 < now - SOON_MS:
                raise Violation(f"at {now}, batch work may stay on {host_id}, its time was {goal.preempt_at}")
            if drains and not self._hosts.on(host_id):
                since = self._empty_since.setdefault(host_id, now)
                if now - since > SOON_MS:
                    raise Violation(f"at {now}, {host_id} drains, and nothing is there since {now - since} ms")
            else:
                self._empty_since.pop(host_id, None)

    def _force_ms(self, goal: Goal) -> int | None:
        """When a drain is to be forced; None: never, or not as long as the cell doesn't permit it."""
        since_ms = self._hosts.forces_ms
        return max(goal.force_at * 1000, since_ms) if goal.force_at and since_ms is not None else None

    def _answered(self, event: HostsAnswered, round_: Round) -> None:
        drain, at_ms = self._drains.pop(event.hosts_offset)
        if event.code != "DONE":
            return
        if not {*event.host_ids} <= {*drain.host_ids} or 0 < drain.most < len(event.host_ids):
            raise Violation(f"{round_} takes {event.host_ids} of {drain.host_ids}, {drain.most} at most")
        for host_id in event.host_ids:
            if drain.force:
                self._may_force_ms[host_id] = at_ms
            elif drain.escalate == "force" and drain.deadline_ms:
                self._may_force_ms[host_id] = at_ms + drain.deadline_ms + drain.force_after_ms
            else:
                self._may_force_ms.pop(host_id, None)

    def _ended(self, event: RunsEnded) -> None:
        whys = ints(event.why).tolist() or [0] * len(event.job_array)
        for (task, _), why in zip(runs_of(event), whys, strict=True):
            host_id = self._bound.host_of(task)
            if why in LEAVES and host_id is not None and self.of(host_id).stage in DRAINS:
                self._left.add(host_id)

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case HostMaintenanceChanged():
                for host_id, goal in goals_of(event).items():
                    self._change(host_id, goal, round_)
            case HostRemoved():
                self.goals.pop(event.host_id, None)
                self._left.discard(event.host_id)
            case TasksPlaced() if self.goals:
                for task, run, host_id, _, _ in places_of(event):
                    self._place(task, run, host_id, round_)

    def _change(self, host_id: str, goal: Goal, round_: Round) -> None:
        before = self.of(host_id)
        what = f"{round_} has {host_id} {Stage(goal.stage).name} by {goal.by or 'nobody'} after {before}"
        if goal.stage == Stage.DRAINED != before.stage and (there := self._hosts.drained_with.get(host_id)):
            raise Violation(f"{what}, and {there[:3]} are there")
        if goal.stage == Stage.FORCING != before.stage:
            self._may_force(host_id, goal, round_, what)
        if goal.stage == Stage.UP and goal.cordon:
            raise Violation(f"{what}, and it is cordoned")
        if goal.stage == Stage.CHECKING and before.stage not in (Stage.DRAINED, Stage.CHECKING):
            raise Violation(what)
        if goal.stage in (Stage.UP, Stage.CORDONED):
            self._left.discard(host_id)
        if goal.by == "health" and before.by != "health" and goal.stage in DRAINS:
            self._automatic(round_, what)
        self.goals[host_id] = goal
        if goal == Goal():
            del self.goals[host_id]

    def _automatic(self, round_: Round, what: str) -> None:
        """Automation drains a twentieth of the hosts that are heard, at a time and newly within an hour."""
        hosts_up = sum(not host.lost and not host.silent for host in self._hosts.hosts.values())
        most = max(1, hosts_up // 20) if hosts_up > 2 else 0
        drained = sum(goal.by == "health" for goal in self.goals.values())
        self._automatic_ms = [at for at in self._automatic_ms if round_.now_ms - at < HOUR_MS] + [round_.now_ms]
        if drained >= most or len(self._automatic_ms) > most:
            raise Violation(f"{what}, {drained} are and {len(self._automatic_ms)} were in an hour, {most} may be")

    def _may_force(self, host_id: str, goal: Goal, round_: Round, what: str) -> None:
        if self._hosts.forces_ms is None:
            raise Violation(f"{what}, and the cell doesn't permit that")
        if goal.by in ("health", "taint", "") or (goal.by == "window" and not self._forcing_windows):
            raise Violation(what)
        by_operator = goal.by == "operator" and not self._forcing_windows  # where both have it, the earlier time counts
        if by_operator and round_.now_ms < self._may_force_ms.get(host_id, 1 << 60):
            raise Violation(f"{what} at {round_.now_ms}, it may from {self._may_force_ms.get(host_id)} on")
        if goal.by == "campaign" and not 0 < goal.force_at * 1000 <= round_.now_ms:
            raise Violation(f"{what} at {round_.now_ms}")

    def _place(self, task: Task, run: int, host_id: str, round_: Round) -> None:
        stage = self.of(host_id).stage
        if stage == Stage.UP:
            return
        is_bound = self._bound.host_of(task) == host_id
        comes_back = stage in (Stage.DRAINING, Stage.DRAINING_BATCH) and host_id not in self._left
        if not is_bound or not (stage == Stage.CORDONED or comes_back):
            raise Violation(
                f"{round_} places {task} run {run} on {host_id}, which is {Stage(stage).name}"
                + (", and tasks that are bound to it have left" if is_bound else "")
            )
