"""Whether a submitted job makes sense: the same for records of the API and of foreign producers."""

import re

from events.bounds import (
    CONSTRAINTS_MAX,
    EXIT_CODE_MAX,
    GANG_MAX,
    GANG_PORTS_MAX,
    INSTANCES_MAX,
    INT_MAX,
    LABELS_MAX,
    MS_MAX,
    PORTS_MAX,
    RETRIES_MAX,
    STRING_BYTES_MAX,
    STRINGS_MAX,
    VALUES_MAX,
    WORD_MAX,
)
from events.codes import Code
from events.port_names import sharing
from events.resources import amounts_fault
from events.topics import FACT_BYTES_MAX
from processors.lifecycle.rows import SubmittedRow

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
OPERATORS = ("in", "not_in", "exists", "absent")


def refusal(job: SubmittedRow, size: int, host_lost_after_ms: int) -> tuple[Code, str] | None:
    """Why a job can't be accepted, whatever the cell holds: a code and a sentence. None: it can."""
    if size > FACT_BYTES_MAX:
        return Code.TOO_LARGE, f"the submission takes {size} bytes, at most {FACT_BYTES_MAX} are allowed"
    for problem in _problems(job, host_lost_after_ms):
        return Code.INVALID_SPEC, problem
    return None


def priority_fault(priority: int) -> str:
    """What is wrong with a priority; empty: nothing."""
    fine = -INT_MAX <= priority <= INT_MAX
    return "" if fine else f"priority is {priority}, it must be {-INT_MAX} to {INT_MAX}"


def _problems(job: SubmittedRow, host_lost_after_ms: int) -> list[str]:
    found = []
    if not NAME.fullmatch(job.job_id):
        found.append(f"job_id {job.job_id[:140]!r} must be 1 to 128 of a-z, 0-9, dot, dash, underscore")
    if job.kind not in ("batch", "stateless"):
        found.append(f"kind is {job.kind[:40]!r}, it must be batch or stateless")
    if not 1 <= job.instances <= INSTANCES_MAX:
        found.append(f"instances is {job.instances}, it must be 1 to {INSTANCES_MAX}")
    for name in ("stop_grace_ms", "stop_after_ms", "max_runtime_ms"):
        if not 0 <= getattr(job, name) <= MS_MAX:
            found.append(f"{name} is {getattr(job, name)}, it must be 0 to {MS_MAX}")
    if fault := amounts_fault(job.resources):
        found.append(f"resources: {fault}")
    if fault := priority_fault(job.priority):
        found.append(fault)
    if not any(amount for name, amount in job.resources.items() if name not in ("memory", "disk")):
        found.append("resources name nothing but memory and disk, a task needs some cpu or another resource")
    if not 0 <= job.gang_min <= job.instances:
        found.append(f"gang_min is {job.gang_min}, it must be 0 to the {job.instances} instances of the job")
    if job.gang_min > GANG_MAX:
        found.append(f"gang_min is {job.gang_min}, at most {GANG_MAX} tasks are placed at once")
    if job.gang_min > 1 and job.kind == "stateless":
        found.append("gang_min is for batch jobs")
    if job.controller and job.kind == "stateless":
        found.append("controller is for batch jobs")
    if job.controller and job.gang_min > 1:
        found.append("controller and gang_min exclude each other: a controller is admitted alone")
    if job.max_runtime_ms and job.kind != "batch":
        found.append("max_runtime_ms is for batch jobs: a service runs until it is stopped")
    if job.on_preempt not in ("requeue", "fail"):
        found.append(f"on_preempt is {job.on_preempt[:40]!r}, it must be requeue or fail")
    if job.on_preempt == "fail" and job.kind == "stateless":
        found.append("on_preempt fail is for batch jobs: a service is queued again")
    if not 0 <= job.retries_max <= RETRIES_MAX:
        found.append(f"retries_max is {job.retries_max}, it must be 0 to {RETRIES_MAX}")
    if len(job.ports) > PORTS_MAX or len(set(job.ports)) != len(job.ports):
        found.append(f"ports must be at most {PORTS_MAX} different names")
    if not all(1 <= len(name) <= WORD_MAX for name in job.ports):
        found.append(f"names of ports must have 1 to {WORD_MAX} characters")
    if shared := sharing(job.ports):
        found.append(f"names of ports must differ in their letters and digits: {shared}")
    if job.gang_min * len(job.ports) > GANG_PORTS_MAX:
        ports = job.gang_min * len(job.ports)
        found.append(f"the gang needs {ports} ports, at most {GANG_PORTS_MAX} are placed at once")
    if job.strategy not in ("pack", "spread"):
        found.append(f"strategy is {job.strategy[:40]!r}, it must be pack or spread")
    if job.max_unavailable is not None and (job.kind != "stateless" or not 0 <= job.max_unavailable <= job.instances):
        found.append(f"max_unavailable is for stateless jobs, 0 to {job.instances}")
    checks = (_program(job), _simulated(job), _constraints(job), _texts(job), _silence(job, host_lost_after_ms))
    return found + [problem for problem in checks if problem]


