"""Hosts, sets of conditions, groups and shapes of the engine, by their numbers in the columns."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from events.columns import I64, distinct
from processors.placement.engine.columns import (
    BASE,
    BEHIND,
    BLOCKS,
    DOWN,
    LAYOUT,
    LIMIT,
    NEED,
    NEEDS,
    NONE,
    ROOM,
    ROW,
    SEATS,
    SEEN,
    SET,
    SPREAD,
    STRATEGY,
    UNDO,
    Columns,
    blocks_of,
    new_columns,
)
from processors.placement.engine.compiled import VECTORS, Kernels
from processors.placement.engine.layouts import Layouts
from processors.placement.engine.ranks import Attributes, Conditions, RankColumn
from processors.placement.engine.shapes import Shape
from processors.placement.engine.vectors import changed_hosts, note_all, set_hosts

LOG = 1 << 16
SLOTS = 64
SHAPES_MAX, SETS_MAX = 1 << 16, 1 << 10
SLOTS_MAX = 4096
"""So many shapes have bounds; the one used longest ago makes room."""
DIGITS = 4


class Board:
    """The hosts, and what shapes see of them. `resources`: kinds of amounts, the seat left out; `unweighed`: those
    that don't count in scores.
    """

    def __init__(
        self,
        resources: int,
        kernels: Kernels = VECTORS,
        log: int = LOG,
        slots: int = SLOTS,
        slots_max: int = SLOTS_MAX,
        unweighed: Sequence[int] = (),
    ) -> None:
        self.kernels = kernels
        self.columns: Columns = new_columns(0, resources + 1, log, slots)
        self.hosts = 0
        self.attributes = Attributes()
        self._sets: dict[Conditions | None, int] = {}
        self._ranks: list[RankColumn | None] = []
        self._groups: dict[str, int] = {"": 0}
        """The number of each attribute over which something is spread."""
        self._layouts = Layouts()
        self._numbers: dict[Shape, int] = {}
        self._shapes: list[Shape] = []
        self._slot: dict[int, int] = {}
        """Where a shape has its row and bounds; the one used last is last."""
        self._slots_max = slots_max
        self._unweighed_kinds = [*unweighed]
        self._unweighed = False
        self._offers = -1
        """The version of what hosts offer."""
        self._set(None)
        self.slot(self.number(Shape((0,) * resources, SPREAD)))  # 0, and stays there

    # Hosts.

    def host(
        self,
        host: int,
        free: Sequence[int],
        capacity: Sequence[int],
        up: bool,
        attributes: Mapping[str, str],
        load: int = 32,
    ) -> None:
        """A host is new (the next number) or has changed. `load`: 0 to 63."""
        if host == self.hosts:
            self._grow(host + 1)
        fresh = host >= len(self.attributes.hosts)
        if fresh or self.attributes.hosts[host] != attributes:
            self._attributes(host, attributes)
        c = self.columns
        seat = int(c.free[0, host]) + (DOWN if c.free[0, host] < -DOWN // 2 else 0)
        c.load[host] = load
        self._unweighed |= c.capacity[1:, host].tolist() != [*capacity]
        self.kernels.set_host(
            c,
            host,
            np.array([seat - (0 if up else DOWN), *free], dtype=np.int64),
            np.array([SEATS, *capacity], dtype=np.int64),
        )

    def synchronise(
        self, free: I64, capacity: I64, up: NDArray[np.bool_], tasks: I64, load: I64, offers: int = -1
    ) -> int:
        """Brings all hosts up to what they have, [resources, hosts]; `tasks`: how many are there; `load`: 0 to 63.
        Returns how many hosts had other amounts. What was put since is settled by that. `offers`: the version of what
        hosts offer; where it is that of the last call, `capacity` isn't compared.
        """
        hosts = free.shape[1]
        if hosts != self.hosts:
            self._grow(hosts)
            for host in range(len(self.attributes.hosts), hosts):
                self.attributes.change(host, {})
        self.settle()
        c, seat = self.columns, np.where(up, SEATS, SEATS - DOWN) - tasks
        changed = np.flatnonzero(c.load[:hosts] != load)
        c.load[changed] = load[changed]
        note_all(c, changed)
        rows = [(seat, c.free[0]), *zip(free, c.free[1:], strict=True)]
        if offers < 0 or offers != self._offers:
            self._offers, self._unweighed = offers, True
            rows += zip(capacity, c.capacity[1:], strict=True)
        changed = changed_hosts(rows)
        set_hosts(c, changed, seat[changed], free[:, changed], capacity[:, changed])
        return len(changed)

    @property
    def is_worn(self) -> bool:
        """Whether so many shapes and conditions were seen that a new board is less to keep."""
        return len(self._shapes) > SHAPES_MAX or len(self._ranks) > SETS_MAX

    def update(self, hosts: I64, free: I64) -> None:
        """Other amounts are free on hosts, each named once; [resources, hosts]."""
        c = self.columns
        c.free[1:, hosts] = free
        shift, weight = c.shift[1:, None], c.weight[1:, None]
        c.k[hosts] = ((np.maximum(free, 0) >> shift) * weight).sum(axis=0)
        for host in hosts.tolist():
            self.kernels.note(c, host)

    def settle(self) -> None:
        """Keeps what was put."""
        self.columns.numbers[UNDO] = 0

    def _weigh(self) -> None:
        """Weighs each kind by the largest host, rounded so that this seldom changes."""
        if not self._unweighed:
            return
        self._unweighed = False
        c = self.columns
        largest = c.capacity[1:, : self.hosts].max(axis=1, initial=0)
        weight, shift = weights(largest.tolist())
        for kind in self._unweighed_kinds:
            weight[kind] = 0
        if (c.weight[1:] == weight).all() and (c.shift[1:] == shift).all():
            return
        c.weight[1:], c.shift[1:] = weight, shift
        c.inverse[:] = (1 << 30) // np.maximum(c.capacity >> c.shift[:, None], 1)
        c.k[:] = ((np.maximum(c.free, 0) >> c.shift[:, None]) * c.weight[:, None]).sum(axis=0)
        c.shapes[:, SEEN] = -1

    def _grow(self, hosts: int) -> None:
        """There are so many hosts; the next ones are down and have nothing, those behind have gone."""
        old = self.columns
        wide = len(old.k)
        if hosts > wide:
            new = new_columns(max(hosts, 2 * wide), len(old.weight), len(old.log), len(old.shapes))
            more = (0, 0), (0, len(new.k) - wide)
            self.columns = old._replace(
                free=np.hstack([old.free, new.free[:, wide:]]),
                capacity=np.hstack([old.capacity, new.capacity[:, wide:]]),
                inverse=np.hstack([old.inverse, new.inverse[:, wide:]]),
                k=np.append(old.k, new.k[wide:]),
                load=np.append(old.load, new.load[wide:]),
                last=np.append(old.last, new.last[wide:]),
                ranks=np.pad(old.ranks, more),
                groups=np.pad(old.groups, more),
                layouts=np.zeros((len(old.layouts), 4, len(new.k) + 1), dtype=np.int32),
                bounds=new.bounds,
                beside=new.beside,
                level=new.level,
                scratch=new.scratch,
            )
            c = self.columns
            c.groups[0] = np.arange(len(c.k))
            c.shapes[:, SEEN] = -1
            self._layouts.outdated()
        c = self.columns
        for host in range(hosts, self.hosts):
            c.free[:, host], c.capacity[:, host], c.k[host], c.ranks[:, host] = 0, 0, 0, 0
            c.free[0, host] = SEATS - DOWN
            self.kernels.note(c, host)
        self._unweighed |= hosts < self.hosts
        before, blocks = int(c.numbers[BLOCKS]), blocks_of(hosts)
        if blocks != before:
            rows = c.shapes[:, LAYOUT] < 0
            c.bounds[rows, before:blocks], c.beside[rows, before:blocks] = NONE, NONE
            c.numbers[BLOCKS], c.numbers[BEHIND] = blocks, 8 * blocks
        self.hosts = hosts
        self.attributes.cut(hosts)
        self._layouts.outdated()

    def _attributes(self, host: int, attributes: Mapping[str, str]) -> None:
        c = self.columns
        self.attributes.change(host, attributes)
        for number, ranks in enumerate(self._ranks):
            if ranks is not None:
                c.ranks[number, host] = ranks.of(attributes)
        for name, group in self._groups.items():
            if group:
                self._regroup(name, group, host)
        self.kernels.note(c, host)

    def _regroup(self, name: str, group: int, host: int) -> None:
        """A host may have another value of an attribute."""
        c = self.columns
        value = self.attributes.column(name)[host]
        if c.groups[group, host] == value:
            return
        c.groups[group, host] = value
        self._layouts.outdated(name)

    # Sets of conditions, attributes.

    def _set(self, conditions: Conditions | None) -> int:
        number = self._sets.get(conditions)
        if number is None:
            number = self._sets[conditions] = len(self._ranks)
            ranks = None if conditions is None else RankColumn(conditions)
            self._ranks.append(ranks)
            column = np.zeros(len(self.columns.k), dtype=np.int8)
            if ranks is not None:
                column[: self.hosts] = ranks.all(self.attributes)
            rows = self.columns.ranks if number < len(self.columns.ranks) else None
            if rows is None:
                rows = np.concatenate([self.columns.ranks, np.zeros_like(self.columns.ranks)])
                self.columns = self.columns._replace(ranks=rows)
            rows[number] = column
        return number

    def ranked(self, conditions: Conditions, column: NDArray[np.int8]) -> None:
        """Gives a set of conditions the ranks of all hosts, where they don't follow from attributes."""
        number = self._set(conditions)
        row = self.columns.ranks[number]
        for host in np.flatnonzero(row[: len(column)] != column).tolist():
            self.kernels.note(self.columns, host)
        row[: len(column)] = column

    def grouped(self, name: str, column: I64) -> None:
        """Gives an attribute the numbers of its values, where they don't follow from attributes."""
        number = self._group(name)
        row = self.columns.groups[number, : len(column)]
        if (row != column).any():
            row[:] = column
            self._layouts.outdated(name)

    def _group(self, name: str) -> int:
        """The number of an attribute over which something is spread."""
        number = self._groups.get(name)
        if number is None:
            number = self._groups[name] = len(self._groups)
            column = np.zeros(len(self.columns.k), dtype=np.int32)
            column[: self.hosts] = self.attributes.column(name)
            self.columns = self.columns._replace(groups=np.concatenate([self.columns.groups, column[None]]))
        return number

    # Shapes.

    def number(self, shape: Shape) -> int:
        """The number of a shape."""
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = len(self._shapes)
            self._shapes.append(shape)
        return number

    def slot(self, number: int) -> int:
        """The slot of a shape, where its row is up to date."""
        self._weigh()
        slot = self._slot.pop(number, None)
        shape = self._shapes[number]
        if slot is None:
            slot = self._free_slot()
            self._write(slot, shape)
        self._slot[number] = slot
        if shape.over:
            self._laid_out(slot, shape.over)
        return slot

    def _free_slot(self) -> int:
        c = self.columns
        if len(self._slot) < min(len(c.shapes), self._slots_max):
            return len(self._slot)
        if len(self._slot) >= self._slots_max:
            pinned = {*distinct(c.undo[: int(c.numbers[UNDO]), 0]).tolist(), *self._in_use}
            for number, slot in self._slot.items():
                if slot and slot not in pinned:
                    del self._slot[number]
                    return slot
        if len(self._slot) == len(c.shapes):
            more = len(c.shapes)
            self.columns = c._replace(
                shapes=np.concatenate([c.shapes, np.zeros((more, ROW), dtype=np.int64)]),
                bounds=np.concatenate([c.bounds, np.zeros((more, c.bounds.shape[1]), dtype=np.int64)]),
                beside=np.concatenate([c.beside, np.zeros((more, *c.beside.shape[1:]), dtype=np.int64)]),
            )
        return len(self._slot)

    _in_use: Sequence[int] = ()
    """Slots of a call that is being prepared."""

    def _write(self, slot: int, shape: Shape) -> None:
        conditions = self._set(shape.conditions)
        row = self.columns.shapes[slot]
        row[:] = 0
        row[SET], row[STRATEGY], row[LIMIT] = conditions, shape.strategy, shape.limit
        row[SEEN], row[LAYOUT], row[ROOM] = -1, -1, -1
        needs = [(0, 1)]
        needs += [(resource + 1, amount) for resource, amount in enumerate(shape.need) if amount]
        row[NEEDS] = len(needs)
        row[NEED : NEED + 2 * len(needs)] = np.ravel(needs)
        row[BASE] = 0 if slot and shape.strategy == SPREAD else -1

    def _laid_out(self, slot: int, attribute: str) -> None:
        """Brings the layout of a shape up to date, and with it all shapes that have it."""
        group = self._group(attribute)
        self.columns, layout, fresh = self._layouts.of(self.columns, attribute, group, self.hosts)
        rows = self.columns.shapes
        if fresh:
            rows[rows[:, LAYOUT] == layout, SEEN] = -1
        if rows[slot, LAYOUT] != layout:
            rows[slot, LAYOUT], rows[slot, SEEN] = layout, -1


def weights(largest: Sequence[int]) -> tuple[list[int], list[int]]:
    """The weight and the shift of each kind, by the largest amount of it that a host has."""
    weight, shift = [], []
    for amount in largest:
        digits = max(amount.bit_length() - DIGITS, 0)
        rounded = max(-(-amount >> digits) << digits, 1)
        shift.append(max(rounded.bit_length() - 20, 0))
        weight.append(((1 << 31) - 1) // max(rounded >> shift[-1], 1))
    return weight, shift
