"""Bugs that are planted in how hosts are drained, and in what follows when many are lost, each in a scenario of
tests/scenarios/maintenance that holds without it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from events.codes import Code, Stage
from events.columns import I64
from events.records.parts import DrainPlan
from events.records.placement import HostLost, HostMaintenanceChanged
from hostagent.gateway.desired_runs import DesiredRuns
from processors.entitlement.queues.comeback import Comeback
from processors.placement import stages
from processors.placement.admissions import Admissions
from processors.placement.hosts import Hosts
from processors.placement.machine import Placement
from processors.placement.maintenance import HostsAskRow, Maintenance
from processors.placement.packing import Mask
from processors.placement.stages import Goal, Stages
from processors.placement.states import DRAINS, TAKES

Plant = Callable[[pytest.MonkeyPatch], None]


def stages_are_lost_with_the_process(patch: pytest.MonkeyPatch) -> None:
    """A process that takes over doesn't find again which hosts drain."""
    patch.setattr(Stages, "restored", lambda self: None)


def drained_with_runs(patch: pytest.MonkeyPatch) -> None:
    """A host is DRAINED as soon as somebody wants it to be."""

    def empty(self: Maintenance, budget: int) -> Iterator[HostMaintenanceChanged]:
        drains = np.flatnonzero(np.isin(self._hosts.stage, DRAINS)).tolist()[:budget]
        yield from self._moved_on({self._hosts.ids[number]: Stage.DRAINED for number in drains}, Code.EMPTY)

    patch.setattr(Maintenance, "_empty", empty)


def hosts_in_maintenance_take_tasks(patch: pytest.MonkeyPatch) -> None:
    """Tasks are put on hosts whatever is wanted of these."""

    def up(self: Hosts) -> Mask:
        return self.are(TAKES)

    patch.setattr(Hosts, "up", property(up))


def force_though_the_drain_waits(patch: pytest.MonkeyPatch) -> None:
    """What is left at a deadline is ended, whatever was asked for."""
    plan: Callable[[HostsAskRow], DrainPlan] = HostsAskRow.plan.fget  # type: ignore[attr-defined]

    def forced(self: HostsAskRow) -> DrainPlan:
        return replace(plan(self), escalate="force")

    patch.setattr(HostsAskRow, "plan", property(forced))


def deadlines_pass(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the deadlines of drains."""
    for name in ("_preempts", "_forces"):
        patch.setattr(stages, name, lambda row: 0)


def force_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """All is ended at the deadline, not so long after it as was asked for."""
    plan: Callable[[HostsAskRow], DrainPlan] = HostsAskRow.plan.fget  # type: ignore[attr-defined]

    def at_once(self: HostsAskRow) -> DrainPlan:
        return replace(plan(self), force_after_ms=0)

    patch.setattr(HostsAskRow, "plan", property(at_once))


def force_is_for_all(patch: pytest.MonkeyPatch) -> None:
    """The setting of the cell isn't looked at."""
    patch.setattr(Maintenance, "_forces", lambda self, ask: False)


def capacity_is_counted_whole(patch: pytest.MonkeyPatch) -> None:
    """Hosts that drain count with all that they offer."""

    def counted(self: Hosts) -> I64:
        whole: I64 = self.capacity[:-1] * self.counts
        return whole

    patch.setattr(Hosts, "counted", property(counted))


def room_is_kept_where_nothing_may_go(patch: pytest.MonkeyPatch) -> None:
    """Homes and reservations on hosts that are cordoned stay."""
    patch.setattr(Placement, "_closed", lambda self, event, now: None)


def a_lost_host_is_up_again(patch: pytest.MonkeyPatch) -> None:
    """The stage of a host ends when it is lost."""
    lose = Hosts.lose

    def lost(self: Hosts, event: HostLost, now: int) -> None:
        lose(self, event, now)
        self.staged(event.host_id, Stage.UP, False)

    patch.setattr(Hosts, "lose", lost)


def resumed_hosts_stay_away(patch: pytest.MonkeyPatch) -> None:
    """Who ends a drain leaves the host cordoned."""
    goal = Maintenance._goal

    def cordoned(self: Maintenance, ask: HostsAskRow, host_id: str) -> Goal | None:
        found = goal(self, ask, host_id)
        return Goal(Stage.CORDONED, cordon=True) if ask.kind == "resume" else found

    patch.setattr(Maintenance, "_goal", cordoned)


def batch_work_was_there_first(patch: pytest.MonkeyPatch) -> None:
    """Services that lost instances stand where they stood."""
    patch.setattr(Comeback, "has", lambda self, part: False)


def hosts_start_by_number(patch: pytest.MonkeyPatch) -> None:
    """What a host that connects is to run is told by the number of the job."""
    patch.setattr(DesiredRuns, "_are_batch", lambda self, job_ids, job, slots: np.zeros(len(job), dtype=np.bool_))


def what_comes_back_has_its_old_number(patch: pytest.MonkeyPatch) -> None:
    """Placement serves instances of lost services as they were admitted."""
    patch.setattr(Admissions, "come_back", lambda self, slots, lost: None)


class Found(NamedTuple):
    """Where a bug is found, and by what words."""

    scenario: str
    says: str


PLANTED: dict[Plant, Found] = {
    stages_are_lost_with_the_process: Found("placement-restarts", "batch work may stay on h-1"),
    drained_with_runs: Found("drained-and-resumed", r"h-1 DRAINED by operator .* are there"),
    hosts_in_maintenance_take_tasks: Found("cordoned", "on h-2, which is CORDONED"),
    force_though_the_drain_waits: Found("escalates-to-preempt", "h-1 FORCING by operator"),
    deadlines_pass: Found("escalates-to-preempt", "batch work may stay on h-1"),
    force_waits_for_nobody: Found("escalates-to-force", "h-1 FORCING by operator"),
    force_is_for_all: Found("escalates-to-force", "host h-1 is DRAINING at 17s"),
    capacity_is_counted_whole: Found("drained-and-resumed", "third waits for HOSTS_IN_MAINTENANCE"),
    room_is_kept_where_nothing_may_go: Found("reserved-and-homes", "job big ran on no host"),
    a_lost_host_is_up_again: Found("host-lost-while-draining", "h-1 drains, and nothing is there"),
    resumed_hosts_stay_away: Found("drained-and-resumed", "host h-1 is CORDONED"),
    batch_work_was_there_first: Found("mass-loss", "job shop tasks RUNNING 140"),
    hosts_start_by_number: Found("mass-restart", "job batch tasks RUNNING 4"),
    what_comes_back_has_its_old_number: Found("mass-loss-while-entitlement-is-away", "which was to go first"),
}
