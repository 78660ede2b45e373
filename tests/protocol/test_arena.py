"""The arena against a dictionary, through jobs that come and go and processes that take over."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from events.free_slots import Gaps
from processors.state.arena import Arena, _gaps
from processors.state.table import RowChange, State

steps = st.lists(st.tuples(st.sampled_from(["take", "give", "set", "restore"]), st.integers(0, 2000)), max_size=30)


@given(steps)
@settings(max_examples=80)
def test_an_arena_holds_what_a_dictionary_holds(draws: list[tuple[str, int]]) -> None:
    arena = Arena("tasks", ("run",))
    state = State([arena.table], [])
    rows: dict[tuple[str, bytes], bytes | None] = {}
    jobs: dict[int, int] = {}
    model: dict[int, int] = {}
    for what, number in draws:
        if what == "take":
            size = number % 700 + 1
            base = arena.take(size)
            assert all(base >= b + n or base + size <= b for b, n in jobs.items()), "stretches overlap"
            jobs[base] = size
            model |= dict.fromkeys(range(base, base + size), 0)
        elif what == "give" and jobs:
            base = sorted(jobs)[number % len(jobs)]
            size = jobs.pop(base)
            arena.give_back(base, size)
            for slot in range(base, base + size):
                del model[slot]
        elif what == "set" and jobs:
            base = sorted(jobs)[number % len(jobs)]
            slots = np.arange(base, base + jobs[base], 3)
            arena.set("run", slots, number)
            model |= dict.fromkeys(slots.tolist(), number)
        elif what == "restore":
            rows |= {(change.table, change.key): change.row for change in state.take_changes()}
            before = state.hash
            arena = Arena("tasks", ("run",))
            state = State([arena.table], [])
            state.load(RowChange(table, key, row) for (table, key), row in rows.items())
            arena.restored()
            assert state.hash == before
    for slot, run in model.items():
        assert arena["run"][slot] == run
    held = np.flatnonzero(arena["owner"])
    copy = Gaps(max(held, default=-1) + 1, _gaps(arena["owner"], max(held, default=-1) + 1))
    assert (arena._gaps.end, arena._gaps.free) == (copy.end, copy.free), "what is free follows from what is taken"
    assert held.tolist() == sorted(model)
    state.take_changes()
    assert state.rehash() == state.hash
