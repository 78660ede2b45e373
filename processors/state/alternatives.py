"""Tasks with alternatives: what they ask while they wait, and what once a place has been found for one (decision 110).

A waiting task asks for any; where it has a place its shape is that of the alternative which it took.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from events.columns import I32, I64
from events.resources import Vector
from processors.state.arena import Arena
from processors.state.record_rows import AlternativeRow
from processors.state.shapes import Shape, Shapes

ToVector = Callable[[Mapping[str, int]], Vector]
NONE = -1


def alternatives_of(shape: Shape) -> tuple[AlternativeRow, ...]:
    """The alternatives of tasks of a shape that wait; none where there is one request, or one was taken."""
    return shape.rules.alternatives if shape.rules is not None and shape.rules.took == NONE else ()


def with_alternative(shape: Shape, number: int, vector: ToVector) -> Shape:
    """The shape of a task that has taken an alternative."""
    assert shape.rules is not None
    each = shape.rules.alternatives[number]
    rules = replace(
        shape.rules, devices=each.devices, devices_within=each.devices_within, cores=each.cores, took=number
    )
    return replace(shape, need=vector(each.amounts()), rules=rules)


def as_alternative(shape: Shape, number: int, vector: ToVector) -> Shape:
    """The shape that tasks which wait have by an alternative, or by their last one if they have no more than that."""
    last = len(alternatives_of(shape)) - 1
    return shape if last < 0 or number == NONE else with_alternative(shape, min(number, last), vector)


def most_of(needs: Sequence[Vector], tasks: int, may_fit: Callable[[Vector, int], bool]) -> Vector:
    """The most of each kind that one of these needs asks, of those of which hosts could hold so many tasks at all;
    where they could hold none, of all.
    """
    possible = [need for need in needs if may_fit(need, tasks)]
    return tuple(map(max, zip(*(possible or needs), strict=True)))


def waiting_again(shape: Shape, vector: ToVector) -> Shape:
    """The shape of a task that waits again and may take any alternative; it needs what the first one does."""
    first = with_alternative(shape, 0, vector)
    assert first.rules is not None
    return replace(first, rules=replace(first.rules, took=NONE))


def groups_to_change(
    arena: Arena, shapes: Shapes, at: Mapping[int, str], slots: I64, numbers: I64 | I32
) -> Iterator[tuple[str, Shape, int, I64]]:
    """Yields tasks that have taken another alternative than these numbers, by job, shape and number: the job, the
    shape that they have, the number, and their slots. `at`: jobs by their first slots.
    """
    if not len(slots):
        return
    kinds = np.stack([arena["owner"][slots], arena["shape"][slots], numbers])
    for owner, shape, number in np.unique(kinds, axis=1).T.tolist():
        rules = shapes[shape].rules
        if rules is not None and rules.alternatives and rules.took != number:
            mine = slots[(kinds == np.array([[owner], [shape], [number]])).all(axis=0)]
            yield at[owner - 1], shapes[shape], number, mine
