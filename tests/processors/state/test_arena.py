"""The arena against dictionaries, through jobs that come, grow, shrink and go, and processes that take over."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.arrays.free_slots import FreeSlots
from processors.state.arena import Arena, _gaps
from processors.state.table import RowChange, State
from tests.helpers.drawn import examples

STEPS = ("take", "give", "set", "resize", "resize", "restore")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2000)), max_size=40)


class Twin:
    """An arena, and for each job a list of what its tasks hold."""

    def __init__(self) -> None:
        self.arena = Arena("tasks", ("run",))
        self._state = State([self.arena.table], [])
        self._rows: dict[tuple[str, bytes], bytes | None] = {}
        self.jobs: dict[int, list[int]] = {}
        """By base."""
        self.moved = 0
        """Slots that were copied so far."""

    def take(self, number: int) -> int:
        size = number % 700 + 1
        base = self.arena.take(size)
        self.jobs[base] = [0] * size
        return base

    def give(self, number: int) -> None:
        base = self.some(number)
        self.arena.give_back(base, len(self.jobs.pop(base)))

    def set(self, number: int) -> None:
        base = self.some(number)
        tasks = self.jobs[base]
        self.arena.set("run", np.arange(base, base + len(tasks), 3), number)
        tasks[::3] = [number] * len(tasks[::3])

    def resize(self, number: int) -> None:
        base = self.some(number)
        size = len(self.jobs[base])
        self.set_size(base, max(0, size + number % 7 - 3) if number % 2 else number % 900)

    def set_size(self, base: int, size: int) -> int:
        tasks = self.jobs.pop(base)
        start = self.arena.resize(base, len(tasks), size)
        self.moved += len(tasks) * (start != base)
        self.jobs[start] = (tasks + [0] * size)[:size]
        return start

    def restore(self, _number: int) -> None:
        self._rows |= {(change.table, change.key): change.row for change in self._state.take_changes()}
        before = self._state.hash
        self.arena = Arena("tasks", ("run",))
        self._state = State([self.arena.table], [])
        self._state.load(RowChange(table, key, row) for (table, key), row in self._rows.items())
        self.arena.restored()
        assert self._state.hash == before

    def some(self, number: int) -> int:
        return sorted(self.jobs)[number % len(self.jobs)]

    def check(self) -> None:
        owners: dict[int, int] = {}
        for base, tasks in self.jobs.items():
            capacity = self.arena.capacity(base, len(tasks))
            assert capacity >= len(tasks)
            slots = range(base, base + capacity)
            assert not owners.keys() & slots, "stretches overlap"
            owners |= dict.fromkeys(slots, base + 1)
            run = self.arena["run"]
            assert run[base : base + capacity].tolist() == tasks + [0] * (capacity - len(tasks))
        held = np.flatnonzero(self.arena["owner"])
        assert {slot: int(self.arena["owner"][slot]) for slot in held.tolist()} == owners
        assert int(np.count_nonzero(self.arena["run"])) == sum(
            1 for tasks in self.jobs.values() for run in tasks if run
        )
        end = max(held, default=-1) + 1
        copy = FreeSlots(end, _gaps(self.arena["owner"], end))
        gaps = self.arena._gaps
        assert (gaps.end, gaps.free) == (copy.end, copy.free), "what is free follows from what is taken"
        self._state.take_changes()
        assert self._state.rehash() == self._state.hash


@given(steps)
@examples(120)
def test_an_arena_holds_what_dictionaries_hold(draws: list[tuple[str, int]]) -> None:
    twin = Twin()
    for what, number in draws:
        if twin.jobs or what in ("take", "restore"):
            getattr(twin, what)(number)
    twin.check()


@given(steps)
@examples(60)
def test_a_restored_arena_goes_on_as_one_that_was_never_restored(draws: list[tuple[str, int]]) -> None:
    live, restored = Twin(), Twin()
    for what, number in draws:
        if what == "restore" or not (live.jobs or what == "take"):
            continue
        getattr(live, what)(number)
        getattr(restored, what)(number)
        restored.restore(0)
        assert restored.jobs == live.jobs, "where a job stands depends on nothing but what is taken"
    assert [row.tobytes() for row in restored.arena.table.values()] == [
        row.tobytes() for row in live.arena.table.values()
    ]


@pytest.mark.parametrize("instances", [100, 1000, 5000])
def test_a_job_that_grows_one_by_one_moves_each_slot_a_few_times(instances: int) -> None:
    twin = Twin()
    bases = [twin.take(0), twin.take(0)]
    for size in range(2, instances + 1):  # each is in the way of the other
        bases = [twin.set_size(base, size) for base in bases]
    twin.check()
    assert twin.moved <= 2 * 3 * instances


def test_a_job_that_grows_and_shrinks_by_turns_moves_no_more_than_changes() -> None:
    twin, draw = Twin(), Random(0)
    base, changes = twin.take(500), 501
    for _ in range(2000):
        size = len(twin.jobs[base])
        wanted = max(1, size + draw.choice([-1, 1, -40, 40]))
        base, changes = twin.set_size(base, wanted), changes + abs(wanted - size)
        twin.take(0)  # takes what the job gave back, or stands behind it
    twin.check()
    assert twin.moved <= 3 * changes


def test_a_job_that_never_grows_has_no_slots_to_spare() -> None:
    twin = Twin()
    bases = [twin.take(number) for number in (0, 4, 600)]
    assert [twin.arena.capacity(base, len(twin.jobs[base])) for base in bases] == [1, 5, 601]


def test_a_job_that_shrinks_gives_its_slots_to_others() -> None:
    twin = Twin()
    base = twin.take(599)
    twin.set_size(base, 10)
    assert twin.take(584) == 15


def test_rare_columns_have_rows_where_one_is_not_0_and_move_with_their_job() -> None:
    arena = Arena("tasks", ("state",), ("since",))
    first, second = arena.take(3), arena.take(3)
    assert len(arena.rare) == 0
    arena.set("since", np.array([first + 1]), 7)
    moved = arena.resize(first, 3, 600)
    assert moved != first
    assert arena["since"][moved + 1] == 7
    assert {number for number, row in arena.rare.items() if row.any()} == {*arena.rare}
    restored = Arena("tasks", ("state",), ("since",))
    for table, copy in ((arena.table, restored.table), (arena.rare, restored.rare)):
        for number, row in table.items():
            copy.put(number, row.copy())
    restored.restored()
    assert restored["since"][moved + 1] == 7
    arena.give_back(moved, 600)
    assert len(arena.rare) == 0
    assert arena["owner"][second] == second + 1
