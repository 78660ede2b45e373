"""Whether a submitted job makes sense: the same for records of the API and of foreign producers."""

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from events.answers import NO_SLACK
from events.bounds import (
    DESCRIPTION_MAX,
    DIGEST,
    GANG_MAX,
    INSTANCES_MAX,
    INT_MAX,
    MS_MAX,
    RETRIES_MAX,
    TASK_SHAPES_MAX,
    WORD_MAX,
)
from events.codes import Code
from events.columns import ints
from events.resources import Kinds, UnknownResource
from events.task_overrides import merged
from events.topics import FACT_BYTES_MAX
from processors.lifecycle.alike import RULES, once
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.shapes import task_shapes
from processors.lifecycle.sla_validation import sla_problems
from processors.lifecycle.task_validation import task_problems, words_fault
from processors.lifecycle.updates.rows import PolicyRow

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
KINDS = ("batch", "stateless", "stateful", "daemon")


def refusal(job: SubmittedRow, size: int, host_lost_after_ms: int) -> tuple[Code, str] | None:
    """Why a job can't be accepted, whatever the cell holds: a code and a sentence. None: it can."""
    if size > FACT_BYTES_MAX:
        return Code.TOO_LARGE, f"the submission takes {size} bytes, at most {FACT_BYTES_MAX} are allowed"
    apart = job.isolation
    if apart is not None and apart.image and not DIGEST.fullmatch(apart.image_digest):
        return Code.IMAGE_UNPINNED, f"image {apart.image[:80]} has no digest: submit over HTTP, or say image_digest"
    plain = not job.overrides and not job.override
    if plain and NAME.fullmatch(job.job_id) and _rules_hold(job) and not any(_of_its_own(job, host_lost_after_ms)):
        return None
    for problem in _problems(job, host_lost_after_ms):
        return Code.INVALID_SPEC, problem
    return None


@once(RULES)
def _rules_hold(job: SubmittedRow) -> bool:
    """Whether there is nothing wrong with a job, its words and what depends on the settings of the cell aside."""
    plain = msgspec.structs.replace(job, job_id="job", command=("true",), env={}, description="", labels={}, owner="")
    return not any(_problems(plain, MS_MAX))


def _of_its_own(job: SubmittedRow, host_lost_after_ms: int) -> Iterator[str]:
    yield from _texts(job)
    yield words_fault(job, host_lost_after_ms)


def resources_refusal(job: SubmittedRow, kinds: Kinds, lends: bool) -> tuple[Code, str] | None:
    """Why a cell that knows these resources can't take a job; `lends`: whether it lends the slack of hosts."""
    if job.revocable and not lends:
        return Code.SLACK_OFF, NO_SLACK
    of_overrides = (override.resources for override in job.overrides if override.resources)
    of_alternatives = (each.amounts() for each in job.rules.alternatives) if job.rules is not None else ()
    for resources in (job.resources, *of_overrides, *of_alternatives):
        if unknown := kinds.unknown(resources):
            return Code.UNKNOWN_RESOURCE, str(UnknownResource(unknown, kinds.names))
    for shape in task_shapes(job).shapes:
        if not shape.resources.keys() - kinds.licences.keys() - {"memory", "disk"}:  # any number would fit on a host
            return Code.INVALID_SPEC, "resources name only licences, memory and disk; a task needs some cpu too"
    return None


def priority_fault(priority: int) -> str:
    """The problem of a priority; empty: there is none."""
    fine = -INT_MAX <= priority <= INT_MAX
    return "" if fine else f"priority is {priority}, it must be {-INT_MAX} to {INT_MAX}"


def _problems(job: SubmittedRow, host_lost_after_ms: int) -> Iterator[str]:
    yield from _job_problems(job)
    yield from task_problems(job, host_lost_after_ms)
    if job.overrides or job.override:
        yield from _override_problems(job, host_lost_after_ms)


