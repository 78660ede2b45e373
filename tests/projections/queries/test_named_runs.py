"""The runs that a record names, asked by columns, are those that one by one would be found."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from projections.queries.named_runs import NamedRuns

JOBS = ("a", "b", "a")
ROW = st.tuples(st.integers(-1, 3), st.integers(0, 3), st.integers(1, 3))


@given(rows=st.lists(ROW, max_size=12), instance=st.integers(0, 3), number=st.integers(1, 3))
def test_columns_name_what_the_rows_name(rows, instance, number):
    job, at, run = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    named = NamedRuns(JOBS, job, at, run)
    each = [(JOBS[job], at, run) for job, at, run in rows if 0 <= job < len(JOBS)]
    assert [*named] == each
    for job_id in ("a", "b", "c"):
        wanted = (job_id, instance, number)
        assert named.where(wanted) == [place for place, found in enumerate(each) if found == wanted]
        assert (wanted in named) == (wanted in each)
        assert named.names_one_of(job_id, instance, number) == any(
            found[0] == job_id and found[1] < instance and found[2] == number for found in each
        )
        assert named.names_one_of(job_id, instance) == any(found[0] == job_id and found[1] < instance for found in each)
