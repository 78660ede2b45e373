"""Deadlines agree with a naive list of times, in any history."""

from hypothesis import given
from hypothesis import strategies as st

from processors.state.deadlines import Deadlines, earliest

TIMES = st.integers(0, 12)
KEYS = st.sampled_from(["a", "b", "/c", ""])
CHANGES = st.lists(st.tuples(KEYS, st.none() | TIMES), max_size=30)


@given(CHANGES, TIMES, TIMES)
def test_they_agree_with_a_list_of_times(changes: list[tuple[str, int | None]], after: int, until: int) -> None:
    deadlines, naive = Deadlines[str](), dict[str, int]()
    for key, at in changes:
        if at is None and len(naive) % 2:
            deadlines.clear(key)
        else:
            deadlines.set(key, at)
        naive.pop(key, None)
        if at is not None:
            naive[key] = at
        order = sorted((time, each) for each, time in naive.items())
        assert [deadlines.get(each) for each in naive] == [*naive.values()]
        assert len(deadlines) == len(naive)
        assert deadlines.first() == (order[0][0] if order else None)
        assert deadlines.first(after) == next((time for time, _ in order if time > after), None)
        assert [*deadlines.upcoming(after)] == [each for each in order if each[0] > after]
        assert deadlines.due(until) == [each for time, each in order if time <= until]
        assert deadlines.due(until, after) == [each for time, each in order if after < time <= until]


@given(CHANGES)
def test_a_restored_index_is_that_of_one_that_ran_on(changes: list[tuple[str, int | None]]) -> None:
    deadlines, restored = Deadlines[str](), Deadlines[str]()
    for key, at in changes:
        deadlines.set(key, at)
    restored.set("gone", 1)
    rows = {key: at for key in ("", "b", "a", "/c") if (at := deadlines.get(key)) is not None}
    restored.restore(rows.items())
    assert [*restored.upcoming(-1)] == [*deadlines.upcoming(-1)]
    assert restored.due(100) == deadlines.due(100)


def test_keys_of_one_time_stand_in_their_order() -> None:
    deadlines = Deadlines[tuple[str, int]]()
    for key in (("b", 1), ("a", 10), ("a", 9)):
        deadlines.set(key, 5)
    assert deadlines.due(5) == [("a", 9), ("a", 10), ("b", 1)]


def test_the_first_of_times_is_none_where_there_is_none() -> None:
    assert earliest(None, 7, 3) == 3
    assert earliest(None) is None
