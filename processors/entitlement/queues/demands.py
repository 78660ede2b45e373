"""The demand of tasks with several requests while they wait: the most of each kind that one asks of those which hosts
could hold at all (decision 110).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from events.records.lifecycle import InstancesChanged, JobAccepted
from events.resources import Vector
from processors.state.alternatives import alternatives_of, most_of
from processors.state.shapes import Shape, shapes_of

ToVector = Callable[[Mapping[str, int]], Vector]


class LastingBounds(Protocol):
    """Bounds that last until hosts or pools change, whoever leaves."""

    def is_refused(self, pool: str, kind: int, need: Vector, tasks: Sequence[Vector]) -> bool:
        """Whether units of a pool and class that need so much, each task one of these, can't be admitted."""

    def may_fit(self, need: Vector, tasks: int) -> bool:
        """Whether hosts could hold so many tasks that need so much each, were they empty."""


def asked(shape: Shape, gang: int, vector: ToVector, bounds: LastingBounds) -> Shape:
    """The shape of tasks of a job that wait; `gang`: so many of them must have places at once."""
    needs = [vector(each.amounts()) for each in alternatives_of(shape)]
    return replace(shape, need=most_of(needs, max(1, gang), bounds.may_fit)) if needs else shape


def shapes_asked(
    event: JobAccepted | InstancesChanged, gang: int, vector: ToVector, bounds: LastingBounds
) -> list[Shape]:
    """The shapes that a record names; none, as of `shapes_of`, where it can't be."""
    shapes = shapes_of(event, vector, any_of=True)
    return [each if each.rules is None else asked(each, gang, vector, bounds) for each in shapes]
