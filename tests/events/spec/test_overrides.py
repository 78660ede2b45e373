"""Overrides: what each instance of a job has in the end, as written, as a fact, and told apart by content."""

from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from events.bounds import TASK_SHAPES_MAX
from events.codec import decode, encode
from events.codes import Code
from events.columns import I64, pack_ints
from events.override_chunks import Chunks, name_of, reader
from events.records.jobs import JobSubmitted
from events.records.parts import TaskOverride
from events.resources import STANDARD
from events.spec import overrides as spec_overrides
from events.spec.job import JobSpec, from_event
from events.spec.overrides import Override
from events.spec.problems import problems
from events.task_overrides import JOB_FIELDS, instance_of, override_keys
from processors.lifecycle.override_chunks import OverrideChunks
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.shapes import task_shapes
from processors.lifecycle.updates.versions import contents, version_row
from processors.lifecycle.validation import refusal
from processors.state.record_rows import row_of

SIZE = 12
BASE = {"job_id": "a", "pool": "/p", "command": ["run"], "instances": SIZE, "env": {"A": "0"}, "labels": {"l": "0"}}
SECOND = {"seconds": {"action": "stop_after", "after": "1s"}, "keep": {"action": "keep", "after": "0ms"}}

TEXTS = st.sampled_from(["0", "1", "2"])
MAPS = st.dictionaries(st.sampled_from(["A", "B", "l"]), TEXTS, max_size=2)


@st.composite
def spans(draw: st.DrawFn) -> str:
    first = draw(st.integers(0, SIZE - 1))
    last = draw(st.integers(first, SIZE - 1))
    return f"{first}-{last}" if draw(st.booleans()) else f"{first}"


OVERRIDES = st.fixed_dictionaries(
    {"instances": st.lists(spans(), min_size=1, max_size=3).map(",".join)},
    optional={
        "command": st.sampled_from([["run"], ["other", "x"]]),
        "env": MAPS,
        "labels": MAPS,
        "resources": st.fixed_dictionaries(
            {}, optional={"cpu": st.sampled_from([1, 2]), "gpu": st.sampled_from([0, 1])}
        ),
        "ports": st.sampled_from([[], ["http"]]),
        "constraints": st.sampled_from([[], [{"attribute": "zone", "operator": "exists", "values": []}]]),
        "strategy": st.sampled_from(["pack", "spread"]),
        "stop_grace": st.sampled_from(["10s", "1s"]),
        "on_silence": st.sampled_from(list(SECOND.values())),
        "sim": st.just({"duration": "5s", "exit_code": 0, "fail_runs": 0}),
    },
)


def instances_in(text: str) -> set[int]:
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def by_hand(spec: dict[str, Any], instance: int) -> dict[str, Any]:
    """What an instance has by the rules, one override after another."""
    has = {name: value for name, value in spec.items() if name != "overrides"}
    for override in spec["overrides"]:
        if instance in instances_in(override["instances"]):
            for name, value in override.items():
                if name in ("env", "labels", "resources"):
                    has[name] = {**has[name], **value}
                elif name != "instances":
                    has[name] = value
    return has


def written(
    overrides: list[dict[str, Any]], chunk_bytes: int = spec_overrides.CHUNK_BYTES
) -> tuple[JobSubmitted, Chunks]:
    """The fact of a job, and its chunks as readers have them."""
    with patch.object(spec_overrides, "CHUNK_BYTES", chunk_bytes):
        spec = JobSpec.model_validate({**BASE, "overrides": overrides})
    event = decode(encode(spec.to_event()))
    assert isinstance(event, JobSubmitted)
    return event, reader({name_of(chunk): chunk.content for chunk in spec.chunks})


@given(overrides=st.lists(OVERRIDES, max_size=6), chunk_bytes=st.sampled_from([1, 200, 100_000]))
def test_each_instance_has_what_the_rules_say(overrides: list[dict[str, Any]], chunk_bytes: int) -> None:
    plain = from_event(JobSpec.model_validate(BASE).to_event(), STANDARD)
    event, chunk = written(overrides, chunk_bytes)
    assert not (event.overrides and event.chunks)
    keys = override_keys(event, np.arange(SIZE), chunk)
    for instance in range(SIZE):
        shown = from_event(instance_of(event, int(keys[instance]), chunk), STANDARD)
        for name in ("overrides", "overrides_of"):
            shown.pop(name, None)
        assert shown == by_hand({**plain, "overrides": overrides}, instance)


