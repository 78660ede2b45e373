"""The literals of `task_table.py` and `causes.py` as arrays, for all slots at once."""

from collections.abc import Mapping
from enum import IntFlag
from functools import cache
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from events.bounds import RUN_MAX
from events.codes import Counts, Outcome, RunCause, RunReport, TaskState
from events.columns import FEW, I64
from events.records.base import Event
from processors.lifecycle.asks import stale, stale_one
from processors.lifecycle.causes import CODE_OF, FINAL, KEEPS, KIND_OF, OUTCOME_OF, CauseKind, Goal, SlaVerdict
from processors.lifecycle.lookups import Mask, among, table
from processors.lifecycle.task_table import (
    ENDS,
    GANG_WAIT,
    JOB_RULES,
    LIFE,
    LOST,
    NOTES,
    REPORTS,
    RULES,
    STATES,
    VERDICTS,
    End,
    JobRule,
    Note,
    Report,
    Rule,
    TaskEvent,
)
from processors.lifecycle.updates.steps import MORE, is_left
from processors.state.arena import Arena


class Trait(IntFlag):
    """Properties that a task has from its job; the retries stand in higher bits."""

    STATELESS = 1
    GANG = 2
    SLA = 4
    GANG_FINAL = 8
    PREEMPT_FAILS = 16
    CONTROLLER = 32
    HEALTH = 64
    GATED = 128
    BEGUN = 256
    """A run of this task of a batch job was ordered. An update no longer changes what it is made from."""


RETRIES_SHIFT = 9
OWN_ENDS = (RunReport.EXITED, RunReport.NOT_STARTED, RunReport.VANISHED, RunReport.CANNOT_START)
"""The reports of runs that no stop reached."""
_FLAGS = (False, True)


def _letters(row: str) -> NDArray[np.uint8]:
    """The letter of each state, by the number of the state."""
    letters = np.zeros(STATES, dtype=np.uint8)
    for state, letter in zip(LIFE, row.split(), strict=True):
        letters[state] = ord(letter.lower())
    return letters


_NOTES: Mapping[TaskEvent, NDArray[np.uint8]] = {happening: _letters(row) for happening, row in NOTES.items()}


def noted(happening: TaskEvent, note: Note, state: Any) -> Mask:
    """True for tasks in these states of which this is noted when it happens."""
    mask: Mask = _NOTES[happening].take(state) == ord(note)
    return mask


_VERDICTS = {
    happening: table(VERDICTS.get((happening, before), before) for before in SlaVerdict)
    for happening in dict.fromkeys(happening for happening, _ in VERDICTS)
}


def verdicts_after(happening: TaskEvent, verdict: Any) -> Any:
    """The verdicts after a verdict of sla, by those before it."""
    return _VERDICTS[happening].take(verdict)


DECISIONS: tuple[type[Event], ...] = tuple(dict.fromkeys(rule.decision for rule in RULES))
"""The kinds of decisions about a task."""
_REPORTS = table(REPORTS)


def _rule_holds(
    rule: Rule,
    state: int,
    report: Report,
    kind: CauseKind,
    verdict: SlaVerdict,
    sla: bool,
    waits: bool,
    gated: bool,
    stale: bool,
) -> bool:
    return (
        state in rule.states
        and rule.report in (None, report)
        and kind in rule.causes
        and verdict in rule.verdicts
        and rule.sla in (None, sla)
        and rule.waits in (None, waits)
        and rule.gated in (None, gated)
        and rule.stale in (None, stale)
    )


def rule_of(
    state: int,
    report: Report,
    kind: CauseKind,
    verdict: SlaVerdict,
    sla: bool,
    waits: bool,
    gated: bool = False,
    stale: bool = False,
) -> Rule | None:
    """The rule by which a task in this state is decided on; None where nothing is to be decided."""
    cell = (state, report, kind, verdict, sla, waits, gated, stale)
    return next((rule for rule in RULES if _rule_holds(rule, *cell)), None)


def _decided() -> NDArray[np.uint8]:
    cells = product(range(STATES), Report, CauseKind, SlaVerdict, _FLAGS, _FLAGS, _FLAGS, _FLAGS)
    rules = (rule_of(*cell) for cell in cells)
    return table(DECISIONS.index(rule.decision) + 1 if rule else 0 for rule in rules)


_DECIDED = _decided()
_SLA, _GATED, _GANG = int(Trait.SLA), int(Trait.GATED), int(Trait.GANG)
_REPORT_KINDS, _CAUSE_KINDS, _VERDICT_KINDS = len(Report), len(CauseKind), len(SlaVerdict)
_KIND_OF_REPORT: list[int] = _REPORTS.tolist()
_KIND_OF_CAUSES: list[int] = KIND_OF.tolist()
_DECISION_OF: list[int] = _DECIDED.tolist()
"""The same tables, for tasks that are few."""


