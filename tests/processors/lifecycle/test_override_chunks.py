"""Overrides that are uploaded before the job that names them."""

from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from events.codes import Code
from events.columns import ints
from events.records.base import Event
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.lifecycle import CommandAnswered, GangsQueued, JobAccepted, JobRejected, OverridesDropped
from events.records.parts import OverrideChunk
from events.spec import overrides as spec_overrides
from events.spec.job import JobSpec
from processors.lifecycle.override_chunks import KEPT_MS
from tests.helpers.machines import of, one, ranges_of
from tests.processors.lifecycle.harness import World

BIG = {"instances": "2-3", "resources": {"cpu": 2}}
OVERRIDES = [{"instances": f"{at}", "env": {"SHARD": f"{at}"}} for at in range(6)] + [BIG]
JOBS = "paceline.jobs"


def spec(**fields: Any) -> JobSpec:
    """A job of six tasks whose overrides stand in several chunks."""
    said = {"job_id": "a", "pool": "/p", "command": ["x"], "instances": 6, "overrides": OVERRIDES, **fields}
    with patch.object(spec_overrides, "CHUNK_BYTES", 400):
        found = JobSpec.model_validate(said)
    assert len(found.chunks) > 1
    return found


def submit(world: World, wanted: JobSpec, *left_out: int) -> list[Event]:
    """Uploads all chunks but some, and submits the job."""
    for number, chunk in enumerate(wanted.chunks):
        if number not in left_out:
            world.fact(JOBS, chunk)
    return world.fact(JOBS, wanted.to_event())


def test_a_job_has_the_overrides_that_it_names() -> None:
    world = World()
    said = submit(world, spec())
    accepted = one(said, JobAccepted)
    assert [shape.resources["cpu"] for shape in accepted.shapes] == [100, 2000]
    ranges = zip(*(ints(column).tolist() for column in (accepted.first, accepted.count, accepted.shape)), strict=True)
    assert list(ranges) == [(2, 2, 1)]
    assert ranges_of(one(said, GangsQueued)) == [("a", 0, 6, 1, 0)]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_job_whose_overrides_are_not_there_is_rejected(missing: int) -> None:
    world, wanted = World(), spec()
    rejected = one(submit(world, wanted, missing), JobRejected)
    assert rejected.code == Code.OVERRIDES_MISSING
    assert f"1 of the {len(wanted.chunks)} chunks of overrides" in rejected.message
    assert wanted.to_event().chunks[missing].digest.hex() in rejected.message
    assert of(submit(world, wanted), JobAccepted), "it may be submitted again"


@pytest.mark.parametrize("content", [b"", b"no zlib", spec().chunks[0].content[:-1]])
def test_what_can_not_be_read_is_no_override(content: bytes) -> None:
    world, event = World(), spec().to_event()
    upload = OverridesUploaded(content=content)
    world.fact(JOBS, upload)
    name = spec_overrides.name_of(upload)
    said = world.fact(JOBS, msgspec.structs.replace(event, chunks=(OverrideChunk(name, 0, 6),)))
    rejected = one(said, JobRejected)
    assert (rejected.code, "can't be read" in rejected.message) == (Code.OVERRIDES_MISSING, True)


def test_a_chunk_has_overrides_of_the_instances_that_the_job_says() -> None:
    world, wanted = World(), spec()
    event = wanted.to_event()
    first = event.chunks[0]
    chunks = (OverrideChunk(first.digest, first.first, first.count - 1), *event.chunks[1:])
    for chunk in wanted.chunks:
        world.fact(JOBS, chunk)
    rejected = one(world.fact(JOBS, msgspec.structs.replace(event, chunks=chunks)), JobRejected)
    assert "chunk 0 has overrides of other instances than" in rejected.message


def test_what_no_job_names_leaves_after_an_hour() -> None:
    world, wanted = World(), spec()
    first, *others = wanted.chunks
    world.fact(JOBS, first)
    world.later(KEPT_MS // 2)
    for chunk in others:
        world.fact(JOBS, chunk)
    assert world.machine.next_wakeup() == world.now + KEPT_MS // 2
    gone = one(world.later(KEPT_MS // 2), OverridesDropped)
    assert gone.digests == (spec_overrides.name_of(first),)
    assert len(world.machine.chunks.table) == len(others)
    assert one(world.fact(JOBS, wanted.to_event()), JobRejected).code == Code.OVERRIDES_MISSING


def test_chunks_leave_by_the_time_of_the_log_though_they_came_in_another_order() -> None:
    world, (first, second, *_) = World(), spec().chunks
    world.fact(JOBS, first)
    world.now -= 1_000
    world.fact(JOBS, second)
    assert one(world.later(KEPT_MS), OverridesDropped).digests == (spec_overrides.name_of(second),)
    assert one(world.later(1_000), OverridesDropped).digests == (spec_overrides.name_of(first),)


def test_an_upload_that_comes_again_stays_longer() -> None:
    world, wanted = World(), spec()
    submit(world, wanted)
    world.later(KEPT_MS - 1)
    for chunk in wanted.chunks:
        world.fact(JOBS, chunk)
    assert of(world.later(KEPT_MS - 1), OverridesDropped) == []
    other = msgspec.structs.replace(wanted.to_event(), job_id="b")
    assert of(world.fact(JOBS, other), JobAccepted)
    assert len(one(world.later(1), OverridesDropped).digests) == len(wanted.chunks)
    assert len(world.machine.chunks.table) == 0


def test_the_same_job_again_is_a_repeat_though_its_overrides_have_left() -> None:
    world, wanted = World(), spec()
    submit(world, wanted)
    world.later(KEPT_MS)
    assert one(world.fact(JOBS, wanted.to_event()), CommandAnswered).code == Code.REPEATED


def test_equal_overrides_have_one_name_whatever_the_job() -> None:
    assert spec(job_id="b", command=["y"]).chunks == spec().chunks


def test_few_overrides_stand_in_the_job() -> None:
    few = JobSpec.model_validate({"job_id": "a", "pool": "/p", "command": ["x"], "instances": 6, "overrides": [BIG]})
    event = few.to_event()
    assert (few.chunks, event.chunks, len(event.overrides)) == ((), (), 1)
    assert isinstance(event, JobSubmitted)
