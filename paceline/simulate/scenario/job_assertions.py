"""Expectations of a job."""

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from events.codes import JobState, TaskState, UpdateState
from events.quantities import write_amount
from events.reasons import WAITS
from events.records.placement import GangsUnplaced
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
from paceline.simulate.world.log_summary import HostSnapshot

JOB_STATES = (*(state.value for state in JobState), "ABSENT")
VERBS = ("is", "tasks", "waits for", "held", "fit", "missing", "updates", "version", "preempted", "ran on")
HELD = ("asked", "allocated", "entitlement", "limit", "largest")
"""The numbers of a reason of entitlement."""


UPDATE_STATES = tuple(state.value for state in UpdateState if state != UpdateState.CANARY)
"""Those that stand in records: a canary isn't told from the rest."""


def of_job(text: str, words: list[str]) -> Assertion:
    """The assertion of a line that begins with `job`. Raises `Malformed`."""
    job_id, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    evaluate: Callable[[CellState], Observation]
    names: dict[str, tuple[str, ...]] = {"job": (job_id,)}
    match verb:
        case "is":
            state = one_of(" ".join(arguments), JOB_STATES)

            def evaluate(cell_state: CellState) -> Observation:
                have = cell_state.lifecycle.state_of(job_id) or "ABSENT"
                reason = _reason(cell_state, job_id)
                return Observation(
                    have == state, f"job {job_id} is {have}" + (f", waits for {reason}" if reason else "")
                )

        case "tasks":
            state = one_of((*arguments, "")[0], TASK_STATES)
            at = TaskState[state]
            evaluate = count_of(
                arguments[1:], lambda cell_state: tasks_in(cell_state, job_id, at), f"job {job_id} tasks {state}"
            )
        case "waits":
            codes_text = " ".join(arguments[1:]) if arguments[:1] == ["for"] else ""
            codes = [one_of(code, WAITS) for code in codes_text.split(" or ")]

            def evaluate(cell_state: CellState) -> Observation:
                have = _reason(cell_state, job_id)
                return Observation(have in codes, f"job {job_id} waits for {have or 'nothing'}")

        case "updates" if arguments:
            evaluate = _updates(job_id, [one_of(word, UPDATE_STATES) for word in " ".join(arguments).split(", ")])
        case "version" if arguments[:1] and arguments[0].isdecimal():
            evaluate = _of_version(job_id, int(arguments[0]), arguments[1:])
        case "preempted":
            evaluate = count_of(
                arguments, lambda cell_state: cell_state.observed.preempted.get(job_id, 0), f"job {job_id} preempted"
            )
        case "held" if arguments[:1] == ["at"] and len(arguments) == 2:
            evaluate, names["pool"] = _held_at(job_id, arguments[1]), (arguments[1],)
        case "held":
            evaluate, names["resource"] = _held(job_id, arguments), tuple(arguments[1:2])
        case "fit":
            evaluate = count_of(
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
            raise other_word("go on", verb, VERBS)
    return Assertion(text, evaluate, names)


def _updates(job_id: str, expected: list[str]) -> Callable[[CellState], Observation]:
    def evaluate(cell_state: CellState) -> Observation:
        have = list(cell_state.observed.updates.get(job_id, {}).values())
        return Observation(have == expected, f"job {job_id} updates {', '.join(have) or 'none'}")

    return evaluate


def _of_version(job_id: str, version: int, words: list[str]) -> Callable[[CellState], Observation]:
    def have(cell_state: CellState) -> int:
        row, arena = cell_state.lifecycle.jobs.get(job_id), cell_state.lifecycle.tasks.arena
        if row is None:
            return 0
        stretch = slice(row.base, row.base + row.instances)
        there = arena["state"][stretch] != TaskState.NONE
        return int(np.count_nonzero(there & (arena["version"][stretch] == version)))

    return count_of(words, have, f"job {job_id} version {version}")


def _reason(cell_state: CellState, job_id: str) -> str:
    """Why tasks of a job wait, as it was last said; empty: none waits."""
    waits = any(tasks_in(cell_state, job_id, state) for state in (TaskState.QUEUED, TaskState.BACKOFF))
    return cell_state.observed.reasons.get(job_id, "") if waits else ""


def _held_at(job_id: str, path: str) -> Callable[[CellState], Observation]:
    def evaluate(cell_state: CellState) -> Observation:
        record = cell_state.observed.refusals.get(job_id)
        have = record.at if record is not None else "no pool"
        return Observation(have == path, f"job {job_id} held at {have}")

    return evaluate


def _held(job_id: str, words: list[str]) -> Callable[[CellState], Observation]:
    """`FIELD RESOURCE OP AMOUNT`: a number that entitlement gave with its reason."""
    if len(words) != 4:
        raise Malformed(f"must go on with at PATH or {'|'.join(HELD)} RESOURCE OP AMOUNT")
    name, resource = one_of(words[0], HELD), words[1]
    test, expected = amount_of(resource, words[2:])

    def evaluate(cell_state: CellState) -> Observation:
        record = cell_state.observed.refusals.get(job_id)
        have = getattr(record, name).get(resource) if record is not None else None
        have_text = "not said" if have is None else write_amount(have, unit_of(cell_state, resource))
        return Observation(
            have is not None and test(have, expected), f"job {job_id} held {name} {resource} {have_text}"
        )

    return evaluate


def _missing(job_id: str, instances: str) -> Callable[[CellState], Observation]:
    def evaluate(cell_state: CellState) -> Observation:
        record = _unplaced(cell_state, job_id)
        have = (record.missing if record is not None else "") or "none"
        return Observation(have == instances, f"job {job_id} missing {have}")

    return evaluate


def _unplaced(cell_state: CellState, job_id: str) -> GangsUnplaced | None:
    return cell_state.observed.unplaced.get(job_id)


def _ran_on(job_id: str, expected: tuple[str, ...]) -> Callable[[CellState], Observation]:
    pairs = [each.partition("=") for each in expected]

    def fits(host: HostSnapshot) -> bool:
        return any(host.host_id == name if not sep else (name, value) in host.attributes for name, sep, value in pairs)

    def evaluate(cell_state: CellState) -> Observation:
        ran: Mapping[HostSnapshot, int] = cell_state.observed.ran_on.get(job_id, {})
        counts: Counter[str] = Counter()
        for host, count in ran.items():
            counts[host.host_id] += count
        hosts_text = ", ".join(f"{host_id} {count}" for host_id, count in counts.items()) or "no host"
        return Observation(bool(ran) and all(map(fits, ran)), f"job {job_id} ran on {hosts_text}")

    return evaluate