def _program(job: SubmittedRow) -> str:
    if job.simulated is None and not (job.command and job.command[0]):
        return "command must name a program"
    for what, strings in (("command", job.command), ("env", job.env)):
        if len(strings) > STRINGS_MAX:
            return f"{what} has {len(strings)} items, at most {STRINGS_MAX} are allowed"
    for text in (*job.command, *(f"{name}={value}" for name, value in job.env.items())):
        size = len(text.encode())
        if size > STRING_BYTES_MAX:
            return f"{text[:40]!r} in command or env takes {size} bytes, at most {STRING_BYTES_MAX} are allowed"
    if not all(job.env) or any("=" in name for name in job.env):
        return "names in env must not be empty nor hold ="
    if any("\0" in text for text in (*job.command, *job.env, *job.env.values())):
        return "command and env must not hold the character 0"
    return ""


def _simulated(job: SubmittedRow) -> str:
    sim = job.simulated
    if sim is None:
        return ""
    for name, times in (("duration_ms", (sim.duration_ms, *sim.durations_ms)), ("ready_ms", (sim.ready_ms,))):
        wrong = next((each for each in times if not 0 <= each <= MS_MAX), None)
        if wrong is not None:
            return f"simulated {name} is {wrong}, it must be 0 to {MS_MAX}"
    if not 0 <= sim.exit_code <= EXIT_CODE_MAX:
        return f"simulated exit_code is {sim.exit_code}, it must be 0 to {EXIT_CODE_MAX}"
    for name, number in (("fail_runs", sim.fail_runs), ("fail_run", sim.fail_run)):
        if number < 0:
            return f"simulated {name} is {number}, it must not be negative"
    return ""


def _constraints(job: SubmittedRow) -> str:
    if len(job.constraints) > CONSTRAINTS_MAX:
        return f"the job has {len(job.constraints)} constraints, at most {CONSTRAINTS_MAX} are allowed"
    for constraint in job.constraints:
        attribute, values = constraint.attribute, constraint.values
        if not 1 <= len(attribute) <= WORD_MAX or any(len(value) > WORD_MAX for value in values):
            return f"constraint on {attribute[:80]!r}: attribute and values have at most {WORD_MAX} characters"
        if len(values) > VALUES_MAX:
            return f"constraint on {attribute[:80]!r} has {len(values)} values, at most {VALUES_MAX} are allowed"
        if constraint.operator not in OPERATORS:
            return f"constraint operator {constraint.operator[:40]!r} must be one of {', '.join(OPERATORS)}"
        if constraint.operator in ("in", "not_in") and not constraint.values:
            return f"constraint on {constraint.attribute[:80]!r} needs values"
    return ""


def _texts(job: SubmittedRow) -> str:
    if len(job.labels) > LABELS_MAX:
        return f"the job has {len(job.labels)} labels, at most {LABELS_MAX} are allowed"
    for name, value in job.labels.items():
        if not 1 <= len(name) <= WORD_MAX or len(value) > WORD_MAX:
            return f"label {name[:80]!r}: name and value have at most {WORD_MAX} characters"
    if len(job.owner) > WORD_MAX:
        return f"owner has {len(job.owner)} characters, at most {WORD_MAX} are allowed"
    return ""


def _silence(job: SubmittedRow, host_lost_after_ms: int) -> str:
    if job.on_silence == "keep":
        return f"stop_after_ms is {job.stop_after_ms}, it is only for stop_after" if job.stop_after_ms else ""
    if job.on_silence != "stop_after":
        return f"on_silence is {job.on_silence[:40]!r}, it must be keep or stop_after"
    if not 0 < job.stop_after_ms + job.stop_grace_ms < host_lost_after_ms:
        return (
            f"stop_after_ms {job.stop_after_ms} and stop_grace_ms {job.stop_grace_ms} together must end before the "
            f"cell declares a silent host lost, after {host_lost_after_ms} ms"
        )
    return ""