def digests_of(event: JobSubmitted) -> I64:
    return contents(version_row(row_of(SubmittedRow, event), b""), event.instances)


@given(overrides=st.lists(OVERRIDES, max_size=6))
def test_a_fact_reads_as_a_spec_with_the_same_content(overrides: list[dict[str, Any]]) -> None:
    event = JobSpec.model_validate({**BASE, "overrides": overrides}).to_event()
    again = JobSpec.model_validate(from_event(event, STANDARD)).to_event()
    assert (digests_of(again) == digests_of(event)).all()
    assert (again.overrides, again.override) == (event.overrides, event.override)


@given(overrides=st.lists(OVERRIDES, max_size=6))
def test_content_is_equal_exactly_where_runs_are_made_from_the_same(overrides: list[dict[str, Any]]) -> None:
    plain = from_event(JobSpec.model_validate(BASE).to_event(), STANDARD)
    digests = digests_of(JobSpec.model_validate({**BASE, "overrides": overrides}).to_event())
    contents = [by_hand({**plain, "overrides": overrides}, instance) for instance in range(SIZE)]
    contents = [{**each, "labels": {}, "strategy": each["strategy"] or "pack"} for each in contents]
    for one in range(SIZE):
        for other in range(one):
            assert (digests[one] == digests[other]) == (contents[one] == contents[other])


def test_every_field_of_a_job_is_known_to_be_of_its_runs_or_of_itself() -> None:
    """A new field makes this fail: add it to `JOB_FIELDS` if a run needn't end for a change of it."""
    overridden, job_wide = (
        set(TaskOverride.__struct_fields__),
        {"health", "open_files", "port_numbers", "revocable", "stop_signal"}
        | {"volumes", "isolation", "secrets", "run_token"},
    )
    of_rules = {"tolerations", "host_limit", "exclusive", "affinity", "anti_affinity", "cores", "devices", "numa"}
    assert set(JobSubmitted.__struct_fields__) == (overridden - {"labels"}) | job_wide | JOB_FIELDS | {"actor"}
    assert len(Override.model_fields.keys() - of_rules) == len(overridden - {"rules"})


