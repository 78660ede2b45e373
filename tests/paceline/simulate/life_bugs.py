"""Bugs that are planted in the life of jobs, each in a scenario of tests/scenarios/lifecycle that holds without it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

import processors.lifecycle.host_reports as host_reports
import processors.lifecycle.suspects as suspects
import processors.lifecycle.task_rules as task_rules
import processors.lifecycle.updates.decisions as decisions
import processors.lifecycle.updates.updates as updates
import processors.lifecycle.updates.versions as versions
from events.codes import TaskState
from events.columns import I64
from events.records.lifecycle import InstancesWanted
from processors.lifecycle.causes import Goal
from processors.lifecycle.daemons import Daemons
from processors.lifecycle.gates import Gates
from processors.lifecycle.goals import Goals
from processors.lifecycle.instance_commands import InstanceCommands
from processors.lifecycle.lookups import Mask
from processors.lifecycle.rows import ActionRow, JobRow
from processors.lifecycle.stateful import Stateful
from processors.lifecycle.task_table import LOST, TaskEvent
from processors.lifecycle.tasks import HELD, Tasks
from processors.lifecycle.updates.commands import Answer
from processors.lifecycle.updates.differences import Differences
from processors.lifecycle.updates.image_waits import ImageWaits
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.lifecycle.updates.updates import Updates
from processors.lifecycle.updates.waits import Waits
from processors.lifecycle.updates.window import Room, width
from processors.placement import avoidance
from processors.placement.hosts import Hosts as PlacementHosts
from processors.placement.hosts import Phase
from tests.paceline.simulate.bugs import decide_by

Plant = Callable[[pytest.MonkeyPatch], None]


def failed_leave_the_window(patch: pytest.MonkeyPatch) -> None:
    """Instances that have failed take no place among those that an update may have down."""

    def room(update: UpdateRow, version: VersionRow, inherited: int, stopped: int) -> Room:
        return Room(width(update, version) - update.flight, width(update, version) - update.flight)

    patch.setattr(decisions, "room", room)


def inherited_left_out(patch: pytest.MonkeyPatch) -> None:
    """What an update before has brought down is forgotten by the next one."""
    patch.setattr(updates, "INHERITED", 0)


def updates_ask_nobody(patch: pytest.MonkeyPatch) -> None:
    """Runs that an update ends are stopped without a verdict of sla."""
    rules = tuple(rule._replace(sla=None) if rule.sla is False else rule for rule in task_rules.RULES)
    decide_by(patch, rules)


def paused_goes_on(patch: pytest.MonkeyPatch) -> None:
    """An update takes instances though it is paused."""
    patch.setattr(Waits, "rests", lambda self, job_id, update: False)


def images_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """An update takes instances though hosts still pull its image."""
    patch.setattr(ImageWaits, "_ordered", lambda self, event, now: None)


def canary_of_all(patch: pytest.MonkeyPatch) -> None:
    """A canary is as many as the batch lets through."""
    patch.setattr(decisions, "room", lambda update, version, inherited, stopped: Room(width(update, version), 99))


def all_are_changed(patch: pytest.MonkeyPatch) -> None:
    """An update takes instances of which nothing changes."""
    changed = Differences.changed

    def each(self: Differences, job_id: str, version: VersionRow, restarted: I64 | None = None) -> Mask:
        return np.ones_like(changed(self, job_id, version, restarted))

    patch.setattr(Differences, "changed", each)


def overrides_left_out(patch: pytest.MonkeyPatch) -> None:
    """What differs in overrides alone is no change."""
    patch.setattr(versions, "_variants", lambda version, instances: np.zeros(instances, dtype=np.int64))


def version_of_the_run_before(patch: pytest.MonkeyPatch) -> None:
    """The next run of an instance that was taken is of the version before."""
    patch.setattr(Updates, "_become", lambda self, slots: None)


def back_to_the_failed_one(patch: pytest.MonkeyPatch) -> None:
    """A roll-back makes a version equal to the one that failed."""
    new_version = Updates._new_version

    def newest(self: Updates, event: updates.UpdateStarted, kept: dict[int, VersionRow]) -> VersionRow:
        return kept[max(kept)] if event.like else new_version(self, event, kept)

    patch.setattr(Updates, "_new_version", newest)


def admission_kept_for_more(patch: pytest.MonkeyPatch) -> None:
    """An admission passes to a run that asks more."""
    patch.setattr(updates, "asks_more", lambda before, after: False)


def stateful_at_once(patch: pytest.MonkeyPatch) -> None:
    """All instances of a stateful job are updated at a time."""
    patch.setattr(versions, "policy_for", lambda kind, policy: policy)


def next_one_begins_with_the_order(patch: pytest.MonkeyPatch) -> None:
    """An instance of a stateful job waits only for the order of the one before it."""
    ordered = Stateful.ordered

    def frees(self: Stateful, slots: I64) -> None:
        ordered(self, slots)
        arena = self._tasks.arena
        held = np.flatnonzero((arena["state"] == TaskState.BACKOFF) & (arena["due"] == HELD))
        self._tasks.note("due", np.intersect1d(held, slots + 1), 0)

    patch.setattr(Stateful, "ordered", frees)


def stateful_moves(patch: pytest.MonkeyPatch) -> None:
    """An instance of a stateful job belongs to no host."""
    patch.setattr(Stateful, "ordered", lambda self, slots: None)


def daemon_stays_behind(patch: pytest.MonkeyPatch) -> None:
    """A daemon keeps the instance of a host that is forgotten."""
    patch.setattr(Daemons, "host_removed", lambda self, event: None)


def _unheard(patch: pytest.MonkeyPatch, happening: TaskEvent) -> None:
    record_event = Tasks.record_event

    def others(self: Tasks, event: TaskEvent, slots: I64) -> I64:
        return slots[:0] if event is happening else record_event(self, event, slots)

    patch.setattr(Tasks, "record_event", others)


def sick_runs_go_on(patch: pytest.MonkeyPatch) -> None:
    """Nothing follows from a health check that fails."""
    _unheard(patch, TaskEvent.UNHEALTHY)


def started_is_healthy(patch: pytest.MonkeyPatch) -> None:
    """A run with a health check is available once it is started."""
    patch.setattr(host_reports, "HEALTH", 0)


def runs_without_limit(patch: pytest.MonkeyPatch) -> None:
    """Nothing follows when a run has gone on for max_runtime."""
    _unheard(patch, TaskEvent.RUN_LIMIT)


def others_outlive_the_controller(patch: pytest.MonkeyPatch) -> None:
    """The other tasks of a job go on after its controller."""
    _unheard(patch, TaskEvent.JOB_END)


def one_more_runs(patch: pytest.MonkeyPatch) -> None:
    """One task more than max_running is queued."""
    room = Gates._room
    patch.setattr(Gates, "_room", lambda self, row: room(self, row) + 1)


def held_jobs_go_on(patch: pytest.MonkeyPatch) -> None:
    """Tasks of a job that is held go to the queue after their back-off."""
    patch.setattr(JobRow, "gated", property(lambda self: self.max_running > 0))


def stopped_ones_run_again(patch: pytest.MonkeyPatch) -> None:
    """A stop ends the run and is forgotten then."""
    wanted = Goals.wanted

    def only_runs(self: Goals, event: InstancesWanted, now: int) -> None:
        wanted(self, event, now)
        if not event.wanted:
            arena = self._tasks.arena
            arena.set("goal", np.flatnonzero(arena["goal"] == Goal.STOP), Goal.RUN)

    patch.setattr(Goals, "wanted", only_runs)


def lost_runs_count(patch: pytest.MonkeyPatch) -> None:
    """That a run is lost with its host counts as a failure of its own."""
    patch.setattr(task_rules, "OWN_ENDS", (*task_rules.OWN_ENDS, LOST))


def deleted_though_it_runs(patch: pytest.MonkeyPatch) -> None:
    """A job that runs is deleted without force."""
    delete = InstanceCommands._delete

    def forced(self: InstanceCommands, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        return delete(self, offset, replace(ask, force=True), row)

    patch.setattr(InstanceCommands, "_delete", forced)


def suspected_hosts_used(patch: pytest.MonkeyPatch) -> None:
    """What a host is suspected of is written down, and tasks are put there all the same."""
    up = property(lambda self: np.isin(self.phase, (Phase.UP, Phase.SUSPECTED)))
    patch.setattr(PlacementHosts, "up", up)


def one_job_is_enough(patch: pytest.MonkeyPatch) -> None:
    """All failures of a job count for a host."""
    patch.setattr(suspects, "OF_A_JOB", suspects.FAILURES)


def suspected_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A host that is suspected is never trusted again."""
    patch.setattr(avoidance, "AVOIDED_MS", 1 << 40)


