"""What led to a decision is read alike from all forms in which decisions carry it."""

import json
from pathlib import Path

import pytest

from events.causes import NOTHING, carried_causes
from events.records import BY_NAME
from events.records.lifecycle import CommandAnswered, JobHeld, PreemptionAnswered, RunsEnded, RunsStopping
from events.records.parts import Cause
from events.records.placement import CapacityChanged
from events.records.sla import DisruptionAllowed
from events.topics import FACTS
from tests.schemas.test_schemas import FILES

FIRST, SECOND = Cause(topic="paceline.hosts", offset=4), Cause(machine="placement", round=3, index=1)
DUE = Cause(due_ms=7)


def test_one_cause_several_and_the_fact_that_is_answered_are_read_alike() -> None:
    assert carried_causes(JobHeld(job_id="a", held=True, cause=DUE)) == (DUE,)
    assert carried_causes(JobHeld(job_id="a", held=True)) == ()
    capacity = CapacityChanged(capacity={}, largest={}, hosts=0, version=1, causes=(FIRST, SECOND))
    assert carried_causes(capacity) == (FIRST, SECOND)
    answer = CommandAnswered(job_id="a", command_id="1", jobs_offset=0, code="DONE", message="")
    assert carried_causes(answer) == (Cause(topic="paceline.jobs", offset=0),)
    runs = {"job_ids": ("a",), "job": (0,), "instance": (0,), "run": (1,)}
    answered = PreemptionAnswered.pack(**runs, number=1, order=SECOND, code="STOPPED", victims=1)  # type: ignore[arg-type]
    assert carried_causes(answered) == (SECOND,)


def test_each_run_has_its_own_cause_or_that_of_its_job_or_none() -> None:
    runs = {"job_ids": ("a", "b"), "job": (0, 1, 1), "instance": (0, 0, 1), "run": (1, 1, 1)}
    ends = {"outcome": (5, 5, 1), "exit_code": (0, 0, 0), "kept": (0, 0, 0)}
    ended = RunsEnded.pack(**runs, **ends, causes=(FIRST, SECOND), cause=(1, 0, -1))  # type: ignore[arg-type]
    assert [carried_causes(ended, row) for row in (0, 1, 2, None)] == [(SECOND,), (FIRST,), (), (FIRST, SECOND)]
    none = RunsEnded.pack(**runs, **ends)  # type: ignore[arg-type]
    assert carried_causes(none) == carried_causes(none, 1) == ()
    allowed = DisruptionAllowed.pack(**runs, causes=(NOTHING, SECOND))  # type: ignore[arg-type]
    assert [carried_causes(allowed, row) for row in (0, 1, 2, None)] == [(), (SECOND,), (SECOND,), (SECOND,)]


def test_the_outcome_that_a_stop_gives_is_no_cause() -> None:
    stopping = RunsStopping.pack(
        job_ids=("a",), job=(0,), instance=(0,), run=(1,), host_ids=("h",), host=(0,), cause=(3,)
    )
    assert carried_causes(stopping) == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_schema_says_of_causes_names_columns_topics_and_records_that_there_are(path: Path) -> None:
    fields = {field["name"]: field for field in json.loads(path.read_text())["fields"]}
    for name, field in fields.items():
        assert "column" in fields[field.get("each", name)] or "each" not in field
        assert "cause_in" not in field or field["cause_in"] in FACTS
        assert {*field.get("newest_unless", ())} <= BY_NAME.keys()
        assert name in BY_NAME[path.stem].cause_fields or not field.keys() & {"each", "cause_in", "newest_unless"}