@pytest.mark.parametrize(
    ("override", "pointer", "message"),
    [
        ({"instances": "x"}, "/overrides/0/instances", "must be instances such as"),
        ({"instances": "5-3"}, "/overrides/0/instances", "5-3 ends before it begins; write 3-5"),
        ({"instances": "7,12"}, "/overrides/0/instances", "names instance 12, the job has 12: 0 to 11"),
        ({"instances": "0", "comand": ["x"]}, "/overrides/0/comand", "did you mean command?"),
        ({"instances": "0", "command": []}, "/overrides/0/command", "must name a program"),
        ({"instances": "0", "ports": ["a", "a"]}, "/overrides/0/ports", "must be different names"),
        ({"instances": "0", "resources": {"cpu": 0}}, "/overrides/0/resources/cpu", "must be"),
        ({"instances": "0", "on_silence": {"action": "stop_after"}}, "/overrides/0/on_silence/after", "longer than 0"),
        (
            {"instances": "0", "labels": {f"n{number}": "" for number in range(64)}},
            "/overrides/0/labels",
            "makes 65 together with those of the job, at most 64 are allowed",
        ),
    ],
)
def test_what_is_wrong_with_an_override_is_said_where_it_is(
    override: dict[str, Any], pointer: str, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate({**BASE, "overrides": [override]})
    ((found, text),) = problems(caught.value)
    assert found == pointer
    assert message in text


def fact(overrides: tuple[TaskOverride, ...], *ranges: tuple[int, int, int], **fields: Any) -> JobSubmitted:
    first, count, override = zip(*ranges, strict=True)
    columns = {"override_first": pack_ints(first), "override_count": pack_ints(count), "override": pack_ints(override)}
    event = JobSpec.model_validate(BASE).to_event()
    return msgspec.structs.replace(event, overrides=overrides, **{**columns, **fields})


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (fact((TaskOverride(),), (0, 1, 1)), "override must be an index into the 1 overrides"),
        (fact((TaskOverride(),), (11, 2, 0)), "overrides must be of instances 0 to 11"),
        (fact((TaskOverride(),), (-1, 2, 0)), "overrides must be of instances 0 to 11"),
        (fact((TaskOverride(),), (5, 2, 0), (0, 6, 0)), "no instance may be in two ranges of overrides"),
        (fact((TaskOverride(),), (0, 1, 0), override=b""), "must have the same length"),
        (fact((TaskOverride(), TaskOverride(command=())), (0, 1, 1)), "overrides 1: command must name a program"),
        (fact((TaskOverride(env={"": "x"}),), (0, 1, 0)), "overrides 0: names in env must not be empty"),
        (fact((TaskOverride(resources={"cpu": -1}),), (0, 1, 0)), "overrides 0: resources"),
        (fact((TaskOverride(resources={"cpu": 0}),), (0, 1, 0)), "overrides 0: resources name nothing but memory"),
        (fact((TaskOverride(strategy="x"),), (0, 1, 0)), "overrides 0: strategy is 'x'"),
        (fact((TaskOverride(on_silence="stop_after", stop_after_ms=60_000),), (0, 1, 0)), "overrides 0: stop_after_ms"),
        (fact((TaskOverride(labels={"": ""}),), (0, 1, 0)), "overrides 0: label ''"),
        (fact((TaskOverride(),), (0, 1, 0), description="x" * 5000), "description has 5000 characters"),
    ],
)
def test_lifecycle_refuses_facts_that_make_no_sense(event: JobSubmitted, message: str) -> None:
    refused = refusal(row_of(SubmittedRow, event), len(encode(event)), 60_000)
    assert refused is not None
    assert refused[0] is Code.INVALID_SPEC
    assert message in refused[1]


def test_more_shapes_than_are_told_apart_are_refused() -> None:
    count = TASK_SHAPES_MAX
    overrides = tuple(TaskOverride(resources={"cpu": 1000 + number}) for number in range(count))
    ranges = [(number, 1, number) for number in range(count)]
    refused = refusal(row_of(SubmittedRow, fact(overrides, *ranges, instances=count)), 1, 60_000)
    assert refused is not None
    assert f"in {count + 1} ways, at most {count} are told apart" in refused[1]


@given(overrides=st.lists(OVERRIDES, max_size=6))
def test_lifecycle_makes_the_same_of_overrides_in_chunks(overrides: list[dict[str, Any]]) -> None:
    event, _ = written(overrides)
    with patch.object(spec_overrides, "CHUNK_BYTES", 1):
        spec = JobSpec.model_validate({**BASE, "overrides": overrides})
    chunks = OverrideChunks()
    for chunk in spec.chunks:
        chunks.uploaded(chunk, 0)
    whole = chunks.whole(row_of(SubmittedRow, spec.to_event()))
    assert isinstance(whole, SubmittedRow)
    assert (contents(version_row(whole, b""), SIZE) == digests_of(event)).all()
    assert task_shapes(whole).count == task_shapes(row_of(SubmittedRow, event)).count


def test_rules_of_single_instances_come_back_as_they_were_written() -> None:
    own = {"instances": "0", "host_limit": 0, "anti_affinity": [{"label": "app", "value": "web", "weight": 2}]}
    job = {**BASE, "host_limit": 2, "affinity": [{"label": "app", "value": "cache"}], "overrides": [own]}
    event = JobSpec.model_validate(job).to_event()
    rules = event.overrides[0].rules
    assert rules is not None
    assert rules.host_limit == 0
    assert [(each.value, each.apart, each.weight) for each in rules.affinity] == [("cache", False, 0), ("web", True, 2)]
    again = JobSpec.model_validate(from_event(event, STANDARD)).to_event()
    assert again.overrides == event.overrides


@pytest.mark.parametrize("name", ["spread", "within"])
def test_rules_about_the_whole_job_are_for_no_single_instance(name: str) -> None:
    with pytest.raises(ValidationError):
        JobSpec.model_validate({**BASE, "overrides": [{"instances": "0", name: "rack"}]})
