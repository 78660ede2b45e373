"""The table of a task's life, cell by cell: each is reached by driving the machine, or said to be impossible."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from events.bounds import RUN_MAX
from events.codes import ENDED_TASKS, LIVE_TASKS, Code, Outcome, RunCause, RunReport, Stage, TaskState
from events.columns import I64, ints, pack_ints
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    GangsQueued,
    InstancesWanted,
    JobHeld,
    PreemptionAnswered,
    RunsEnded,
    RunsOverdue,
)
from events.records.parts import HealthCheck
from events.records.placement import HostLost
from processors.lifecycle.asks import PLANNED
from processors.lifecycle.causes import CAUSE_RULES, CODE_OF, KIND_OF, OUTCOME_OF, CauseKind, EndCause, Goal, SlaVerdict
from processors.lifecycle.lookups import Mask
from processors.lifecycle.task_rules import RETRIES_SHIFT, Trait, end_of, rule_of, run_ends
from processors.lifecycle.task_table import (
    CAUSE_OF,
    ENDS,
    GANG_WAIT,
    JOB_RULES,
    LIFE,
    NAMES,
    NOTES,
    PLACED,
    REPORTS,
    RULES,
    WHY_NOT,
    Note,
    Report,
    Rule,
    TaskEvent,
)
from processors.lifecycle.tasks import COLUMNS, RARE, Ends, Tasks
from processors.machine import Decided
from processors.state.causes import CurrentInput
from tests.helpers import ROOT
from tests.helpers.machines import columns, instances_changed, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed, deferred
from tools.task_life_page import page

CHECK = HealthCheck("command", ("true",))
GANG: dict[str, Any] = {"instances": 3, "gang_min": 2, "retries_max": 5}
CELLS = [
    (happening, state, letter)
    for happening, row in NOTES.items()
    for state, letter in zip(LIFE, row.split(), strict=True)
]
REACHED = [(happening, state, Note(letter)) for happening, state, letter in CELLS if letter in "-cwrsvpegn"]
OF_SERVICES = (
    TaskEvent.ALLOWED,
    TaskEvent.ALLOWED_LATER,
    TaskEvent.DEFERRED,
    TaskEvent.FREE,
    TaskEvent.FREE_LATER,
    TaskEvent.PREEMPT,
    TaskEvent.PREEMPT_WITHDRAWN,
)
OF_ORDERS = (TaskEvent.PREEMPT, TaskEvent.PREEMPT_GOES, TaskEvent.PREEMPT_WITHDRAWN)
OF_GANGS = (TaskEvent.GANG_FAILED, TaskEvent.RUN_LIMIT)
OTHER = ("web", 0, 1)
"""A run of another job with an SLA, in one order with the task."""
MATE = ("a", 1, 1)
"""The other member of its gang."""
Life = dict[str, int]


class Task:
    """The task that a cell is about: instance 0 of job a, driven to a state. Instance 1 keeps the job open. Where it is
    led by a controller that is the other way round.
    """

    def __init__(self, state: int, happening: TaskEvent) -> None:
        self.world = World()
        self.happening = happening
        checked = happening is TaskEvent.UNHEALTHY
        self.ready = RunReport.HEALTHY if checked else RunReport.STARTED
        if happening in OF_ORDERS:
            self.world.submit("web", kind="stateless", max_unavailable=1)
            self.world.place(OTHER)
            self.world.report(RunReport.STARTED, OTHER)
        self.led = happening is TaskEvent.JOB_END
        self.at = int(self.led)
        gang = happening in OF_GANGS or (state in (GANG_WAIT, TaskState.STOPPING) and not self.led)
        service = (state == TaskState.BACKOFF and not self.led) or (
            happening in OF_SERVICES and state in (TaskState.ORDERED, *LIVE_TASKS)
        )
        spec: dict[str, Any] = {"kind": "stateless", "instances": 2, "max_unavailable": 1} if service else {}
        spec = spec if service and not gang else GANG if gang else {"instances": 2, "controller": self.led}
        self.world.submit("a", **spec, health=CHECK if checked else None)
        self._drive(state)
        assert self.now["state"] == state, NAMES[self.now["state"]]

    @property
    def run(self) -> tuple[str, int, int]:
        return ("a", self.at, max(1, self.now["run"]))

    @property
    def now(self) -> Life:
        """Its columns."""
        machine = self.world.machine
        slot = machine.jobs["a"].base + self.at
        return {column: int(machine.tasks.arena[column][slot]) for column in (*COLUMNS, *RARE)}

    def _drive(self, state: int) -> None:
        world, mate = self.world, ("a", 1 - self.at, 1)
        if state in (TaskState.NONE, TaskState.QUEUED):
            if state == TaskState.NONE:
                self._drive(TaskState.SUCCEEDED)
                world.decided(instances_changed("a", (0, 1), removed=(self.at,)))
            elif self.led or self.happening in OF_GANGS:
                world.place(mate)
            return
        world.place(mate)
        world.report(self.ready, mate)
        world.busy = state == PLACED
        world.place(self.run)
        world.busy = False
        if state in (PLACED, TaskState.ORDERED):
            return
        world.report(self.ready, self.run)
        if state == TaskState.BACKOFF and self.led:
            world.report(RunReport.VANISHED, self.run)
        elif state == TaskState.STOPPING and (self.led or self.happening in OF_GANGS):
            world.preempt(self.run)
        elif state == TaskState.STOPPING:
            world.report(RunReport.EXITED, mate, exit_code=1)
        elif state == TaskState.KILLED:
            world.stop("a")
            world.report(RunReport.STOPPED, self.run)
        elif state != TaskState.RUNNING:
            failed = state in (TaskState.FAILED, GANG_WAIT)
            world.report(RunReport.EXITED, self.run, exit_code=int(failed))

    def prepare(self) -> None:
        """What must have come before a verdict, or before an order goes or is answered. Another run of the order has no
        verdict yet, so nothing follows.
        """
        world = self.world
        if self.happening is TaskEvent.START:
            world.busy = True
            world.decided(InstancesWanted(job_id="a", wanted=False))
        elif self.happening is TaskEvent.RELEASE:
            world.busy = True
            world.decided(JobHeld(job_id="a", held=True))
        elif self.happening in (TaskEvent.PREEMPT_GOES, TaskEvent.PREEMPT_WITHDRAWN):
            up = self.now["state"] in (TaskState.ORDERED, TaskState.RUNNING)
            protected = up and self.happening is TaskEvent.PREEMPT_WITHDRAWN
            world.busy = True
            world.preempt(self.run, OTHER)
            world.decided(DisruptionAsked(**columns([OTHER, *[self.run] * protected])))
            if protected:
                world.peer("sla", allowed(self.run))
        elif self.happening in (TaskEvent.UNDRAIN, TaskEvent.UNEVICT):
            world.busy = True
            world.stage(Stage.DRAINING_BATCH if self.happening is TaskEvent.UNDRAIN else Stage.FORCING)
        elif self.happening is TaskEvent.UPDATE_WITHDRAWN:
            note(self, TaskEvent.UPDATE)
        elif self.happening in OF_SERVICES[:5] and self.now["state"] in (TaskState.ORDERED, TaskState.RUNNING):
            world.preempt(self.run, ("a", 1, 1))
            if self.happening in (TaskEvent.ALLOWED_LATER, TaskEvent.FREE_LATER):
                world.peer("sla", deferred(self.run))

    def happen(self) -> None:
        """Lets it happen and applies what is noted, and no decision about the task itself where that can be told
        apart.
        """
        world = self.world
        world.busy = True
        HAPPEN[self.happening](self)
        if self.happening in (TaskEvent.STOP, TaskEvent.GANG_FAILED, TaskEvent.JOB_END):
            world.busy = False
            self.step()

    def step(self) -> list[Event]:
        """One round."""
        self.world.busy = False
        decisions = self.world.machine.decide(self.world.now, True, 1000)
        for index, decision in enumerate(decisions):
            self.world.apply(Decided(self.world.now, decision, 1, index))
        return decisions


def withdraw(task: Task) -> None:
    """Sla defers the other run of the order, and the order is answered."""
    task.world.peer("sla", deferred(OTHER))
    order = task.world.machine.orders.table[1].order.record
    task.world.decided(PreemptionAnswered(number=1, order=order, code=Code.DEFERRED, victims=2, **columns([OTHER])))


def note(task: Task, happening: TaskEvent) -> None:
    """What an update does to its instances, by itself; that it does so is tested with updates."""
    machine = task.world.machine
    machine.tasks.record_event(happening, np.array([machine.jobs["a"].base]))
    machine.disturb()  # nothing was applied


HAPPEN: dict[TaskEvent, Callable[[Task], Any]] = {
    TaskEvent.STOP: lambda task: task.world.stop("a"),
    TaskEvent.GANG_FAILED: lambda task: task.world.report(RunReport.EXITED, ("a", 1, 1), exit_code=1),
    TaskEvent.PLACED: lambda task: task.world.place(task.run),
    TaskEvent.HOST_LOST: lambda task: task.world.peer(
        "placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=1)
    ),
    TaskEvent.MISSING: lambda task: task.world.inventory(2),
    TaskEvent.PREEMPT: lambda task: task.world.preempt(task.run, OTHER),
    TaskEvent.PREEMPT_GOES: lambda task: task.world.peer("sla", allowed(OTHER)),
    TaskEvent.PREEMPT_WITHDRAWN: withdraw,
    TaskEvent.ALLOWED: lambda task: task.world.peer("sla", allowed(task.run)),
    TaskEvent.ALLOWED_LATER: lambda task: task.world.peer("sla", allowed(task.run, later=1)),
    TaskEvent.FREE: lambda task: task.world.peer("sla", allowed(task.run, free=1)),
    TaskEvent.FREE_LATER: lambda task: task.world.peer("sla", allowed(task.run, later=1, free=1)),
    TaskEvent.DEFERRED: lambda task: task.world.peer("sla", deferred(task.run)),
    TaskEvent.DRAIN: lambda task: task.world.stage(Stage.DRAINING_BATCH),
    TaskEvent.UNDRAIN: lambda task: task.world.stage(Stage.UP),
    TaskEvent.EVICT: lambda task: task.world.stage(Stage.FORCING),
    TaskEvent.UNEVICT: lambda task: task.world.stage(Stage.UP),
    TaskEvent.RUN_LIMIT: lambda task: task.world.decided(
        RunsOverdue(**columns([task.run if task.now["state"] == TaskState.RUNNING else MATE]), what=pack_ints([1]))
    ),
    TaskEvent.START: lambda task: task.world.decided(InstancesWanted(job_id="a", wanted=True)),
    TaskEvent.HOLD: lambda task: task.world.decided(JobHeld(job_id="a", held=True)),
    TaskEvent.RELEASE: lambda task: task.world.decided(JobHeld(job_id="a", held=False)),
    TaskEvent.JOB_END: lambda task: task.world.report(RunReport.EXITED, ("a", 0, 1)),
    TaskEvent.START_LATE: lambda task: task.world.decided(RunsOverdue(**columns([task.run]), what=pack_ints([2]))),
    TaskEvent.STOP_LATE: lambda task: task.world.decided(RunsOverdue(**columns([task.run]), what=pack_ints([3]))),
    TaskEvent.STARTED: lambda task: task.world.report(RunReport.STARTED, task.run),
    TaskEvent.ENDED: lambda task: task.world.report(RunReport.EXITED, task.run),
    TaskEvent.UNHEALTHY: lambda task: task.world.report(RunReport.UNHEALTHY, task.run),
    TaskEvent.REVOKE: lambda task: task.world.revoke(task.run),
    **{
        each: lambda task: note(task, task.happening)
        for each in (TaskEvent.REMOVE, TaskEvent.UPDATE, TaskEvent.UPDATE_WITHDRAWN)
    },
}
CAUSED_BY = {
    Outcome.STOPPED: EndCause.STOP,
    Outcome.PREEMPTED: EndCause.PREEMPT,
    Outcome.REVOKED: EndCause.REVOKE,
    Outcome.WITH_GANG: EndCause.GANG,
    Outcome.REPLACED: EndCause.UPDATE,
    Outcome.RELOCATED: EndCause.DRAIN,
}
REPORT_OF = {
    Outcome.SUCCEEDED: RunReport.EXITED,
    Outcome.FAILED: RunReport.EXITED,
    Outcome.LOST: RunReport.SILENCED,
}
"""By what cause or report a run has an outcome."""


class Alike:
    """No gang fails, and no task has failed on another host before; a host has no retry more than a task."""

    def failing_gangs(self, slots: I64, outcome: I64, counts_as: I64) -> I64:
        return slots[:0]

    def hopeless(self, slots: I64) -> Mask:
        return np.zeros(len(slots), dtype=np.bool_)

    def failed_elsewhere(self, slots: I64) -> Mask:
        return np.zeros(len(slots), dtype=np.bool_)

    def host_retries(self, slots: I64) -> I64:
        return np.zeros(len(slots), dtype=np.int64)

    def held(self, slots: I64) -> Mask:
        return np.zeros(len(slots), dtype=np.bool_)

    def recovered(self, slots: I64, now: int) -> Mask:
        return np.zeros(len(slots), dtype=np.bool_)


MET: set[Rule] = set()
"""The rules by which something was decided."""


WALKED: set[tuple[TaskEvent, int]] = set()
"""Cells that this process has been in."""


@pytest.mark.xdist_group("task table")
@pytest.mark.parametrize(
    ("happening", "state", "note"), REACHED, ids=[f"{each.name}-{NAMES[state]}" for each, state, _ in REACHED]
)
def test_each_cell_notes_what_the_table_says_and_decides_by_its_rules(
    happening: TaskEvent, state: int, note: Note
) -> None:
    WALKED.add((happening, state))
    task = Task(state, happening)
    task.prepare()
    before = task.now
    task.happen()
    after = task.now
    changed = {column for column in (*COLUMNS, *RARE) if before[column] != after[column]}
    if note is Note.NOTHING:
        assert not changed - {"traits"} if happening in (TaskEvent.HOLD, TaskEvent.RELEASE) else not changed
    elif note is Note.CAUSE:
        assert after["causes"] == before["causes"] | CAUSE_OF[happening]
        assert changed - {"state", "report"} <= {"causes", "goal", "order", "due", "traits", "since"}
        assert not CAUSE_OF[happening] & PLANNED or after["since"] > 0
    elif note is Note.WITHDRAWN:
        assert after["causes"] == before["causes"] & ~CAUSE_OF[happening]
        with_it = {TaskEvent.START: {"goal"}, TaskEvent.RELEASE: {"traits"}}.get(happening, {"order"})
        assert "causes" in changed
        assert changed <= {"causes", "since"} | with_it
    elif note is Note.REPORT:
        assert (changed, REPORTS[after["report"]]) == ({"report"}, Report.ENDED)
    elif note is Note.READY:
        assert (changed, after["report"]) == ({"report"}, RunReport.STARTED)
    elif note is Note.GOAL:
        assert (changed, after["goal"]) == ({"goal"}, Goal.RUN)
    elif note is Note.NEW:
        assert (after["run"], after["goal"]) == (before["run"] + 1, Goal.RUN)
        assert after["state"] in (TaskState.BACKOFF, GANG_WAIT)
    elif note is Note.AGAIN:
        assert (changed, after["due"]) == ({"due"}, 0)
    elif note is Note.VERDICT:
        assert changed == {"verdict"}
    else:
        assert (changed, after["state"]) == ({"state", "host"}, PLACED)
    decides_by_the_rules(task)


def decides_by_the_rules(task: Task, waited: bool = False, stale: bool = False) -> None:
    """The next round decides of the task what the first rule that holds says, and takes it to the next state."""
    was, service = task.now, task.world.machine.jobs["a"].max_unavailable is not None
    rule = rule_of(
        was["state"], REPORTS[was["report"]], CauseKind(int(KIND_OF[was["causes"]])), SlaVerdict(was["verdict"]),
        service, was["due"] > 0 and not waited, stale=stale,
    )  # fmt: skip
    named = [type(event) for event in task.step() if names(event, ("a", task.at, was["run"]))]
    if rule is None:
        whole_gang = next(rule for rule in JOB_RULES if GANG_WAIT in rule.states)
        assert named == [] or (named == [whole_gang.decision] and was["state"] in whole_gang.states)
        return
    MET.add(rule)
    assert rule.decision in named
    if rule.next is not None and rule.next >= 0:
        assert task.now["state"] == rule.next


def names(event: Event, run: tuple[str, int, int]) -> bool:
    """Whether a decision is about a run."""
    if isinstance(event, GangsQueued):
        return any(job == run[0] and first <= run[1] < first + count for job, first, count, *_ in ranges_of(event))
    return hasattr(event, "run") and run in runs_of(event)


def test_a_job_that_is_stopped_in_the_round_that_accepts_it_ends() -> None:
    """What happens in the state NONE is noted before the first run is queued."""
    world = World()
    world.busy = True
    world.submit("a", instances=2)
    world.stop("a")
    world.busy = False
    said = world.quiet()
    assert set(ints(one(said, RunsEnded).outcome)) == {Outcome.STOPPED}
    assert world.machine.state_of("a") == "KILLED"


@pytest.mark.xdist_group("task table")
def test_every_rule_is_met_on_a_walk_through_all_cells() -> None:
    for happening, state, note in [each for each in REACHED if each[:2] not in WALKED]:
        test_each_cell_notes_what_the_table_says_and_decides_by_its_rules(happening, state, note)
    waited = Task(TaskState.BACKOFF, TaskEvent.ENDED)
    waited.world.now += 60_000
    decides_by_the_rules(waited, waited=True)
    protected = Task(TaskState.RUNNING, TaskEvent.ALLOWED)
    protected.world.preempt(protected.run)
    protected.world.busy = True
    protected.world.peer("sla", allowed(protected.run))
    decides_by_the_rules(protected)
    free = Task(TaskState.ORDERED, TaskEvent.FREE)
    free.world.stage(Stage.DRAINING)
    free.world.busy = True
    free.world.peer("sla", allowed(free.run, free=1))
    decides_by_the_rules(free)
    other = Task(TaskState.RUNNING, TaskEvent.DEFERRED)
    other.world.stage(Stage.DRAINING)
    other.world.peer("sla", deferred(other.run))
    other.world.busy = True
    other.world.preempt(other.run)
    decides_by_the_rules(other, stale=True)
    assert [rule for rule in RULES if rule not in MET] == []


def test_a_cell_is_impossible_for_a_reason_and_none_waits_for_a_later_cause() -> None:
    impossible = {(happening, state) for happening, state, letter in CELLS if letter == "x"}
    assert impossible == {cell for cell in WHY_NOT if cell in impossible}
    assert len(REACHED) + len(impossible) == len(CELLS)
    assert {happening for happening, _, _ in CELLS} == HAPPEN.keys()


def test_the_strongest_of_some_causes_gives_both_the_outcome_and_the_code() -> None:
    assert sorted(rule.cause for rule in CAUSE_RULES) == sorted(EndCause)
    for rule, weaker in combinations(CAUSE_RULES, 2):
        assert CODE_OF[rule.cause | weaker.cause] == CODE_OF[rule.cause] == rule.code
        assert OUTCOME_OF[rule.cause | weaker.cause] == OUTCOME_OF[rule.cause]
    codes = [rule.code for rule in CAUSE_RULES if rule.kind != CauseKind.HEARD]
    assert sorted(codes) == sorted({*RunCause} - {RunCause.NONE, RunCause.CANNOT_START}), "one cause has each"


@pytest.mark.parametrize("cause", EndCause)
def test_each_cause_ends_a_run_at_once_or_asks_sla_and_the_strongest_gives_the_outcome(cause: EndCause) -> None:
    unplanned = KIND_OF[cause] == CauseKind.UNPLANNED
    alone = rule_of(TaskState.RUNNING, Report.NONE, CauseKind(int(KIND_OF[cause])), SlaVerdict.NONE, True, False)
    assert alone is not None
    assert alone.decision.__name__ == ("RunsStopping" if unplanned else "DisruptionAsked")
    assert KIND_OF[cause | EndCause.STOP] == CauseKind.UNPLANNED


@pytest.mark.parametrize("end", ENDS, ids=[f"{at}-{NAMES[end.next]}" for at, end in enumerate(ENDS)])
def test_each_end_leads_where_the_table_says(end: Any) -> None:
    flags = [bool(each) for each in (end.over, end.stateless, end.gang, end.final, end.retries, end.last, end.fails)]
    goal = Goal.STOP if Goal.STOP in end.goals else end.goals[0]
    outcome = Outcome.STOPPED if Outcome.STOPPED in end.outcomes and len(end.outcomes) > 3 else end.outcomes[0]
    assert end_of(outcome, goal, *flags) is end
    tasks = Tasks(CurrentInput())
    slots = np.array([tasks.arena.take(1)])
    over, stateless, gang, final, retries, last, fails = flags
    traits = Trait.STATELESS * stateless | Trait.GANG * gang | Trait.GANG_FINAL * final | retries << RETRIES_SHIFT
    traits |= Trait.PREEMPT_FAILS * fails
    for column, value in (("traits", traits), ("goal", goal), ("run", RUN_MAX if last else 4)):
        tasks.arena.set(column, slots, value)
    tasks.arena.set("causes", slots, CAUSED_BY.get(outcome, 0) | EndCause.JOB_END * over)
    tasks.arena.set("report", slots, REPORT_OF.get(outcome, 0))
    tasks.arena.set("exit", slots, int(outcome == Outcome.FAILED))
    ends = run_ends(tasks.arena, slots, Alike(), 0)
    assert ends.outcome.tolist() == [outcome]
    state = tasks.end(
        slots,
        Ends(ends.next, np.array([int(end.keeps)]), ends.counts_as, ends.failures, np.array([5])),
        1_700_000_000_000,
    )
    assert state.tolist() == [end.next]
    assert tasks.arena["failures"][slots].tolist() == [int(end.counts)]
    assert (tasks.arena["run"][slots[0]] > 4) == (end.next in (TaskState.BACKOFF, GANG_WAIT) or last)
    assert end.next in (*ENDED_TASKS, GANG_WAIT) or tasks.arena["admitted"][slots].tolist() == [int(end.keeps)]


def test_the_page_of_a_tasks_life_is_what_the_table_says() -> None:
    text = (ROOT / "docs/task-life.md").read_text()
    assert text == page(), "run python -m tools.task_life_page > docs/task-life.md"
