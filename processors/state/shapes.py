"""Shapes: what tasks ask of their pools and hosts, each kept once for all tasks that ask the same (decision 026).

A task has the number of its shape in the column `shape` of its machine's arena. A shape that no task has leaves the
table, and the lowest free number is given next: which one it is depends on nothing but what is there, so a restored
machine goes on alike.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np

from events.bounds import AMOUNT_MAX
from events.columns import I64, counted
from events.instance_changes import instance_change
from events.records.lifecycle import GangsQueued, InstancesChanged, JobAccepted
from events.records.parts import TaskShape
from events.resources import Kinds, UnknownResource, Vector
from events.strategies import PACK, strategy_number
from events.structs import known
from events.task_shapes import shape_index
from processors.state.arena import Arena, change_instances
from processors.state.record_rows import ConstraintRow, RulesRow, row_of, rules_row
from processors.state.table import Table, struct_table
from processors.state.widening import widen

KNOWN_MAX = 4096
_known: dict[tuple[Callable[[Mapping[str, int]], Vector], bool, bytes], "Shape | None"] = {}
"""So many shapes are remembered."""
_pack = msgspec.msgpack.Encoder().encode

_SPREAD = 3
"""Where a shape of 0.3 says whether its tasks are spread."""

MIXED = -1
"""In place of the number of a shape: the tasks of the job have several."""


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """The needs of one task: an amount of each kind of resource, ports, conditions on hosts, and how they are
    chosen (`events.strategies`).
    """

    need: Vector
    ports: int = 0
    constraints: tuple[ConstraintRow, ...] = ()
    strategy: int = PACK
    port_numbers: tuple[int, ...] = ()
    """The number of each port, 0: any; empty: any for all."""
    rules: RulesRow | None = None

    @property
    def fixed_ports(self) -> tuple[int, ...]:
        """The ports that must be free on a host."""
        return tuple(number for number in self.port_numbers if number)


class ShapeRow(msgspec.Struct, array_like=True):
    """A shape, and how many tasks have it."""

    shape: Shape
    tasks: int
    """Invariant: above 0. A shape that no task has leaves the table."""

    def widened(self, kinds: Kinds) -> "ShapeRow":
        """The row as it is when the cell knows more kinds; of these no shape asks anything."""
        return ShapeRow(msgspec.structs.replace(self.shape, need=kinds.widened(self.shape.need)), self.tasks)


def shape_of_0_3(row: bytes) -> bytes:
    """A row of 0.3, which knew whether tasks are spread, as it is now."""
    (shape, *rest) = msgspec.msgpack.decode(row)
    shape[_SPREAD] = int(shape[_SPREAD])
    return msgspec.msgpack.encode(msgspec.convert([shape, *rest], known(ShapeRow)))


class Shapes:
    """The table of shapes."""

    def __init__(self) -> None:
        self.table: Table[int, ShapeRow] = struct_table("shapes", ShapeRow, int)
        self._numbers: dict[Shape, int] = {}
        self.ruled: dict[int, None] = {}
        """Those that have rules about other tasks, beside conditions and tolerations."""
        self.of_devices: dict[int, None] = {}
        """Those that say more of devices than how many, or ask for cores."""
        self._free: list[int] = []
        """A heap of the numbers below the highest ever given that nobody has."""

    def __getitem__(self, number: int) -> Shape:
        return self.table[number].shape

    def restored(self) -> None:
        """Finds again what is derived."""
        self._numbers = {row.shape: number for number, row in self.table.items()}
        self.ruled = {number: None for number, row in self.table.items() if _is_ruled(row.shape)}
        self.of_devices = {number: None for number, row in self.table.items() if _names_devices(row.shape)}
        self._free = [number for number in range(max(self.table, default=-1)) if number not in self.table]
        heapify(self._free)

    def take(self, shape: Shape, tasks: int) -> int:
        """So many more tasks have this shape; returns its number."""
        number = self._numbers.get(shape)
        if number is not None:
            self.table.change(number).tasks += tasks
            return number
        number = self._numbers[shape] = heappop(self._free) if self._free else len(self.table)
        self.table.put(number, ShapeRow(shape, tasks))
        if _is_ruled(shape):
            self.ruled[number] = None
        if _names_devices(shape):
            self.of_devices[number] = None
        return number

    def give_back(self, number: int, tasks: int) -> None:
        """So many tasks that had this shape have gone, or have another."""
        row = self.table.change(number)
        row.tasks -= tasks
        assert row.tasks >= 0, number
        if not row.tasks:
            self.table.remove(number)
            del self._numbers[row.shape]
            self.ruled.pop(number, None)
            self.of_devices.pop(number, None)
            heappush(self._free, number)

    def take_job(self, arena: Arena, base: int, event: JobAccepted, shapes: Sequence[Shape]) -> dict[int, int]:
        """Fills the column of a job that was accepted; `shapes` as `shapes_of` found them. Returns how many of its
        tasks have which shape, by number.
        """
        if not event.instances:
            return {}
        if not event.shape:
            number = self.take(shapes[0], event.instances)
            if number:  # slots that were taken are 0
                arena.fill("shape", base, event.instances, number)
            return {number: event.instances}
        return self._take(arena, np.arange(base, base + event.instances), shape_index(event), shapes)

    def change_job(
        self, arena: Arena, base: int, tasks: int, event: InstancesChanged, shapes: Sequence[Shape]
    ) -> tuple[int, dict[int, int]]:
        """Gives a job the instances of a record, as `change_instances`, and their shapes. Returns its base, and how
        many tasks of which shape it has more.
        """
        change = instance_change(event)
        more = {number: -count for number, count in self._give_back(arena, base + change.removed).items()}
        start = change_instances(arena, base, tasks, event)
        for number, count in self._take(arena, start + change.added, change.shape, shapes).items():
            more[number] = more.get(number, 0) + count
        return start, more

    def change_tasks(self, arena: Arena, slots: I64, index: I64, shapes: Sequence[Shape]) -> dict[int, int]:
        """Gives tasks that a job has other shapes; `index` says which, for each task. Returns how many tasks of which
        shape the job has more.
        """
        before = _counts(arena, slots)
        more = self._take(arena, slots, index, shapes)
        for number, tasks in before.items():
            self.give_back(number, tasks)
            more[number] = more.get(number, 0) - tasks
        return more

    def give_back_job(self, tasks: Mapping[int, int]) -> None:
        """A job has gone that had so many tasks of which shape."""
        for number, count in tasks.items():
            self.give_back(number, count)

    def _take(self, arena: Arena, slots: I64, index: I64, shapes: Sequence[Shape]) -> dict[int, int]:
        tasks_by_number: dict[int, int] = {}
        numbers = np.zeros(len(shapes), dtype=np.int64)
        used, counts = counted(index)
        for at, tasks in zip(used.tolist(), counts.tolist(), strict=True):
            numbers[at] = number = self.take(shapes[at], tasks)
            tasks_by_number[number] = tasks_by_number.get(number, 0) + tasks
        arena.set("shape", slots, numbers[index])
        return tasks_by_number

    def _give_back(self, arena: Arena, slots: I64) -> dict[int, int]:
        counts = _counts(arena, slots)
        for number, tasks in counts.items():
            self.give_back(number, tasks)
        arena.set("shape", slots, 0)
        return counts

    def widen(self, kinds: Kinds) -> None:
        """The cell has more kinds of resources; of those no shape asks anything."""
        widen(kinds, self.table)
        self.restored()


def _is_ruled(shape: Shape) -> bool:
    rules = shape.rules
    if rules is None:
        return False
    others = msgspec.structs.replace(rules, devices=(), devices_within="", cores=0, alternatives=(), took=-1)
    return others != RulesRow(rules.tolerations, stays=rules.stays)


def _names_devices(shape: Shape) -> bool:
    rules = shape.rules
    return rules is not None and bool(rules.devices or rules.devices_within or rules.cores or rules.alternatives)


def _counts(arena: Arena, slots: I64) -> dict[int, int]:
    numbers, counts = counted(arena["shape"][slots])
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def shapes_of(
    event: JobAccepted | InstancesChanged | GangsQueued,
    vector: Callable[[Mapping[str, int]], Vector],
    any_of: bool = False,
) -> list[Shape]:
    """The shapes that a record names; none where one has a kind that the cell doesn't know, or an amount out of bounds:
    nobody accepts such a job. `vector` is `Kinds.vector`, or `Kinds.offered` for what is asked of hosts alone.
    `any_of`: tasks with alternatives need the most of each kind that one of these asks.
    """
    shapes: list[Shape] = []
    try:
        for each in event.shapes:
            shape = _shape(each, vector, any_of)
            if shape is None:
                return []
            shapes.append(shape)
    except (UnknownResource, OverflowError):
        return []
    return shapes


def _shape(each: TaskShape, vector: Callable[[Mapping[str, int]], Vector], any_of: bool) -> Shape | None:
    """The shape of a record; most are alike, so each is made once for the kinds of a cell. None: an amount is out of
    bounds.
    """
    key = vector, any_of, _pack(each)
    shape = _known.get(key)
    if shape is None and key not in _known:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        shape = _known[key] = _found(each, vector, any_of)
    return shape


def _found(each: TaskShape, vector: Callable[[Mapping[str, int]], Vector], any_of: bool) -> Shape | None:
    constraints = tuple(row_of(ConstraintRow, one) for one in each.constraints)
    rules = rules_row(each.rules)
    need = vector(each.resources)
    if any_of and rules is not None and rules.alternatives:
        need = tuple(map(max, zip(*(vector(one.amounts()) for one in rules.alternatives), strict=True)))
    if min(need) < 0 or max(need) > AMOUNT_MAX:
        return None
    return Shape(need, each.ports, constraints, strategy_number(each.strategy), tuple(each.port_numbers), rules)
