"""The index of the runs of each host against a dictionary, and what looking up costs: entries are counted, not time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.arrays import runs_by_host
from events.arrays.runs_by_host import RunsByHost
from events.columns import I32, I64
from tests.helpers.drawn import examples

SLOTS, HOSTS = 40, 6
steps = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "end", "look", "restore"]),
        st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=8, unique=True),
        st.integers(0, HOSTS - 1),
    ),
    max_size=60,
)


class Column:
    """A column of hosts, and how many of its values were looked at through the index."""

    def __init__(self, slots: int) -> None:
        self.hosts = np.full(slots, -1, dtype=np.int32)
        self.looked_at = 0
        self.index = RunsByHost(self._host_of)

    def _host_of(self, slots: I64) -> I32:
        self.looked_at += len(slots)
        return self.hosts[slots]

    def place(self, slots: I64, hosts: I64 | int) -> None:
        self.hosts[slots] = hosts
        self.index.add(slots)

    def looking(self, *hosts: int) -> tuple[list[int], int]:
        """The runs of hosts, and how many values that took."""
        before = self.looked_at
        return self.index.of(np.array(hosts)).tolist(), self.looked_at - before


@given(steps, st.integers(0, 20))
@examples(150)
def test_the_runs_of_a_host_are_those_that_the_column_says(
    draws: list[tuple[str, list[int], int]], unsorted: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_by_host, "UNSORTED_MAX", unsorted)
        column = Column(SLOTS)
        for what, slots, host in draws:
            if what == "place":
                column.place(np.array(slots), host)
            elif what == "end":
                column.hosts[slots] = -1
            elif what == "restore":
                column.index = RunsByHost(column._host_of)
                column.index.restored(np.flatnonzero(column.hosts >= 0))
            else:
                both = [host, (host + 2) % HOSTS]
                assert column.looking(host)[0] == np.flatnonzero(column.hosts == host).tolist()
                assert column.looking(*both)[0] == np.flatnonzero(np.isin(column.hosts, both)).tolist()
        every = column.looking(*range(HOSTS))[0]
        assert every == np.flatnonzero(column.hosts >= 0).tolist()


def test_looking_up_a_host_costs_its_own_runs_and_not_those_of_others() -> None:
    for hosts in (10, 1000):
        column = Column(20 * hosts)
        for part in np.split(np.arange(20 * hosts), 10):
            column.place(part, part % hosts)
        column.looking(0)  # sorts what has come
        found, looked_at = column.looking(3)
        assert len(found) == 20
        assert looked_at <= 2 * 20


def test_placing_and_ending_for_ever_keeps_no_more_than_a_few_times_what_is_there() -> None:
    column, rounds = Column(100_000), 200
    for at in range(rounds):
        slots = np.arange(at % 20 * 5000, (at % 20 + 1) * 5000)
        column.hosts[(slots + 50_000) % 100_000] = -1
        column.place(slots, (slots + at) % 50)
    assert sum(map(len, column.index._levels)) <= 3 * 55_000
    assert column.looked_at <= 12 * rounds * 5000
