"""Writes the page of a task's life from its table: `python -m tools.task_life_page > docs/task-life.md`."""

import sys
from collections.abc import Iterator
from itertools import product

from events.codes import Outcome
from processors.lifecycle.causes import CAUSE_RULES, CauseKind, Goal, SlaVerdict
from processors.lifecycle.task_rules import FLAGS, end_of
from processors.lifecycle.task_table import (
    CAUSE_OF,
    ENDS,
    JOB_RULES,
    LIFE,
    NAMES,
    NOTES,
    PLACED,
    RULES,
    VERDICTS,
    WHY_NOT,
    End,
    JobRule,
    Note,
    Report,
    Rule,
    TaskEvent,
)

HEAD = """\
# The life of a task

Made from the table in `processors/lifecycle/task_table.py`, which drives the machine, by
`python -m tools.task_life_page > docs/task-life.md`; a test compares.

A task is an instance of a job. It has one run after another; a run has a number, and begins when the one before it has
ended. What happens is noted in the columns of the task, then one decision is taken from the columns. `PLACED` and
`GANG_WAIT` are seen by lifecycle only: the views show `QUEUED` and `BACKOFF`.
"""
_LETTERS = {note.value: note for note in Note}
_TEXTS = {
    Note.CAUSE: "cause",
    Note.WITHDRAWN: "withdrawn",
    Note.REPORT: "report",
    Note.READY: "ready",
    Note.VERDICT: "verdict",
    Note.AGAIN: "again",
    Note.GOAL: "goal",
    Note.NEW: "new run",
    Note.HOST: "host",
    Note.NOTHING: "void",
    Note.IMPOSSIBLE: "",
}
_KINDS = {
    CauseKind.HEARD: "sla is heard, nothing ends by it",
    CauseKind.PLANNED: "planned: sla must allow it",
    CauseKind.UNPLANNED: "unplanned",
}


def page() -> str:
    """The page, in Markdown."""
    parts = (_diagram(), _notes(), _impossible(), _verdicts(), _rules(), _ends(), _causes())
    return "\n".join([HEAD, *("\n".join(part) + "\n" for part in parts)])


def _diagram() -> Iterator[str]:
    placed = zip(LIFE, NOTES[TaskEvent.PLACED].split(), strict=True)
    edges = {(state, PLACED, "TasksPlaced"): None for state, letter in placed if letter == Note.HOST}
    rules: tuple[Rule | JobRule, ...] = RULES + JOB_RULES
    for rule in rules:
        if rule.next is not None and rule.next >= 0:
            edges |= {(state, rule.next, rule.decision.__name__): None for state in rule.states}
    yield "## States\n\n```mermaid\nstateDiagram-v2"
    yield from (f"    {NAMES[state]} --> {NAMES[following]}: {decision}" for state, following, decision in edges)
    ending = dict.fromkeys(state for rule in RULES if rule.next is None for state in rule.states)
    yield "    state end <<choice>>"
    yield from (f"    {NAMES[state]} --> end: RunsEnded" for state in ending)
    yield from (f"    end --> {NAMES[state]}" for state in _reachable_ends())
    yield "```"


def _reachable_ends() -> list[int]:
    """The states that a run's end can lead to, in the order of the table."""
    cells = product(Outcome, Goal, product((False, True), repeat=FLAGS))
    reachable = {end_of(outcome, goal, *flags) for outcome, goal, flags in cells}
    return list(dict.fromkeys(end.next for end in ENDS if end in reachable))


def _table(*head: str) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)


def _notes() -> Iterator[str]:
    yield "## What happens, and what is noted\n"
    yield "Empty: impossible, see below. *Void*: it comes too late or too early, and changes nothing.\n"
    yield from _table("what happens", *(NAMES[state] for state in LIFE))
    for happening, row in NOTES.items():
        cells = (_TEXTS[_LETTERS[letter]] for letter in row.split())
        yield f"| {happening} | {' | '.join(cells)} |"


def _impossible() -> Iterator[str]:
    yield "## Why a cell is impossible\n"
    yield from _table("what happens", "states", "why")
    for happening in TaskEvent:
        reasons: dict[str, list[str]] = {}
        for state in LIFE:
            if (happening, state) in WHY_NOT:
                reasons.setdefault(WHY_NOT[happening, state], []).append(NAMES[state])
        for why, states in reasons.items():
            yield f"| {happening} | {', '.join(states)} | {why} |"


