"""What all records are: frozen, typed, compared by value."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from events.columns import I32, I64, spread


class NestedRecord(msgspec.Struct, frozen=True):
    """A record inside a record."""


class Event(msgspec.Struct, frozen=True):
    """A record with a schema of its own: a fact, a decision, or one of the two records of the round protocol."""

    topic: ClassVar[str] = ""
    """The topic whose facts it belongs to, or the topic of the machine that decides it; empty: any machine."""
    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {}
    """The fields that are columns, with the types of their values."""
    cause_fields: ClassVar[Mapping[str, str]] = {}
    """The fields that say what led to a decision (`events.causes`). For each what else it takes to read it: the topic
    of an offset, the column that chooses from a list; empty: nothing.
    """
    newest_unless: ClassVar[tuple[str, ...] | None] = None
    """Where these are only the newest change that the machine knew: not if they are records of these kinds. None: they
    are what led to it.
    """


class Items(NamedTuple):
    """The runs that a record names, one after another; `job` is an index into its `job_ids`."""

    job: I32
    instance: NDArray[Any]
    run: I32


class ItemsEvent(Event, frozen=True):
    """A record that names runs one by one."""

    if TYPE_CHECKING:
        job_ids: tuple[str, ...]
        job: bytes
        instance: bytes
        run: bytes

        @property
        def job_array(self) -> I32: ...
        @property
        def instance_array(self) -> I32: ...
        @property
        def run_array(self) -> I32: ...

    def items(self) -> Items:
        """The runs, in the order of the record."""
        return Items(self.job_array, self.instance_array, self.run_array)

    def sizes(self) -> I32:
        """The number of runs of each row of its columns: 1."""
        return np.ones(len(self.job) // 4, dtype=np.int32)


class RangesEvent(Event, frozen=True):
    """A record that names runs by ranges of instances that are at the same run."""

    if TYPE_CHECKING:
        job_ids: tuple[str, ...]
        job: bytes
        first: bytes
        count: bytes
        run: bytes

        @property
        def job_array(self) -> I32: ...
        @property
        def first_array(self) -> I32: ...
        @property
        def count_array(self) -> I32: ...
        @property
        def run_array(self) -> I32: ...

    def items(self) -> Items:
        """The runs of all ranges, one range after another."""
        count = self.count_array
        return Items(self.job_array.repeat(count), spread(self.first_array, count), self.run_array.repeat(count))

    def sizes(self) -> I32:
        """The number of runs of each row of its columns."""
        return self.count_array


class InstancesEvent(Event, frozen=True):
    """A record that names instances of one job, by ranges."""

    if TYPE_CHECKING:
        first: bytes
        count: bytes

        @property
        def first_array(self) -> I32: ...
        @property
        def count_array(self) -> I32: ...

    def named_instances(self) -> I64:
        """The instances of all ranges, one range after another."""
        return spread(self.first_array, self.count_array)
