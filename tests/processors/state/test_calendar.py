"""A calendar agrees with a look at the whole column, in any history."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from events.columns import I64
from processors.state.arena import Arena
from processors.state.calendar import Calendar

SLOTS = 6
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