def decided(arena: Arena, slots: I64, waits: Mask) -> Any:
    """The decision about each task: 1 + its index in `DECISIONS`, 0 for none. `waits`: true while its deadline is still
    to pass.
    """
    if len(slots) <= FEW:
        rows = arena.rows(slots, "state", "report", "causes", "verdict", "traits", "asked", "pin")
        decisions = [_decided_one(row, wait) for row, wait in zip(rows, waits.tolist(), strict=True)]
        return np.array(decisions, dtype=np.uint8)
    key = arena["state"][slots] * len(Report) + _REPORTS.take(arena["report"][slots])
    key = key * len(CauseKind) + KIND_OF.take(arena["causes"][slots])
    verdict, task_traits = arena["verdict"][slots], arena["traits"][slots]
    key = key * len(SlaVerdict) + verdict
    for flag in (task_traits & Trait.SLA, waits, task_traits & Trait.GATED):
        key = key * 2 + (flag != 0)
    key = key * 2
    if len(answered := np.flatnonzero(verdict > SlaVerdict.ASKED)):
        causes, question, pin = (arena[column][slots[answered]] for column in ("causes", "asked", "pin"))
        key[answered] += stale(causes, verdict[answered], question, task_traits[answered] & Trait.GANG != 0, pin)
    return _DECIDED.take(key)


def _decided_one(task: tuple[int, ...], waits: bool) -> int:
    state, report, causes, verdict, traits, question, pin = task
    key = (state * _REPORT_KINDS + _KIND_OF_REPORT[report]) * _CAUSE_KINDS + _KIND_OF_CAUSES[causes]
    key = (key * _VERDICT_KINDS + verdict) * 2 + (traits & _SLA > 0)
    key = ((key * 2 + waits) * 2 + (traits & _GATED > 0)) * 2
    return _DECISION_OF[key + (verdict > 1 and stale_one(causes, verdict, question, traits & _GANG > 0, pin))]


@cache
def moves(decision: type[Event]) -> tuple[tuple[int, ...], int]:
    """From which states a decision takes a task, and to which; only of decisions after which that is one state."""
    rules: tuple[Rule | JobRule, ...] = RULES + JOB_RULES
    chosen_rules = [rule for rule in rules if rule.decision is decision]
    states = dict.fromkeys(state for rule in chosen_rules for state in rule.states)
    return tuple(states), next(rule.next for rule in chosen_rules if rule.next is not None)


class RunEnds(NamedTuple):
    """Ends of runs, a column each: the outcome, the exit code or -1, the state of the task after it, whether the
    admission passes to its next run, the strongest cause, the kind as which it counts, and the failures of that kind
    that the task has then.
    """

    outcome: I64
    exit_code: I64
    next: I64
    keeps: I64
    why: I64
    counts_as: I64
    failures: I64


def outcomes(arena: Arena, slots: I64) -> tuple[I64, I64]:
    """The ends of the present runs of slots: outcome, and exit code or -1.

    An end of its own that no stop reached comes first, then a loss, then the strongest cause.
    """
    causes, report = arena["causes"][slots], arena["report"][slots]
    exit_code = arena["exit"][slots].astype(np.int64)
    outcome = OUTCOME_OF.take(causes)
    outcome[(report == RunReport.STOPPED) & (outcome == 0)] = Outcome.STOPPED
    outcome[among(report, (RunReport.SILENCED, LOST))] = Outcome.LOST
    outcome[report == RunReport.REVOKED] = Outcome.REVOKED
    own = among(report, OWN_ENDS)
    fine = (report == RunReport.EXITED) & (exit_code == 0)
    outcome[own] = np.where(fine[own], Outcome.SUCCEEDED, Outcome.FAILED)
    exit_code[~own] = -1
    return outcome, exit_code


class EndRules(Protocol):
    """The rules of ends that depend on more than the columns of the tasks."""

    def failing_gangs(self, slots: I64, outcome: I64, counts_as: I64) -> I64:
        """The members of gangs that fail for good by such ends."""
        ...

    def failed_elsewhere(self, slots: I64) -> Mask:
        """True for tasks that couldn't be started on two other hosts either."""
        ...

    def hopeless(self, slots: I64) -> Mask:
        """True for tasks that were reported to be unable to start, and not on one host alone while there are more."""
        ...

    def host_retries(self, slots: I64) -> I64:
        """The number of times that tasks are run again which their hosts couldn't start or keep."""
        ...

    def held(self, slots: I64) -> Mask:
        """True for tasks of jobs that are held, for which an admission is of no use."""
        ...

    def recovered(self, slots: I64, now: int) -> Mask:
        """True for runs that were available for so long that failures before them count no more."""
        ...


