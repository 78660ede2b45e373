"""The runs that a record names, asked by columns, are those that one by one would be found."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from events.records.lifecycle import InstancesChanged, InstancesWanted, JobAccepted, JobHeld
from events.records.placement import MatchingHostsChanged
from projections.views.cause_ties import windows
from projections.views.mentions import NamedRuns, Window, mentioned
from tests.projections.queries.test_story import example

JOBS = ("a", "b", "a")
ROW = st.tuples(st.integers(-1, 3), st.integers(0, 3), st.integers(0, 2), st.integers(1, 3))


@given(rows=st.lists(ROW, max_size=12), instance=st.integers(0, 3), more=st.integers(0, 2), number=st.integers(1, 3))
def test_columns_name_what_the_rows_name(rows: list[tuple[int, ...]], instance: int, more: int, number: int) -> None:
    job, first, count, run = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    named = NamedRuns(JOBS, job, first, first + count - 1, run, run)
    each = [
        ((JOBS[job], at, run), row)
        for row, (job, first, count, run) in enumerate(rows)
        for at in range(first, first + count)
        if 0 <= job < len(JOBS)
    ]
    assert [*named.each()] == each
    assert [*named] == [found for found, _ in each]
    for job_id in ("a", "b", "c"):
        wanted = (job_id, instance, number)
        assert named.row(wanted) == next((row for found, row in each if found == wanted), None)
        window = Window(instance, instance + more, number, number)
        assert {*named.rows(job_id, window).tolist()} == {
            row
            for (name, at, run), row in each
            if (name, run) == (job_id, number) and at in range(instance, instance + more + 1)
        }


@given(rows=st.lists(ROW, max_size=12))
def test_windows_hold_the_least_and_the_greatest_of_each_job(rows: list[tuple[int, ...]]) -> None:
    job, first, count, run = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    found = NamedRuns(JOBS[:2], job, first, first + count, run, run).windows()
    of_job = {at: [row for row in rows if row[0] == at] for at in (0, 1)}
    assert found == {
        JOBS[at]: Window(
            min(first for _, first, _, _ in mine),
            max(first + count for _, first, count, _ in mine),
            min(run for *_, run in mine),
            max(run for *_, run in mine),
        )
        for at, mine in of_job.items()
        if mine
    }


def test_records_of_whole_jobs_name_all_instances_and_what_leads_to_nothing_names_none() -> None:
    whole = Window()
    stop, start = (InstancesWanted.pack(job_id="a", wanted=wanted, first=(), count=()) for wanted in (False, True))
    assert windows(stop) == {"a": whole}
    assert windows(start) == {}
    ranges = InstancesWanted.pack(job_id="a", wanted=False, first=(2, 9), count=(2, 1))
    assert windows(ranges) == {"a": Window(2, 9)}
    assert mentioned(ranges).row(("a", 3, 7)) == 0
    assert mentioned(ranges).row(("a", 5, 7)) is None
    assert [windows(JobHeld(job_id="a", held=held)) for held in (True, False)] == [{"a": whole}, {}]
    accepted: Any = example(JobAccepted)
    changed: Any = example(InstancesChanged)
    assert windows(accepted)[accepted.job_id][2:] == (accepted.first_run, accepted.first_run)
    assert all(window[2:] == (changed.first_run, changed.first_run) for window in windows(changed).values())


def test_hosts_that_no_longer_match_a_daemon_name_all_of_it() -> None:
    changed = MatchingHostsChanged.pack(
        job_ids=("stays", "leaves"),
        host_ids=("h",),
        host_session=(1,),
        job=(0, 1),
        host=(0, 0),
        matches=(1, 0),
    )
    assert windows(changed) == {"leaves": Window()}
    assert mentioned(changed).row(("leaves", 3, 2)) == 0
