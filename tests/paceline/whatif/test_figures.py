"""Figures, each against a twin that looks at every millisecond."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Outcome
from events.resources import Unit
from paceline.whatif.figures import Figure, Group, Measured
from paceline.whatif.run_table import NEVER, Job, RunTable
from tests.helpers.drawn import examples

FROM_MS, TO_MS, LAST_MS = 40, 100, 140
UNITS = {"cpu": Unit.MILLI, "memory": Unit.MIB, "gpu": Unit.MILLI, "gpu_memory": Unit.MIB, "gpu/t4": Unit.MILLI}


class DrawnRun(NamedTuple):
    """A run; NEVER: that hasn't happened."""

    began_ms: int
    over_ms: int
    outcome: int


class DrawnJob(NamedTuple):
    """A job."""

    pool: str
    owner: str
    kind: str
    submitted_ms: int
    resources: Mapping[str, int]
    runs: list[DrawnRun]


TIMES = st.integers(0, LAST_MS)
OUTCOMES = st.sampled_from([Outcome.PREEMPTED, Outcome.SUCCEEDED, Outcome.FAILED])
RUNS = st.tuples(TIMES, TIMES | st.just(NEVER), OUTCOMES).map(
    lambda drawn: DrawnRun(drawn[0], drawn[1] if drawn[1] == NEVER else max(drawn[:2]), int(drawn[2]))
) | st.just(DrawnRun(NEVER, NEVER, 0))
JOBS = st.builds(
    DrawnJob,
    st.sampled_from(["/a", "/a/x", "/b"]),
    st.sampled_from(["ann", "bob", ""]),
    st.sampled_from(["batch", "batch", "service"]),
    st.integers(0, LAST_MS),
    st.dictionaries(st.sampled_from([*UNITS]), st.integers(1, 4000)),
    st.lists(RUNS, max_size=3),
)


def table_of(jobs: list[DrawnJob]) -> RunTable:
    """The table of drawn jobs, all runs of each those of one task."""
    table = RunTable()
    for number, job in enumerate(jobs):
        job_id = str(number)
        table.jobs[job_id] = Job(
            job_id, job.pool, job.kind, job.owner, job.submitted_ms, 1, 0, 0, dict(job.resources)
        )  # fmt: skip
        for count, run in enumerate(job.runs, 1):
            row = table.add((job_id, 0, count), "h1", 0)
            for name, value in run._asdict().items():
                table.column(name)[row] = value
    return table


def by_resource(jobs: list[DrawnJob]) -> dict[Group, dict[Figure, float]]:
    """The figures by resource, millisecond by millisecond."""
    sums: dict[Group, dict[Figure, float]] = defaultdict(lambda: {("use", "cpu"): 0.0, ("lost_work", "cpu"): 0.0})
    for job in jobs:
        if job.kind != "batch" or job.submitted_ms >= TO_MS:
            continue
        groups = [("pool", "/a")] if job.pool == "/a/x" else []
        groups += [("pool", job.pool), ("cell", "")] + ([("owner", job.owner)] if job.owner else [])
        for group in groups:
            figures = sums[group]
            for name, amount in job.resources.items():
                size = amount if UNITS[name] is Unit.MIB else amount / 1000
                used = lost = 0.0
                for run in job.runs:
                    if run.began_ms == NEVER:
                        continue
                    for ms in range(LAST_MS + 1):
                        if run.began_ms <= ms and (run.over_ms == NEVER or ms < run.over_ms):
                            used += size / (TO_MS - FROM_MS) if FROM_MS <= ms < TO_MS else 0
                            is_lost = run.outcome == Outcome.PREEMPTED and FROM_MS <= run.over_ms < TO_MS
                            lost += size / 1000 if is_lost else 0
                for figure, value in (("use", used), ("lost_work", lost)):
                    figures[figure, name] = figures.get((figure, name), 0.0) + value
    return sums


@examples(300, 60)
@given(st.lists(JOBS, max_size=6))
def test_use_and_lost_work_are_those_of_every_millisecond_by_resource(jobs):
    figures = Measured(table_of(jobs), FROM_MS, TO_MS, UNITS).figures
    found = {
        group: {figure: value for figure, value in numbers.items() if figure[0] in ("use", "lost_work")}
        for group, numbers in figures.items()
    }
    expected = by_resource(jobs)
    assert found.keys() == expected.keys()
    for group, numbers in expected.items():
        assert found[group] == pytest.approx(numbers), group
