"""The answer: jobs, preemptions by pair of pools, answers that differ and numbers of pools over time, each against what
the logs say in the plainest way.
"""

from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from events.codec import decode
from events.log.port import Log
from events.records.entitlement import EntitlementsSet, PreemptionsOrdered
from events.records.jobs import JobSubmitted
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.topics import rounds_of
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import START_MS
from paceline.whatif.branch import Change
from paceline.whatif.change_file import read_change, with_file
from paceline.whatif.compare import Comparison, compare
from paceline.whatif.decided import MEANINGS, POINTS, PoolSeries, decided_in
from paceline.whatif.settings import change_of, read_setting
from paceline.whatif.stretch import Stretch, read_stretch
from tests.helpers.drawn import examples
from tests.paceline.whatif.recorded import THREE_TEAMS, recording

FROM_MS = START_MS + 180_000
EVENTS = [
    {"at": "200s", "stop": "b-06"},
    {"at": "300s", "priority": {"job_id": "b-12", "priority": 3}},
    {"at": "300s", "stop": "b-09"},
]


@pytest.fixture(scope="module")
def stretch() -> Stretch:
    """The recording of a cell that preempts soon, and in which jobs are stopped."""
    body: dict[str, Any] = yaml.safe_load(THREE_TEAMS.read_text())
    body |= {"cell": {"preemption_delay": "5s"}, "events": EVENTS}
    log, end_ms = recording(Scenario.model_validate(body))
    return read_stretch(log, FROM_MS, end_ms)


def asked(stretch: Stretch, *settings: str) -> Comparison:
    """One pair, without jitter: what is the same in it isn't by chance."""
    change = change_of(stretch, [read_setting(each) for each in settings], {})
    return compare(stretch, change, pairs=1, seed=1, jitter_ms=0)


@pytest.fixture(scope="module")
def fewer(stretch) -> Comparison:
    """The pool that is full takes no more than two jobs."""
    return asked(stretch, "/b:open_jobs_max=2")


def decisions(log: Log, stretch: Stretch) -> list[tuple[int, Any]]:
    """What entitlement decided in the stretch, each with its time."""
    records = (decode(record.value) for record in log.scan(rounds_of("entitlement"), 0))
    rounds = (each for each in records if isinstance(each, RoundCommitted) and each.now >= stretch.from_ms)
    return [(each.now, decision) for each in rounds for decision in decode_decisions(each)]


def test_without_a_change_all_three_sides_are_alike(stretch):
    done = compare(stretch, Change(), pairs=1, seed=1, jitter_ms=0)
    assert done.preemptions
    assert all(each.recorded == each.again == each.changed for each in done.preemptions)
    assert not done.answers
    assert not done.jobs
    assert all(each.recorded == each.again == each.changed for each in done.effects)
    for recorded, again, changed in done.lines.values():
        assert np.allclose(recorded, again)
        assert np.allclose(recorded, changed)


def test_preemptions_are_counted_by_the_pool_that_loses_and_the_one_that_gains(stretch):
    done = asked(stretch, "/b:share=3")
    counts: dict[tuple[str, str], int] = {}
    for _, event in decisions(stretch.log, stretch):
        if isinstance(event, PreemptionsOrdered):
            for at in event.from_pool_array.tolist():
                pair = event.from_pools[at], event.for_pool
                counts[pair] = counts.get(pair, 0) + 1
    assert {(each.from_pool, each.for_pool): each.recorded for each in done.preemptions if each.recorded} == counts
    assert {(each.from_pool, each.for_pool): each.again for each in done.preemptions if each.again} == counts
    assert {(each.from_pool, each.for_pool): each.changed for each in done.preemptions} != counts


def test_answers_that_differ_are_told_with_both_codes(fewer, stretch):
    codes = {(each.kind, each.subject): (each.recorded, each.again, each.changed) for each in fewer.answers}
    late = [fact.event.job_id for fact in stretch.facts if isinstance(fact.event, JobSubmitted)]
    refused = [("JobSubmitted", job_id) for job_id in late if job_id.startswith("b-")]
    assert len(refused) > 5
    assert {codes[key] for key in refused} == {("ACCEPTED", "ACCEPTED", "OPEN_JOBS_MAX")}
    assert codes["JobStopRequested", "b-09"] == ("DONE", "DONE", "NOT_FOUND")
    assert ("JobStopRequested", "b-06") not in codes
    assert all(each.share == 1 for each in fewer.answers)


def test_a_change_that_is_refused_is_told_as_one(stretch, tmp_path):
    path = tmp_path / "change.yaml"
    path.write_text("hosts: [{name: new, host_pool: none-such, resources: {cpu: 4}}]")
    done = compare(stretch, with_file(stretch, Change(), read_change(path)), pairs=1, seed=1, jitter_ms=0)
    assert [(each.kind, each.subject, each.recorded, each.changed) for each in done.answers] == [
        ("HostPoolAssigned", "new-1", "", "NOT_FOUND")
    ]


def test_jobs_are_those_whose_wait_changes_most(stretch, fewer):
    sizes = [abs(each.effect) for each in fewer.jobs]
    assert sizes == sorted(sizes, reverse=True)
    assert len(fewer.jobs) <= 20
    waits = {job.job_id: job for job in stretch.runs.jobs.values()}
    for each in fewer.jobs:
        job = waits[each.job_id]
        assert (each.pool, each.owner) == (job.pool, job.owner)
        assert each.recorded == (job.began_ms - job.submitted_ms) / 1000


def test_numbers_of_pools_are_means_over_time(stretch):
    log = stretch.log
    table: dict[tuple[str, str], list[tuple[int, tuple[int, ...]]]] = {}
    for now, event in decisions(log, stretch):
        if isinstance(event, EntitlementsSet):
            arrays = [getattr(event, f"{meaning}_array") for meaning in MEANINGS]
            for row, pool in enumerate(event.pools):
                for column, resource in enumerate(event.resources):
                    numbers = tuple(int(array[row, column]) for array in arrays)
                    table.setdefault((pool, resource), []).append((now, numbers))
    lines = decided_in(stretch).series.values
    step = (stretch.to_ms - stretch.from_ms) / POINTS
    for key in (("/a", "cpu"), ("/b", "memory")):
        for point in range(5, POINTS, 17):
            times = np.linspace(
                stretch.from_ms + point * step, stretch.from_ms + (point + 1) * step, 400, endpoint=False
            )
            each = [[row for at, row in table[key] if at <= time] for time in times]
            if not all(each):
                continue  # what it was at the start isn't among these decisions
            mean = np.mean([rows[-1] for rows in each], axis=0)
            assert np.allclose(lines[key][:, point], mean, rtol=0.02, atol=20)


@examples(200, 50)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9)), max_size=12))
def test_a_series_has_the_mean_of_each_part(changes):
    changes = [(0, 0), *sorted(changes, key=lambda change: change[0])]
    series = PoolSeries(200, 800)
    for at_ms, value in changes:
        series.set("/a", {"cpu": (value, 2 * value, 1)}, at_ms)
    series.finish()
    every = [[value for at_ms, value in changes if at_ms <= ms][-1] for ms in range(200, 800)]
    means = np.array(every).reshape(POINTS, -1).mean(axis=1)
    assert np.allclose(series.values["/a", "cpu"], [means, 2 * means, np.ones(POINTS)])
