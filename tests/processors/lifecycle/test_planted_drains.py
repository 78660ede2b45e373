"""Faults planted in what lifecycle does of drains and verdicts: each is found by a case that holds without it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import processors.lifecycle.run_decisions as run_decisions
import processors.lifecycle.task_rules as task_rules
from events.codes import TaskState
from events.records.lifecycle import DisruptionWithdrawn, RunsStopping
from processors.lifecycle import causes, host_stages, task_table
from processors.lifecycle.causes import CauseKind, SlaVerdict
from processors.lifecycle.gangs import Gangs
from processors.lifecycle.host_stages import HostStages
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.verdicts import Verdicts
from tests.paceline.simulate.bugs import decide_by
from tests.processors.lifecycle import test_host_stages as cases

Patch = pytest.MonkeyPatch
FAULTS: dict[Callable[[Patch], None], Callable[..., None]] = {}
"""Each with the case that finds it."""


def found_by(case: Callable[..., None]) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add(fault: Callable[[Patch], None]) -> Callable[[Patch], None]:
        FAULTS[fault] = case
        return fault

    return add


def rules(patch: Patch, change: Callable[[task_table.Rule], task_table.Rule | None]) -> None:
    decide_by(patch, tuple(changed for rule in task_rules.RULES if (changed := change(rule)) is not None))


# Verdicts.


@found_by(cases.test_a_free_verdict_is_void_once_the_run_is_ready)
def a_free_verdict_holds_for_a_ready_run(patch: Patch) -> None:
    def change(rule: task_table.Rule) -> task_table.Rule | None:
        if rule.verdicts != (SlaVerdict.FREE,):
            return rule
        return rule._replace(states=(TaskState.ORDERED, TaskState.RUNNING)) if rule.decision is RunsStopping else None

    rules(patch, change)


@found_by(cases.test_a_drain_that_is_called_off_lets_stay_what_was_not_told_to_stop)
def an_ask_is_withdrawn_before_its_verdict(patch: Patch) -> None:
    def change(rule: task_table.Rule) -> task_table.Rule:
        if rule.decision is DisruptionWithdrawn and rule.causes == (CauseKind.NONE,):
            return rule._replace(verdicts=(*rule.verdicts, SlaVerdict.ASKED))
        return rule

    rules(patch, change)


@found_by(cases.test_an_allowed_of_an_ask_that_is_withdrawn_answers_no_later_ask)
def whether_it_was_deferred_is_not_told_apart(patch: Patch) -> None:
    record = Tasks.record_verdict

    def alike(self: Tasks, event: TaskEvent, slots: Any) -> Any:
        return record(self, TaskEvent.ALLOWED if event is TaskEvent.ALLOWED_LATER else event, slots)

    patch.setattr(Tasks, "record_verdict", alike)


@found_by(cases.test_of_an_order_that_is_deferred_the_drain_that_remains_is_asked_for_and_keeps_its_age)
def the_first_reason_is_kept(patch: Patch) -> None:
    patch.setattr(task_rules, "stale", lambda causes, *columns: np.zeros(len(causes), dtype=np.bool_))
    patch.setattr(task_rules, "stale_one", lambda *columns: False)


@found_by(cases.test_a_drain_that_comes_while_an_update_waits_is_asked_for_in_its_place)
def an_update_that_waits_keeps_a_bound_run_out_of_the_unit(patch: Patch) -> None:
    the_first_reason_is_kept(patch)


@found_by(cases.test_a_drained_host_is_left_by_budget_and_the_next_run_keeps_its_admission)
def a_run_is_stopped_without_a_verdict(patch: Patch) -> None:
    rules(patch, lambda rule: rule._replace(sla=None) if rule.sla is False else rule)


@found_by(cases.test_a_deferral_that_sla_repeats_is_no_answer_to_the_next_ask)
def a_repeated_deferral_answers_the_next_ask(patch: Patch) -> None:
    deferred = Verdicts._deferred
    patch.setattr(
        Verdicts, "_deferred", lambda self, event, now: deferred(self, cases.replace(event, again=False), now)
    )


# Drains.


@found_by(cases.test_a_drain_that_is_called_off_lets_stay_what_was_not_told_to_stop)
def a_drain_is_not_called_off(patch: Patch) -> None:
    record = Tasks.record_event
    patch.setattr(
        Tasks,
        "record_event",
        lambda self, event, slots: record(self, event, slots[: 0 if "UN" in event.name else None]),
    )


@found_by(cases.test_batch_tasks_leave_at_the_deadline_unless_they_are_firm)
def firm_batch_tasks_leave(patch: Patch) -> None:
    patch.setattr(host_stages, "_FIRM", host_stages._BATCH)


@found_by(cases.test_batch_tasks_leave_at_the_deadline_unless_they_are_firm)
def batch_tasks_leave_at_once(patch: Patch) -> None:
    patch.setattr(host_stages, "_MOVES_BATCH", host_stages.DRAINS)


@found_by(cases.test_a_drained_host_is_left_by_budget_and_the_next_run_keeps_its_admission)
def the_admission_is_lost(patch: Patch) -> None:
    patch.setattr(task_rules, "KEEPS", np.zeros_like(causes.KEEPS))


@found_by(cases.test_what_is_placed_as_its_host_begins_to_drain_is_never_ordered)
def a_placed_run_is_ordered(patch: Patch) -> None:
    patch.setattr(host_stages, "_THERE", (TaskState.ORDERED, TaskState.RUNNING))


@found_by(cases.test_what_is_bound_to_its_host_leaves_last_and_as_one_unit)
def the_stage_is_lost_at_a_restart(patch: Patch) -> None:
    patch.setattr(HostStages, "restored", lambda self: None)


@found_by(cases.test_a_forced_drain_ends_all_that_is_left_unasked)
def a_forced_end_waits_for_sla(patch: Patch) -> None:
    kinds = causes.KIND_OF.copy()
    kinds[kinds == CauseKind.UNPLANNED] = CauseKind.PLANNED
    patch.setattr(task_rules, "KIND_OF", kinds)
    patch.setattr(task_rules, "_KIND_OF_CAUSES", kinds.tolist())


@found_by(cases.test_what_is_bound_to_its_host_leaves_last_and_as_one_unit)
def a_home_is_kept_on_a_drained_host(patch: Patch) -> None:
    patch.setattr(run_decisions, "_goes_home", lambda arena, slots, ends: np.ones(len(slots), dtype=np.int64))


# Units.


@found_by(cases.test_what_is_bound_to_its_host_leaves_last_and_as_one_unit)
def bound_runs_leave_one_by_one(patch: Patch) -> None:
    patch.setattr(run_decisions, "units", lambda asked: np.zeros(len(asked), dtype=np.int64))


@found_by(cases.test_a_gang_leaves_whole_from_all_its_hosts)
def members_of_a_gang_leave_one_by_one(patch: Patch) -> None:
    bound_runs_leave_one_by_one(patch)


@found_by(cases.test_a_gang_leaves_whole_from_all_its_hosts)
def only_the_member_on_the_host_leaves(patch: Patch) -> None:
    patch.setattr(Gangs, "with_members", lambda self, slots: slots)


@found_by(cases.test_what_is_bound_to_its_host_leaves_last_and_as_one_unit)
def bound_runs_leave_before_the_others(patch: Patch) -> None:
    patch.setattr(HostStages, "_count", lambda self, slots: 0)


@found_by(cases.test_what_is_bound_and_fails_before_it_leaves_is_started_again_and_asks_again)
def bound_runs_are_not_started_again(patch: Patch) -> None:
    patch.setattr(host_stages, "PLACED", TaskState.NONE)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    case = FAULTS[fault]
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        case(*([cases.populated()] if case.__code__.co_argcount else []))
