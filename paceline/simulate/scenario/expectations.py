"""Expectations of a cell, in one line of plain words each, looked up in the state of its machines and in its history.

    job ID is STATE                             job tiles is SUCCEEDED
    job ID tasks STATE OP N                     job tiles tasks RUNNING >= 3
    job ID waits for CODE [or CODE...]          job big waits for NEVER_FITS
    job ID held at PATH                         the pool that says no
    job ID held asked|allocated|entitlement|limit|largest RESOURCE OP AMOUNT
    job ID fit OP N                             tasks of its gang that would find a place
    job ID missing INSTANCES                    those that would find none: 3-5,9
    job ID updates STATE[, STATE...]            how its updates stand, the oldest first
    job ID version N OP M                       tasks whose last run is of a version
    job ID preempted OP N                       runs of the job that were preempted
    job ID ran on HOST[, HOST...]               all its runs were on these hosts
    job ID ran on ATTRIBUTE=VALUE               all its runs were on hosts that had it then
    host ID is STATE                            UP, RETURNING, SILENT, LOST, DRAINING, DRAINED and so on
    host ID runs OP N                           runs that hold of it
    campaign ID is STATE                        RUNNING, PAUSED, ABORTING, ABORTED, DONE, or ABSENT
    campaign ID hosts STEP OP N                 hosts of it that are in a step: campaign kernel hosts DONE == 6
    campaign ID taken OP N                      hosts that it has between DRAIN and CHECK
    campaign ID waits for CODE                  why it starts no host
    window ID is STATE                          SET, LEADING, OPEN, or ABSENT
    pool PATH entitlement|allocation|demand RESOURCE OP AMOUNT
    cell tasks STATE OP N                       tasks of all jobs
    cell preempted OP N
    events NAME, NAME, ...                      these happened, in this order

OP is one of == != < <= > >=.
"""

from collections.abc import Callable

import numpy as np

from events.codes import Stage, TaskState
from events.quantities import write_amount
from events.records import BY_NAME
from paceline.simulate.scenario.assertions import (
    TASK_STATES,
    Assertion,
    CellState,
    Malformed,
    Observation,
    amount_of,
    count_of,
    one_of,
    other_word,
    tasks_in,
    unit_of,
)
from paceline.simulate.scenario.campaign_assertions import of_campaign
from paceline.simulate.scenario.job_assertions import of_job
from paceline.simulate.scenario.window_assertions import of_window
from processors.placement.states import Phase

PHASES = tuple(phase.name for phase in Phase)
STAGES = tuple(stage.name for stage in Stage if stage is not Stage.UP)


def parse(text: str) -> Assertion:
    """The assertion of a line. Raises `Malformed`."""
    words = text.split()
    kind = words[0] if words else ""
    if kind not in _KINDS:
        raise other_word("begin", kind, tuple(_KINDS))
    return _KINDS[kind](text, words)


def _host(text: str, words: list[str]) -> Assertion:
    host_id, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    evaluate: Callable[[CellState], Observation]
    if verb == "is":
        state = one_of(" ".join(arguments), (*PHASES, *STAGES, "ABSENT"))

        def evaluate(cell_state: CellState) -> Observation:
            phase, stage = _states(cell_state, host_id)
            have = stage if stage and (state in STAGES or phase == Phase.UP.name) else phase
            return Observation(have == state, f"host {host_id} is {have}")

    elif verb == "runs":
        evaluate = count_of(arguments, lambda cell_state: _runs(cell_state, host_id), f"host {host_id} runs")
    else:
        raise other_word("go on", verb, ("is", "runs"))
    return Assertion(text, evaluate, {"host": (host_id,)})


def _states(cell_state: CellState, host_id: str) -> tuple[str, str]:
    """The phase of a host, and the stage of its maintenance; empty: it is wanted UP."""
    hosts = cell_state.placement.hosts
    row = hosts.table.get(host_id)
    if row is None:
        return "ABSENT", ""
    stage = Stage(int(hosts.stage[row.number]))
    return Phase(int(hosts.phase[row.number])).name, stage.name if stage else ""


def _runs(cell_state: CellState, host_id: str) -> int:
    row = cell_state.placement.hosts.table.get(host_id)
    if row is None:
        return 0
    return int(np.count_nonzero(cell_state.placement.runs.arena["host"] == row.number + 1))


def _pool(text: str, words: list[str]) -> Assertion:
    if len(words) != 6:
        raise Malformed("must be: pool PATH entitlement|allocation|demand RESOURCE OP AMOUNT")
    path, kind, resource = words[1], one_of(words[2], ("entitlement", "allocation", "demand")), words[3]
    test, expected = amount_of(resource, words[4:])

    def evaluate(cell_state: CellState) -> Observation:
        row = cell_state.entitlement.shared.reported.get(path)
        names = cell_state.lifecycle.kinds.names
        amounts = dict(zip(names, getattr(row, kind), strict=False)) if row is not None else {}
        have = amounts.get(resource, 0)  # one machine may know a resource before another
        have_text = write_amount(have, unit_of(cell_state, resource))
        return Observation(test(have, expected), f"pool {path} {kind} {resource} {have_text}")

    return Assertion(text, evaluate, {"pool": (path,), "resource": (resource,)})


def _cell(text: str, words: list[str]) -> Assertion:
    if words[1:2] == ["preempted"]:
        return Assertion(
            text, count_of(words[2:], lambda cell_state: sum(cell_state.observed.preempted.values()), "cell preempted")
        )
    if words[1:2] != ["tasks"]:
        raise other_word("go on", (*words[1:2], "")[0], ("tasks", "preempted"))
    state = TaskState[one_of((*words[2:3], "")[0], TASK_STATES)]

    def tasks(cell_state: CellState) -> int:
        return sum(
            tasks_in(cell_state, job_id, state) for job_id in {*cell_state.lifecycle.jobs, *cell_state.observed.ended}
        )

    return Assertion(text, count_of(words[3:], tasks, f"cell tasks {state.name}"))


def _events(text: str, words: list[str]) -> Assertion:
    expected = [name.strip() for name in " ".join(words[1:]).split(",")]
    for name in expected:
        if name not in BY_NAME:
            raise Malformed(f"{name} is the name of no event")

    def evaluate(cell_state: CellState) -> Observation:
        count, at = 0, cell_state.observed.event_after(expected[0], -1)
        while at is not None:
            count += 1
            at = cell_state.observed.event_after(expected[count], at) if count < len(expected) else None
        missing = "" if count == len(expected) else f"; {expected[count]} didn't follow"
        return Observation(count == len(expected), f"{', '.join(expected[:count]) or 'none'}{missing}")

    return Assertion(text, evaluate)


_OF_MAINTENANCE = {"campaign": of_campaign, "window": of_window}
_KINDS = {"job": of_job, "host": _host, "pool": _pool, **_OF_MAINTENANCE, "cell": _cell, "events": _events}