def run_ends(arena: Arena, slots: I64, rules: EndRules, now: int) -> RunEnds:
    """All that is said of the ends of the present runs of slots."""
    outcome, exit_code = outcomes(arena, slots)
    causes = arena["causes"][slots]
    hopeless, why = rules.hopeless(slots), CODE_OF.take(causes)
    why[(arena["report"][slots] == RunReport.CANNOT_START) & (why == 0)] = RunCause.CANNOT_START
    why[(arena["report"][slots] == RunReport.REVOKED) & (why == 0)] = RunCause.REVOKED
    counts_as = _fault(arena, slots, outcome, hopeless, rules)
    hosts = counts_as == Counts.HOST
    before = np.where(hosts, arena["host_failures"][slots], arena["failures"][slots]).astype(np.int64)
    before[rules.recovered(slots, now)] = 0
    most = np.where(hosts, rules.host_retries(slots), arena["traits"][slots] >> RETRIES_SHIFT)
    final = np.isin(slots, rules.failing_gangs(slots, outcome, counts_as))
    following, counts, keeps = _ends(arena, slots, outcome, (before < most) & ~hopeless, final)
    following = np.where(following == GANG_WAIT, TaskState.BACKOFF, following).astype(np.int64)  # seen by nobody else
    counts &= ~is_left(arena, slots)
    keeps &= (KEEPS.take(causes) == 1) & (arena["step"][slots] & MORE == 0) & ~rules.held(slots)
    keeps_admission = (keeps & (arena["state"][slots] != TaskState.QUEUED)).astype(np.int64)  # it may not be admitted
    counts_as = np.where(counts, counts_as, Counts.NOTHING)
    return RunEnds(outcome, exit_code, following, keeps_admission, why, counts_as, np.where(counts, before + 1, 0))


def _fault(arena: Arena, slots: I64, outcome: I64, hopeless: Mask, rules: EndRules) -> I64:
    """The party at fault for each end, where it counts. That a host couldn't start or keep a run is its own failure;
    that three couldn't start it is the task's, or two where trying again can't help. A service runs again whoever it
    was.
    """
    report = arena["report"][slots]
    unstarted = report == RunReport.NOT_STARTED
    unstarted[unstarted] = ~rules.failed_elsewhere(slots[unstarted])
    late = (CODE_OF.take(arena["causes"][slots]) == RunCause.START_LATE) & ~among(report, OWN_ENDS)
    hosts = unstarted | late | (report == RunReport.VANISHED) | ((report == RunReport.CANNOT_START) & ~hopeless)
    hosts &= (outcome == Outcome.FAILED) & (arena["traits"][slots] & Trait.STATELESS == 0)
    return np.where(hosts, Counts.HOST, Counts.TASK).astype(np.int64)


def _end_holds(end: End, outcome: int, goal: Goal, *flags: bool) -> bool:
    conditions = (end.over, end.stateless, end.gang, end.final, end.retries, end.last, end.fails)
    return (
        outcome in end.outcomes
        and goal in end.goals
        and all(want in (None, have) for want, have in zip(conditions, flags, strict=True))
    )


def end_of(outcome: int, goal: Goal, *flags: bool) -> End | None:
    """Where a task goes when its run has ended; `flags`: over, stateless, gang, final, retries, last, fails."""
    return next((end for end in ENDS if _end_holds(end, outcome, goal, *flags)), None)


FLAGS = 7
"""So many conditions an end has beside its outcome and the goal."""


def _ended() -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.bool_]]:
    cells = product(range(len(Outcome) + 1), Goal, product(_FLAGS, repeat=FLAGS))
    ends = [end_of(outcome, goal, *flags) or ENDS[-1] for outcome, goal, flags in cells]
    return (
        table(end.next for end in ends),
        np.array([end.counts for end in ends]),
        np.array([end.keeps for end in ends]),
    )


_NEXT, _COUNTS, _KEEPS = _ended()


def _ends(arena: Arena, slots: I64, outcome: I64, retries: Mask, final: Mask) -> tuple[Any, Mask, Mask]:
    """The effect of such ends of the present runs of slots: the next states, whether it counts, and whether the
    admission may pass to the next run. `retries`: true for tasks with some left; `final`: for members of a gang that
    fails for good.
    """
    traits = arena["traits"][slots]
    flags = (
        arena["causes"][slots] & FINAL,
        traits & Trait.STATELESS,
        traits & Trait.GANG,
        (traits & Trait.GANG_FINAL != 0) | final,
        retries,
        arena["run"][slots] >= RUN_MAX,
        traits & Trait.PREEMPT_FAILS,
    )
    key = np.asarray(outcome, dtype=np.int64) * len(Goal) + arena["goal"][slots]
    for flag in flags:
        key = key * 2 + (flag != 0)
    return _NEXT.take(key), _COUNTS.take(key), _KEEPS.take(key)
