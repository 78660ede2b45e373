"""Shapes are kept once, counted, dropped when no task has them, and numbered alike after a restore."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from events.columns import pack_ints
from events.records.lifecycle import JobAccepted
from events.records.parts import Constraint, ResourceKind, TaskShape
from events.resources import STANDARD_KINDS, Kinds
from events.task_shapes import shape_index, shape_of
from processors.state.arena import Arena
from processors.state.shapes import Shape, Shapes, shapes_of
from processors.state.table import RowChange, State
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed, shaped

SMALL, LARGE = TaskShape({"cpu": 1}), TaskShape({"cpu": 4, "gpu": 1000}, 1, (), "spread")


def job(**fields: object) -> JobAccepted:
    return JobAccepted(job_id="j", jobs_offset=0, pool="/p", kind="batch", **fields)


class Both:
    """A table of shapes that goes on, and one that is restored from its rows at each step."""

    def __init__(self) -> None:
        self.live = Shapes()
        self._state = State([self.live.table], ())
        self._rows: dict[bytes, bytes] = {}

    def restored(self) -> Shapes:
        for table, key, row in self._state.take_changes():
            if table == "shapes" and row is None:
                self._rows.pop(key, None)
            elif table == "shapes":
                self._rows[key] = row
        copy = Shapes()
        State([copy.table], ()).load(RowChange("shapes", key, row) for key, row in sorted(self._rows.items()))
        copy.restored()
        assert self._state.rehash() == self._state.hash
        return copy


@seeds(20, 5)
def test_numbers_and_counts_are_those_of_a_naive_table_whoever_gives_them(seed: int) -> None:
    draw, both = Random(seed), Both()
    naive: dict[int, Shape] = {}
    tasks: Counter[int] = Counter()
    for _ in range(300):
        if draw.random() < 0.55 or not naive:
            shape, count = Shape((draw.randint(0, 7), 0, 0, 0), ports=draw.randint(0, 1)), draw.randint(1, 3)
            number = next((at for at, known in naive.items() if known == shape), None)
            if number is None:
                number = next(at for at in range(1000) if at not in naive)
            naive[number] = shape
            tasks[number] += count
            assert both.restored().take(shape, count) == number
            assert both.live.take(shape, count) == number
        else:
            number = draw.choice(sorted(naive))
            count = draw.randint(1, tasks[number])
            tasks[number] -= count
            if not tasks[number]:
                del naive[number], tasks[number]
            both.live.give_back(number, count)
        for shapes in (both.live, both.restored()):
            assert {at: (row.shape, row.tasks) for at, row in shapes.table.items()} == {
                at: (naive[at], tasks[at]) for at in naive
            }


def test_equal_jobs_share_one_shape_that_goes_with_the_last_of_them() -> None:
    arena, shapes = Arena("tasks", ("shape", "ended")), Shapes()
    event = job(instances=3, **shaped({"cpu": 1}))
    asked = shapes_of(event, STANDARD_KINDS.vector)
    bases = [arena.take(3) for _ in range(2)]
    numbers = [shapes.take_job(arena, base, event, asked) for base in bases]
    assert numbers == [{0: 3}, {0: 3}]
    assert [row.tasks for row in shapes.table.values()] == [6]
    for tasks in numbers:
        shapes.give_back_job(tasks)
    assert not len(shapes.table)


def test_each_task_of_a_job_of_several_shapes_has_its_own_in_the_column() -> None:
    arena, shapes = Arena("tasks", ("shape", "ended")), Shapes()
    event = job(**mixed((1, LARGE), (4, SMALL), (1, LARGE)))
    base = arena.take(event.instances)
    tasks = shapes.take_job(arena, base, event, shapes_of(event, STANDARD_KINDS.vector))
    assert sorted(tasks.values()) == [2, 4]
    assert [shapes[number].need[0] for number in arena["shape"][:6].tolist()] == [4, 1, 1, 1, 1, 4]
    assert sorted(row.tasks for row in shapes.table.values()) == [2, 4]
    shapes.give_back_job(tasks)
    assert not len(shapes.table)


def test_a_job_whose_shapes_are_all_equal_is_a_job_of_equal_tasks() -> None:
    arena, shapes = Arena("tasks", ("shape", "ended")), Shapes()
    event = job(**mixed((1, SMALL), (2, TaskShape({"cpu": 1, "memory": 0}))))
    assert shapes.take_job(arena, arena.take(3), event, shapes_of(event, STANDARD_KINDS.vector)) == {0: 3}


def test_tasks_that_no_range_names_have_the_first_shape_and_ranges_that_make_no_sense_name_none() -> None:
    columns = {"first": [1, -1, 0, 2], "count": [1, 2, 2, 9], "shape": [1, 1, 7, 1]}
    event = job(instances=4, shapes=(SMALL, LARGE), **{name: pack_ints(values) for name, values in columns.items()})
    assert shape_index(event).tolist() == [0, 1, 1, 1]
    assert [shape_of(event, instance) for instance in range(4)] == [SMALL, LARGE, LARGE, LARGE]
    assert shape_of(job(instances=2, shapes=(SMALL,)), 1) == SMALL


@pytest.mark.parametrize("need", [{"fpga": 1}, {"cpu": 1 << 62}, {"cpu": -1}, {"cpu": 1 << 70}])
def test_a_job_that_nobody_would_accept_has_no_shapes(need: dict[str, int]) -> None:
    assert shapes_of(job(instances=1, **shaped(need)), STANDARD_KINDS.vector) == []


def test_shapes_keep_their_numbers_when_the_cell_gets_more_kinds() -> None:
    both = Both()
    before = [Shape((cpu, 0, 0, 0), 1, (), 1) for cpu in range(3)]
    numbers = [both.live.take(shape, 1) for shape in before]
    both.live.give_back(numbers[0], 1)
    kinds = Kinds([ResourceKind("fpga")])
    both.live.widen(kinds)
    for shapes in (both.live, both.restored()):
        assert shapes[numbers[1]].need == (1, 0, 0, 0, 0)
        assert shapes.take(Shape((2, 0, 0, 0, 0), 1, (), 1), 1) == numbers[2]
        assert shapes.take(Shape((2, 0, 0, 0, 5), 1, (), 1), 1) == numbers[0]


def test_shapes_differ_by_all_that_placement_asks_of_a_host() -> None:
    shapes = Shapes()
    rack = (Constraint("rack", "in", ("r",)),)
    events = [TaskShape({"cpu": 1}, *rest) for rest in ((), (1,), (0, rack), (0, (), "spread"))]
    [*asked] = shapes_of(job(instances=4, shapes=tuple(events)), STANDARD_KINDS.vector)
    assert [shapes.take(shape, 1) for shape in asked] == [0, 1, 2, 3]


def test_a_job_of_equal_tasks_writes_no_more_rows_however_many_it_has() -> None:
    arena, shapes = Arena("tasks", ("shape", "ended")), Shapes()
    event = job(instances=512, **shaped({"cpu": 1}))
    shapes.take_job(arena, arena.take(512), event, shapes_of(event, STANDARD_KINDS.vector))
    assert len(shapes.table.take_changes()[0]) == len(arena.table.take_changes()[0]) == 1
    assert np.all(arena["shape"][:512] == 0)