def _verdicts() -> Iterator[str]:
    yield "## Verdicts of sla\n\nOne for all planned causes of a run together.\n"
    yield from _table("what happens", "verdict before", "after")
    for (happening, before), after in VERDICTS.items():
        yield f"| {happening} | {before.name} | {after.name} |"


def _rules() -> Iterator[str]:
    yield "## What is decided\n\nThe first rule that holds.\n"
    yield from _table("state", "condition", "decision", "next state")
    for rule in RULES:
        states = ", ".join(NAMES[state] for state in rule.states)
        following = "as below" if rule.next is None else "the same" if rule.next < 0 else NAMES[rule.next]
        yield f"| {states} | {_condition(rule)} | {rule.decision.__name__} | {following} |"
    for rule_ in JOB_RULES:
        states = ", ".join(NAMES[state] for state in rule_.states)
        yield f"| {states} | {rule_.when} | {rule_.decision.__name__} | {NAMES[rule_.next]} |"


def _condition(rule: Rule) -> str:
    conditions = []
    if rule.report is not None:
        conditions.append("its end was reported" if rule.report == Report.ENDED else "it was reported to run")
    if rule.causes != tuple(CauseKind):
        texts: dict[tuple[CauseKind, ...], str] = {
            (CauseKind.NONE,): "no cause",
            (CauseKind.HEARD, CauseKind.PLANNED): "in an order, or planned causes only",
            (CauseKind.PLANNED,): "planned causes only",
            (CauseKind.UNPLANNED,): "an unplanned cause",
        }
        conditions.append(texts.get(rule.causes, "any cause"))
    if rule.verdicts != tuple(SlaVerdict):
        conditions.append("verdict " + " or ".join(verdict.name for verdict in rule.verdicts))
    if rule.sla is not None:
        conditions.append("an SLA" if rule.sla else "no SLA")
    if rule.gated is not None:
        conditions.append("its job doesn't say when")
    if rule.waits is not None:
        conditions.append("its deadline has passed")
    return ", ".join(conditions) or "always"


def _ends() -> Iterator[str]:
    yield "## Where a task goes when its run ends\n\nThe first row that holds.\n"
    yield from _table("outcome", "condition", "next state", "counts as a failure", "admission may be kept")
    for end in ENDS:
        outcomes = "any" if len(end.outcomes) == len(Outcome) else ", ".join(each.name for each in end.outcomes)
        marks = ("yes" if end.counts else "", "yes" if end.keeps else "")
        yield f"| {outcomes} | {_of_end(end)} | {NAMES[end.next]} | {' | '.join(marks)} |"


def _of_end(end: End) -> str:
    texts = (
        (end.over, "a cause ends the task", "no cause ends the task"),
        (end.gang, "in a gang", "alone"),
        (end.final, "the gang has no retries left", "the gang has retries left"),
        (end.stateless, "of a service", "of a batch job"),
        (end.retries, "retries left", "no retries left"),
        (end.last, "no run number left", "run numbers left"),
        (end.fails, "of a job with on_preempt: fail", "of a job with on_preempt: requeue"),
    )
    flags = [yes if value else no for value, yes, no in texts if value is not None]
    goal = "" if len(end.goals) == len(Goal) else "wanted"
    return ", ".join(filter(None, (goal, *flags))) or "always"


def _causes() -> Iterator[str]:
    yield "## Causes\n\nWhy a run shall end. Several can hold at once. A run that ended by itself, couldn't be"
    yield "started or was lost has that outcome; any other has that of its strongest cause.\n"
    yield from _table("cause, strongest first", "kind", "outcome", "what causes it")
    for meaning in CAUSE_RULES:
        happening = next(each for each, cause in CAUSE_OF.items() if cause == meaning.cause)
        outcome = meaning.outcome.name if meaning.outcome is not None else "nothing causes it yet"
        outcome = "" if meaning.kind == CauseKind.HEARD else outcome
        yield f"| {meaning.cause.name} | {_KINDS[meaning.kind]} | {outcome} | {happening} |"


if __name__ == "__main__":
    sys.stdout.write(page())
