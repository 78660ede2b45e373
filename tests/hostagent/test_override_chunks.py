"""Overrides in chunks, as the gateway keeps them and hands them to hosts."""

from unittest.mock import patch

import numpy as np

from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobAccepted, JobChanged, OverridesDropped
from events.records.parts import TaskShape
from events.spec import overrides as spec_overrides
from events.spec.job import JobSpec
from hostagent.gateway.desired_runs import DesiredRuns
from hostagent.messages import line
from tests.hostagent.cell import ordered


def spec(job_id: str = "j", shift: int = 0) -> JobSpec:
    overrides = [{"instances": f"{at}", "env": {"SHARD": f"{at + shift}"}} for at in range(5)]
    overrides.append({"instances": "4", "command": ["other"]})
    said = {"job_id": job_id, "pool": "/p", "command": ["x"], "instances": 6, "overrides": overrides}
    with patch.object(spec_overrides, "CHUNK_BYTES", 300):
        return JobSpec.model_validate(said)


def accept(runs: DesiredRuns, offset: int, job: JobSubmitted) -> None:
    runs.asked(offset, job)
    shapes = (TaskShape({}),)
    runs.take(JobAccepted(job_id=job.job_id, jobs_offset=offset, pool="/p", kind="batch", instances=6, shapes=shapes))


def started(runs: DesiredRuns) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """What each instance is started with, by what all hosts are told."""
    hosts = [runs.host("h1")]
    told = line(runs.orders(1, True, hosts, runs.all_orders(hosts)))
    items = sorted(told.items, key=lambda item: item.instance)
    return [(told.jobs[item.job].command, told.jobs[item.job].env) for item in items]


def test_each_task_is_started_with_its_own_override_also_after_a_restart() -> None:
    runs, wanted = DesiredRuns(), spec()
    for chunk in wanted.chunks:
        runs.asked(-1, chunk)
    accept(runs, 0, wanted.to_event())
    runs.take(ordered([("j", instance, 1) for instance in range(6)], ["h1"] * 6))
    own = [(("x",), {"SHARD": f"{at}"}) for at in range(4)]
    expected = [*own, (("other",), {"SHARD": "4"}), (("x",), {})]
    assert started(runs) == expected
    restored = DesiredRuns()
    restored.load(runs.dump())
    assert started(restored) == expected


def test_chunks_are_kept_while_a_job_has_them_or_one_to_come_may_name_them() -> None:
    runs, first, second = DesiredRuns(), spec(), spec("k", shift=100)
    uploads = (*first.chunks, *second.chunks)
    for chunk in uploads:
        runs.asked(-1, chunk)

    def held() -> int:
        return len(runs.dump()["specifications"]["chunks"])

    accept(runs, 0, first.to_event())
    assert held() == len(uploads)
    runs.take(OverridesDropped(digests=tuple(spec_overrides.name_of(chunk) for chunk in uploads)))
    assert held() == len(first.chunks), "nobody has named the others"
    runs.take(ordered([("j", 0, 1)], ["h1"]))
    assert started(runs) == [(("x",), {"SHARD": "0"})]
    runs.take(JobChanged(job_id="j", state="SUCCEEDED"))
    assert held() == 0


def test_a_job_that_ends_leaves_chunks_that_another_one_has() -> None:
    runs, wanted = DesiredRuns(), spec()
    for chunk in wanted.chunks:
        runs.asked(-1, chunk)
    accept(runs, 0, wanted.to_event())
    accept(runs, 1, spec("k").to_event())
    runs.take(OverridesDropped(digests=tuple(map(spec_overrides.name_of, wanted.chunks))))
    runs.take(JobChanged(job_id="j", state="SUCCEEDED"))
    runs.take(ordered([("k", 2, 1)], ["h1"]))
    assert started(runs) == [(("x",), {"SHARD": "2"})]
    assert np.count_nonzero([runs.runs(number) for number in range(len(runs.host_ids))]) == 1
