"""What is expected of a cell, in one line of plain words each, looked up in the state of its machines and in its story.

    job ID is STATE                             job tiles is SUCCEEDED
    job ID tasks STATE OP N                     job tiles tasks RUNNING >= 3
    job ID waits for CODE [or CODE...]          job big waits for NEVER_FITS
    job ID held at PATH                         the pool that says no
    job ID held asked|allocated|entitlement|limit|largest RESOURCE OP AMOUNT
    job ID fit OP N                             tasks of its gang that would find a place
    job ID missing INSTANCES                    those that would find none: 3-5,9
    job ID preempted OP N                       runs of the job that were preempted
    job ID ran on HOST[, HOST...]               all its runs were on these hosts
    job ID ran on ATTRIBUTE=VALUE               all its runs were on hosts that had it then
    host ID is STATE                            UP, RETURNING, SILENT or LOST
    host ID runs OP N                           runs that hold of it
    pool PATH entitlement|allocation|demand RESOURCE OP AMOUNT
    cell tasks STATE OP N                       tasks of all jobs
    cell preempted OP N
    events NAME, NAME, ...                      these happened, in this order

OP is one of == != < <= > >=.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from events.codes import Code, JobState, TaskState
from events.quantities import Mebibytes, Milli, OtherAmount, write_amount
from events.records import BY_NAME
from events.records.lifecycle import JobChanged
from events.records.placement import GangsUnplaced
from events.resources import STANDARD, Unit
from paceline.simulate.world.log_summary import HostSnapshot, ObservedEvents
from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.placement.hosts import Phase
from processors.placement.machine import Placement

OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
TASK_STATES = tuple(state.name for state in TaskState if state is not TaskState.NONE)
WAITS = (
    Code.NO_SUCH_POOL,
    Code.LIMIT_REACHED,
    Code.RESERVATION_REACHED,
    Code.POOL_CLOSED,
    Code.CONTROLLER_LIMIT_REACHED,
    Code.ENTITLEMENT_REACHED,
    Code.WAITING_FOR_PREEMPTION,
    Code.SAVING_FOR_TURN,
    Code.SHARE_OF_NOTHING,
    Code.BEHIND_IN_QUEUE,
    Code.NEVER_FITS,
    Code.CONSTRAINT_MISMATCH,
    Code.NO_HOST_FITS,
    Code.GANG_INCOMPLETE,
    Code.NO_HOSTS,
    Code.BOUND_HOST_BUSY,
    Code.BOUND_HOST_LOST,
    Code.HOSTS_RESERVED,
    Code.HELD_FOR_OTHERS,
    Code.WAITING_FOR_HOST,
    Code.BACKOFF,
    Code.NOT_YET_EVALUATED,
)
"""Why tasks wait."""
JOB_STATES = (*(state.value for state in JobState), "ABSENT")
PHASES = tuple(phase.name for phase in Phase)
HELD = ("asked", "allocated", "entitlement", "limit", "largest")
"""The numbers of a reason of entitlement."""


class Malformed(ValueError):
    """A line that is no expectation; the message says why."""


class CellState(NamedTuple):
    """What an expectation looks at."""

    machines: Mapping[str, Machine]
    observed: ObservedEvents

    @property
    def lifecycle(self) -> Lifecycle:
        """The state of jobs and tasks."""
        machine = self.machines["lifecycle"]
        assert isinstance(machine, Lifecycle)
        return machine

    @property
    def placement(self) -> Placement:
        """The state of hosts."""
        machine = self.machines["placement"]
        assert isinstance(machine, Placement)
        return machine

    @property
    def entitlement(self) -> Entitlement:
        """The state of pools."""
        machine = self.machines["entitlement"]
        assert isinstance(machine, Entitlement)
        return machine


class Observation(NamedTuple):
    """Whether an assertion holds, and what was seen."""

    holds: bool
    what: str


@dataclass(frozen=True)
class Assertion:
    """One parsed line. `names`: what it names by `job`, `host`, `host with` (an attribute and its value) and `pool`,
    for whoever checks that there is such a thing.
    """

    text: str
    evaluate: Callable[[CellState], Observation]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def parse(text: str) -> Assertion:
    """The assertion of a line. Raises `Malformed`."""
    words = text.split()
    kind = words[0] if words else ""
    if kind not in _KINDS:
        raise Malformed(f"must begin with {', '.join(_KINDS)}")
    return _KINDS[kind](text, words)


def _count(words: list[str], get: Callable[[CellState], int], what: str) -> Callable[[CellState], Observation]:
    """`OP N` at the end of a line."""
    test, number = _compared(words)
    if not number.isdecimal():
        raise Malformed(f"{number} is no whole number")
    expected = int(number)

    def evaluate(cell_state: CellState) -> Observation:
        have = get(cell_state)
        return Observation(test(have, expected), f"{what} {have}")

    return evaluate


def _compared(words: list[str]) -> tuple[Callable[[int, int], bool], str]:
    if len(words) != 2 or words[0] not in OPERATORS:
        raise Malformed(f"must end with one of {' '.join(OPERATORS)} and a number")
    return OPERATORS[words[0]], words[1]


def _one_of(word: str, allowed: tuple[str, ...]) -> str:
    if word not in allowed:
        raise Malformed(f"{word or 'nothing'} is none of {', '.join(allowed)}")
    return word


def _job(text: str, words: list[str]) -> Assertion:
    job_id, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    evaluate: Callable[[CellState], Observation]
    names: dict[str, tuple[str, ...]] = {"job": (job_id,)}
    match verb:
        case "is":
            state = _one_of(" ".join(arguments), JOB_STATES)

            def evaluate(cell_state: CellState) -> Observation:
                have = cell_state.lifecycle.state_of(job_id) or "ABSENT"
                reason = _reason(cell_state, job_id)
                return Observation(
                    have == state, f"job {job_id} is {have}" + (f", waits for {reason}" if reason else "")
                )

        case "tasks":
            state = _one_of((*arguments, "")[0], TASK_STATES)
            at = TaskState[state]
            evaluate = _count(
                arguments[1:], lambda cell_state: _tasks(cell_state, job_id, at), f"job {job_id} tasks {state}"
            )
        case "waits":
            said = " ".join(arguments[1:]) if arguments[:1] == ["for"] else ""
            codes = [_one_of(code, WAITS) for code in said.split(" or ")]

            def evaluate(cell_state: CellState) -> Observation:
                have = _reason(cell_state, job_id)
                return Observation(have in codes, f"job {job_id} waits for {have or 'nothing'}")

        case "preempted":
            evaluate = _count(
                arguments, lambda cell_state: cell_state.observed.preempted.get(job_id, 0), f"job {job_id} preempted"
            )
        case "held" if arguments[:1] == ["at"] and len(arguments) == 2:
            evaluate, names["pool"] = _held_at(job_id, arguments[1]), (arguments[1],)
        case "held":
            evaluate, names["resource"] = _held(job_id, arguments), tuple(arguments[1:2])
        case "fit":
            evaluate = _count(
                arguments, lambda cell_state: getattr(_unplaced(cell_state, job_id), "fit", -1), f"job {job_id} fit"
            )
        case "missing" if len(arguments) == 1:
            evaluate = _missing(job_id, arguments[0])
        case "ran" if arguments[:1] == ["on"] and arguments[1:]:
            expected = tuple(name.strip() for name in " ".join(arguments[1:]).split(",") if name.strip())
            evaluate = _ran_on(job_id, expected)
            names["host"] = tuple(name for name in expected if "=" not in name)
            names["host with"] = tuple(name for name in expected if "=" in name)
        case _:
            raise Malformed("must go on with is, tasks, waits for, held, fit, missing, preempted or ran on")
    return Assertion(text, evaluate, names)


def _reason(cell_state: CellState, job_id: str) -> str:
    """Why tasks of a job wait, as it was last said; empty: none waits."""
    waits = any(_tasks(cell_state, job_id, state) for state in (TaskState.QUEUED, TaskState.BACKOFF))
    return cell_state.observed.reasons.get(job_id, "") if waits else ""


def _held_at(job_id: str, path: str) -> Callable[[CellState], Observation]:
    def evaluate(cell_state: CellState) -> Observation:
        record = cell_state.observed.held.get(job_id)
        have = record.at if record is not None else "no pool"
        return Observation(have == path, f"job {job_id} held at {have}")

    return evaluate


def _held(job_id: str, words: list[str]) -> Callable[[CellState], Observation]:
    """`FIELD RESOURCE OP AMOUNT`: a number that entitlement gave with its reason."""
    if len(words) != 4:
        raise Malformed(f"must go on with at PATH or {'|'.join(HELD)} RESOURCE OP AMOUNT")
    name, resource = _one_of(words[0], HELD), words[1]
    test, expected = _amount(resource, words[2:])

    def evaluate(cell_state: CellState) -> Observation:
        record = cell_state.observed.held.get(job_id)
        have = getattr(record, name).get(resource) if record is not None else None
        shown = "not said" if have is None else write_amount(have, _unit(cell_state, resource))
        return Observation(have is not None and test(have, expected), f"job {job_id} held {name} {resource} {shown}")

    return evaluate


def _missing(job_id: str, instances: str) -> Callable[[CellState], Observation]:
    def evaluate(cell_state: CellState) -> Observation:
        record = _unplaced(cell_state, job_id)
        have = (record.missing if record is not None else "") or "none"
        return Observation(have == instances, f"job {job_id} missing {have}")

    return evaluate


def _unplaced(cell_state: CellState, job_id: str) -> GangsUnplaced | None:
    return cell_state.observed.unplaced.get(job_id)


def _tasks(cell_state: CellState, job_id: str, state: TaskState) -> int:
    row, ended = cell_state.lifecycle.jobs.get(job_id), cell_state.observed.ended.get(job_id)
    if row is not None:
        return row.counts[state]
    return _outcomes(ended, state) if ended is not None and cell_state.lifecycle.state_of(job_id) else 0


def _outcomes(ended: JobChanged, state: TaskState) -> int:
    """How many tasks of a job that has ended are in a state."""
    return {TaskState.SUCCEEDED: ended.succeeded, TaskState.FAILED: ended.failed, TaskState.KILLED: ended.killed}.get(
        state, 0
    )


def _ran_on(job_id: str, expected: tuple[str, ...]) -> Callable[[CellState], Observation]:
    pairs = [each.partition("=") for each in expected]

    def fits(host: HostSnapshot) -> bool:
        return any(host.host_id == name if not sep else (name, value) in host.attributes for name, sep, value in pairs)

    def evaluate(cell_state: CellState) -> Observation:
        ran: Mapping[HostSnapshot, int] = cell_state.observed.ran_on.get(job_id, {})
        counts: Counter[str] = Counter()
        for host, count in ran.items():
            counts[host.host_id] += count
        shown = ", ".join(f"{host_id} {count}" for host_id, count in counts.items()) or "no host"
        return Observation(bool(ran) and all(map(fits, ran)), f"job {job_id} ran on {shown}")

    return evaluate


def _host(text: str, words: list[str]) -> Assertion:
    host_id, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    evaluate: Callable[[CellState], Observation]
    if verb == "is":
        phase = _one_of(" ".join(arguments), (*PHASES, "ABSENT"))

        def evaluate(cell_state: CellState) -> Observation:
            row = cell_state.placement.hosts.table.get(host_id)
            have = Phase(int(cell_state.placement.hosts.phase[row.number])).name if row is not None else "ABSENT"
            return Observation(have == phase, f"host {host_id} is {have}")

    elif verb == "runs":
        evaluate = _count(arguments, lambda cell_state: _runs(cell_state, host_id), f"host {host_id} runs")
    else:
        raise Malformed("must go on with is or runs")
    return Assertion(text, evaluate, {"host": (host_id,)})


def _runs(cell_state: CellState, host_id: str) -> int:
    row = cell_state.placement.hosts.table.get(host_id)
    if row is None:
        return 0
    return int(np.count_nonzero(cell_state.placement.runs.arena["host"] == row.number + 1))


def _pool(text: str, words: list[str]) -> Assertion:
    if len(words) != 6:
        raise Malformed("must be: pool PATH entitlement|allocation|demand RESOURCE OP AMOUNT")
    path, kind, resource = words[1], _one_of(words[2], ("entitlement", "allocation", "demand")), words[3]
    test, expected = _amount(resource, words[4:])

    def evaluate(cell_state: CellState) -> Observation:
        row = cell_state.entitlement.reports.reported.get(path)
        names = cell_state.lifecycle.kinds.names
        amounts = dict(zip(names, getattr(row, kind), strict=False)) if row is not None else {}
        have = amounts.get(resource, 0)  # one machine may know a resource before another
        shown = write_amount(have, _unit(cell_state, resource))
        return Observation(test(have, expected), f"pool {path} {kind} {resource} {shown}")

    return Assertion(text, evaluate, {"pool": (path,), "resource": (resource,)})


def _amount(resource: str, words: list[str]) -> tuple[Callable[[int, int], bool], int]:
    """`OP AMOUNT` of a resource at the end of a line."""
    test, amount = _compared(words)
    number = re.fullmatch(r"\d+(\.\d+)?", amount)
    try:
        value = float(amount) if number and STANDARD.get(resource) is not Unit.MIB else amount
        return test, _AMOUNTS[STANDARD.get(resource)].validate_python(value)
    except ValidationError as error:
        raise Malformed(f"{amount} {error.errors()[0]['msg']}") from error


def _unit(cell_state: CellState, resource: str) -> Unit:
    return cell_state.lifecycle.kinds.units.get(resource, Unit.MILLI)


_AMOUNTS: dict[Unit | None, TypeAdapter[int]] = {
    Unit.MILLI: TypeAdapter(Milli),
    Unit.MIB: TypeAdapter(Mebibytes),
    None: TypeAdapter(OtherAmount),
}
"""Read amounts of the four by their units, and of any other resource as it is written."""


def _cell(text: str, words: list[str]) -> Assertion:
    if words[1:2] == ["preempted"]:
        return Assertion(
            text, _count(words[2:], lambda cell_state: sum(cell_state.observed.preempted.values()), "cell preempted")
        )
    if words[1:2] != ["tasks"]:
        raise Malformed("must go on with tasks or preempted")
    state = TaskState[_one_of((*words[2:3], "")[0], TASK_STATES)]

    def tasks(cell_state: CellState) -> int:
        return sum(
            _tasks(cell_state, job_id, state) for job_id in {*cell_state.lifecycle.jobs, *cell_state.observed.ended}
        )

    return Assertion(text, _count(words[3:], tasks, f"cell tasks {state.name}"))


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


_KINDS = {"job": _job, "host": _host, "pool": _pool, "cell": _cell, "events": _events}
