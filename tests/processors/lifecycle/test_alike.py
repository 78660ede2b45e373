"""What is found once of jobs that are alike is what would be found of each."""

from typing import Any

import msgspec
import pytest

from events.records.jobs import JobSubmitted
from events.records.parts import (
    Constraint,
    HealthCheck,
    Isolation,
    PlacementRules,
    Secret,
    Simulated,
    SlaPolicy,
    UpdatePolicy,
)
from processors.lifecycle.job_rules import run_rules
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.shapes import task_shapes
from processors.lifecycle.updates.versions import FIELDS, version_row
from processors.lifecycle.validation import _rules_hold, refusal
from processors.state.record_rows import row_of

OTHER: dict[str, Any] = {
    "job_id": "Not a name",
    "pool": "/other",
    "kind": "stateless",
    "instances": 3,
    "command": (),
    "env": {"A=B": "c"},
    "resources": {"memory": 1, "cpu": 7, "disk": 0},
    "ports": ("http",),
    "port_numbers": {"http": 80},
    "priority": 4,
    "preemptible": True,
    "controller": True,
    "on_controller_end": "never",
    "on_preempt": "fail",
    "gang_min": 2,
    "retries_max": 1,
    "retries_system": 2,
    "max_runtime_ms": 5,
    "max_running": 1,
    "start_deadline_ms": 6,
    "constraints": (Constraint("disk", "in", ("ssd",)),),
    "strategy": "spread",
    "max_unavailable": 1,
    "health": HealthCheck(kind="command", command=("true",)),
    "update": UpdatePolicy(batch=2),
    "stop_signal": "INT",
    "open_files": 9,
    "volumes": ("data",),
    "stop_grace_ms": 77,
    "on_silence": "stop_after",
    "stop_after_ms": 40_000,
    "description": "words",
    "labels": {"": "nameless"},
    "owner": "o" * 300,
    "simulated": Simulated(1000),
    "isolation": Isolation(level="cgroup", processes=8, output_head=64),
    "revocable": True,
    "secrets": (Secret(name="db", version=1),),
    "rules": PlacementRules(tolerations=("dedicated",), cores=1),
    "run_token": True,
    "sla": SlaPolicy(min_healthy_ms=5),
}
LEFT_OUT = {"overrides", "override_first", "override_count", "override", "chunks"}


def plain() -> SubmittedRow:
    job = JobSubmitted(job_id="a", pool="/a", instances=2, resources={"cpu": 5}, command=("true",))
    return row_of(SubmittedRow, job)


def other(field: str) -> SubmittedRow:
    job = JobSubmitted(job_id="a", pool="/a", instances=2, resources={"cpu": 5}, command=("true",))
    return row_of(SubmittedRow, msgspec.structs.replace(job, **{field: OTHER[field]}))


def found(job: SubmittedRow) -> tuple[Any, ...]:
    """All that is remembered of jobs."""
    return task_shapes(job), run_rules(job), version_row(job, b"hash"), refusal(job, 100, 30_000)


def test_each_field_is_told_apart() -> None:
    assert OTHER.keys() == {*FIELDS} - LEFT_OUT
    before = {field: found(other(field)) for field in OTHER}
    for field in OTHER:
        found(plain())
        assert found(other(field)) == before[field], field


@pytest.mark.parametrize("field", OTHER)
def test_it_is_what_would_be_found_of_the_job_alone(field: str) -> None:
    found(plain())
    job = other(field)
    assert task_shapes(job) == task_shapes.__wrapped__(job)  # type: ignore[attr-defined]
    assert run_rules(job) == run_rules.__wrapped__(job)  # type: ignore[attr-defined]
    assert _rules_hold(job) == _rules_hold.__wrapped__(job)  # type: ignore[attr-defined]
    version = version_row(job, b"")
    assert version.fields.keys() - {"job_id", "pool", "command", "instances", "resources"} <= {field, *_defaults()}
    assert list(version.fields) == [name for name in FIELDS if getattr(job, name)]


def _defaults() -> set[str]:
    return {name for name in FIELDS if getattr(plain(), name)}


@pytest.mark.parametrize("field", ["job_id", "env", "labels", "owner", "stop_after_ms"])
def test_words_of_its_own_are_looked_at_in_each_job(field: str) -> None:
    assert refusal(plain(), 100, 30_000) is None
    job = other(field)
    if field == "stop_after_ms":
        job = msgspec.structs.replace(job, on_silence="stop_after")
        assert refusal(job, 100, 300_000) is None
    refused = refusal(job, 100, 30_000)
    assert refused is not None
    assert field in refused[1].replace("label ", "labels ").replace("in env", "env")