def _job_problems(job: SubmittedRow) -> Iterator[str]:
    """The problems of the fields of a job."""
    if not NAME.fullmatch(job.job_id):
        yield f"job_id {job.job_id[:140]!r} must be 1 to 128 of a-z, 0-9, dot, dash, underscore"
    if job.kind not in KINDS:
        yield f"kind is {job.kind[:40]!r}, it must be one of {', '.join(KINDS)}"
    if job.kind == "daemon" and (job.instances or job.preemptible or job.strategy not in ("", "pack")):
        yield "a daemon has one task on every host: instances 0, preemptible false, strategy pack"
    if job.kind != "daemon" and not 1 <= job.instances <= INSTANCES_MAX:
        yield f"instances is {job.instances}, it must be 1 to {INSTANCES_MAX}"
    for name in ("max_runtime_ms", "start_deadline_ms"):
        if not 0 <= getattr(job, name) <= MS_MAX:
            yield f"{name} is {getattr(job, name)}, it must be 0 to {MS_MAX}"
    if fault := priority_fault(job.priority):
        yield fault
    if not 0 <= job.gang_min <= job.instances:
        yield f"gang_min is {job.gang_min}, it must be 0 to the {job.instances} instances of the job"
    if job.gang_min > GANG_MAX:
        yield f"gang_min is {job.gang_min}, at most {GANG_MAX} tasks are placed at once"
    if job.gang_min > 1 and job.kind != "batch":
        yield "gang_min is for batch jobs"
    if job.controller and job.kind != "batch":
        yield "controller is for batch jobs"
    if job.controller and job.gang_min > 1:
        yield "controller and gang_min exclude each other: a controller is admitted alone"
    if job.revocable and not job.preemptible:
        yield "revocable is for preemptible jobs: such tasks are ended at any time"
    if job.revocable and job.controller:
        yield "revocable and controller exclude each other: a controller isn't ended at any time"
    if job.on_controller_end not in ("end", "wait"):
        yield f"on_controller_end is {job.on_controller_end[:40]!r}, it must be end or wait"
    if job.max_running and job.kind != "batch":
        yield "max_running is for batch jobs"
    if not (0 <= job.max_running <= INSTANCES_MAX and (not job.max_running or job.max_running >= job.gang_min)):
        yield f"max_running is {job.max_running}, it must be 0, or at least gang_min and at most {INSTANCES_MAX}"
    if job.max_runtime_ms and job.kind != "batch":
        yield "max_runtime_ms is for batch jobs: a service runs until it is stopped"
    if job.on_preempt not in ("requeue", "fail"):
        yield f"on_preempt is {job.on_preempt[:40]!r}, it must be requeue or fail"
    if job.on_preempt == "fail" and job.kind != "batch":
        yield "on_preempt fail is for batch jobs: a service is queued again"
    for name in ("retries_max", "retries_system"):
        if not 0 <= getattr(job, name) <= RETRIES_MAX:
            yield f"{name} is {getattr(job, name)}, it must be 0 to {RETRIES_MAX}"
    yield from sla_problems(job)
    yield from _update(job)
    if fault := _unknown_ports(job):
        yield fault
    yield from _texts(job)


def _unknown_ports(job: SubmittedRow) -> str:
    names = job.port_numbers.keys() - {*job.ports}
    return f"port_numbers name no port of the job: {min(names)[:80]}" if names else ""


def _texts(job: SubmittedRow) -> Iterator[str]:
    for name, text, most in (("owner", job.owner, WORD_MAX), ("description", job.description, DESCRIPTION_MAX)):
        if len(text) > most:
            yield f"{name} has {len(text)} characters, at most {most} are allowed"


def _update(job: SubmittedRow) -> Iterator[str]:
    policy = job.update or PolicyRow()
    for name in ("batch", "max_failures", "canary"):
        if not 0 <= getattr(policy, name) <= INSTANCES_MAX:
            yield f"update {name} is {getattr(policy, name)}, it must be 0 to {INSTANCES_MAX}"
    for name in ("healthy_ms", "promote_after_ms", "blocked_after_ms", "progress_deadline_ms"):
        if not 0 <= getattr(policy, name) <= MS_MAX:
            yield f"update {name} is {getattr(policy, name)}, it must be 0 to {MS_MAX}"
    if not 1 <= policy.max_attempts <= INT_MAX:
        yield f"update max_attempts is {policy.max_attempts}, it must be 1 to {INT_MAX}"
    if policy.creation and job.kind not in ("stateless", "stateful"):
        yield "update creation is for stateless and stateful jobs"


def _override_problems(job: SubmittedRow, host_lost_after_ms: int) -> Iterator[str]:
    if problem := _ranges_problem(job):
        yield problem
        return
    for at, each in enumerate(job.overrides):
        for problem in task_problems(merged(job, each), host_lost_after_ms):
            yield f"overrides {at}: {problem}"
    shapes = len(task_shapes(job).shapes)
    if shapes > TASK_SHAPES_MAX:
        ways = "resources, number of ports, constraints and strategy"
        yield f"tasks differ in {ways} in {shapes} ways, at most {TASK_SHAPES_MAX} are told apart"


def _ranges_problem(job: SubmittedRow) -> str:
    first, count, override = ints(job.override_first), ints(job.override_count), ints(job.override)
    if not len(first) == len(count) == len(override):
        return "override_first, override_count and override must have the same length"
    if not len(first):
        return ""
    if override.min() < 0 or override.max() >= len(job.overrides):
        return f"override must be an index into the {len(job.overrides)} overrides"
    end = first + count.astype(np.int64)
    if first.min() < 0 or count.min() < 1 or end.max() > job.instances:
        return f"overrides must be of instances 0 to {job.instances - 1}"
    order = np.argsort(first)
    return "no instance may be in two ranges of overrides" if (end[order][:-1] > first[order][1:]).any() else ""
