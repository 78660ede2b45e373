"""A calendar agrees with a look at the whole column, in any history."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from events.columns import I64
from processors.state.arena import Arena
from processors.state.calendar import Calendar

SLOTS = 6
JOBS, TASKS = 20, 50
CHANGES = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 5), st.booleans()), max_size=30)


@given(CHANGES, st.integers(0, 6), st.booleans())
def test_it_agrees_with_the_column(changes: list[tuple[int, int, bool]], second: int, looks: bool) -> None:
    arena = Arena("tasks", ("due", "held"))
    arena.take(SLOTS)
    calendar = Calendar(arena, "due", lambda slots: arena["held"][slots] == 0)
    for slot, at, is_held in changes:
        one: I64 = np.array([slot])
        arena.put(one, due=at, held=int(is_held))
        if at and not is_held:
            calendar.note(one)
        if looks:
            calendar.after()
        due, held = arena["due"][:SLOTS], arena["held"][:SLOTS]
        order = sorted((int(due[each]), each) for each in range(SLOTS) if due[each] and not held[each])
        assert calendar.due(second).tolist() == [each for time, each in order if time <= second]
        assert calendar.until(second).tolist() == sorted(each for time, each in order if time <= second)
        assert calendar.after(second) == next((time for time, _ in order if time > second), None)


def test_the_next_second_is_found_by_a_few_looks_however_many_slots_share_it() -> None:
    arena, looked = Arena("tasks", ("due",)), [0]

    def counts(slots: I64) -> NDArray[np.bool_]:
        looked[0] += len(slots)
        return np.ones(len(slots), dtype=np.bool_)

    calendar = Calendar(arena, "due", counts)
    for _ in range(JOBS):
        base = arena.take(TASKS)
        slots = np.arange(base, base + TASKS)
        arena.set("due", slots, 7)
        calendar.note(slots)
        assert calendar.after() == 7
    assert looked[0] == JOBS
    for first in range(0, JOBS * TASKS, TASKS):
        arena.set("due", np.arange(first, first + TASKS), 0)
        assert calendar.after() == (7 if first + TASKS < JOBS * TASKS else None)
    assert looked[0] < 2 * JOBS * TASKS


def test_a_second_that_has_passed_is_looked_at_once_where_nobody_asks_for_later_ones() -> None:
    """As in a replay: it asks what is due in each round, and never what is next."""
    arena, looked = Arena("tasks", ("due",)), [0]

    def counts(slots: I64) -> NDArray[np.bool_]:
        looked[0] += len(slots)
        return np.ones(len(slots), dtype=np.bool_)

    calendar = Calendar(arena, "due", counts)
    slots = np.arange(arena.take(TASKS), TASKS)
    for second, slot in enumerate(slots, 1):
        arena.set("due", slot[None], second)
        calendar.note(slot[None])
        assert calendar.due(second).tolist() == [slot]
        arena.set("due", slot[None], 0)
        assert calendar.due(second).tolist() == []
    assert looked[0] == 2 * TASKS