class Planted(NamedTuple):
    """The scenario in which a bug is found, and what is said then, in part."""

    scenario: str
    says: str


PLANTED: dict[Plant, Planted] = {
    failed_leave_the_window: Planted("availability-against-failing-versions", "instances of .* updated at a time, not"),
    inherited_left_out: Planted("availability-against-failing-versions", "job wide tasks RUNNING >= 5"),
    updates_ask_nobody: Planted("availability-against-failing-versions", "without a verdict of sla"),
    paused_goes_on: Planted("pause-while-failing", "updates FAILED"),
    images_are_not_waited_for: Planted("update-waits-for-its-image", "while hosts pull its image"),
    canary_of_all: Planted("canaries", "version 2"),
    all_are_changed: Planted("overrides-are-updated", "version 2 4"),
    overrides_left_out: Planted("overrides-are-updated", "version 2 0"),
    version_of_the_run_before: Planted("failing-update", "by version 1"),
    back_to_the_failed_one: Planted("failing-update-rolled-back", "ROLLED_BACK"),
    admission_kept_for_more: Planted("update-that-asks-more", "allocation cpu 5"),
    stateful_at_once: Planted("stateful-is-updated-in-order", "tasks RUNNING 0"),
    next_one_begins_with_the_order: Planted("stateful-starts-in-order", "hasn't been available"),
    stateful_moves: Planted("stateful-stays-on-its-host", "it belongs to"),
    daemon_stays_behind: Planted("daemon-follows-hosts", "logs"),
    sick_runs_go_on: Planted("health-checks", "which is unhealthy since"),
    started_is_healthy: Planted("health-checks", "its health check has not passed"),
    runs_without_limit: Planted("run-limits", "job long is RUNNING"),
    others_outlive_the_controller: Planted("controllers", "job ends is RUNNING"),
    one_more_runs: Planted("run-limits", "has 3 tasks of few go, not 2"),
    held_jobs_go_on: Planted("held-jobs", "whose job is held"),
    stopped_ones_run_again: Planted("stop-and-start-by-ranges", "which a user has stopped"),
    lost_runs_count: Planted("retries-exhausted", "by itself, which no host has said"),
    suspected_hosts_used: Planted("suspected-host", "which is avoided"),
    one_job_is_enough: Planted("suspected-host", "host good-1 is SUSPECTED"),
    suspected_for_ever: Planted("suspected-host", "host bad-1 is SUSPECTED"),
    deleted_though_it_runs: Planted("deleted-jobs", "job runs tasks RUNNING 0"),
}
