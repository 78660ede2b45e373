"""The room that groups of hosts have for a gang all of which, or each segment of which, must be in one of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from events.columns import I64, distinct
from events.records.parts import GroupRoom
from events.topology import HOST, LINK_GROUP
from processors.placement.cluster_view import ClusterView
from processors.placement.devices.board import DeviceBoard
from processors.placement.devices.needs import DeviceNeed
from processors.placement.host_tree import by_first_host
from processors.placement.link_groups import capped, shown
from processors.placement.neighbours import Neighbours
from processors.placement.packing import Mask, fits
from processors.placement.ruled_units import fit_of
from processors.placement.shape_view import ShapeView
from processors.state.record_rows import RulesRow

GROUPS_MAX = 3

Parts = Sequence[tuple[ShapeView, int]]


class Level(NamedTuple):
    """The attribute, or host, in whose groups a gang must be."""

    name: str
    segment: int
    """Members of a segment, each of which must be in one group; 0: the whole gang must."""
    whole: str = ""
    """The attribute of a larger group in which all segments must be; empty: they may be anywhere."""

    def fit(self, room: I64) -> I64:
        """The tasks of groups that count, where each group holds so many."""
        return room // self.segment * self.segment if self.segment else room


def level_of(parts: Parts) -> Level | None:
    """The level of a gang; None: it has none in which it must be."""
    rules = parts[0][0].rules or RulesRow()
    if rules.whole_within == LINK_GROUP:  # the smallest level: all segments are in one then
        return Level(LINK_GROUP, 0)
    if rules.segments and len(parts) == 1:
        return Level(rules.nearness, rules.segments, rules.whole_within)
    name = rules.nearness if rules.segments else rules.whole_within
    return Level(name, 0) if name else None


class GroupRooms:
    """The groups of a level, and the tasks of a gang that each holds. `neighbours`: None: if nothing ran anywhere."""

    def __init__(self, view: ClusterView, parts: Parts, level: Level, neighbours: Neighbours | None) -> None:
        self._view, self._level = view, level
        self.fit = 0
        """The tasks that all groups hold, in whole segments; of those of one larger group where all must be in one."""
        self._link_groups: list[tuple[int, str]] = []
        """The host and name of each group, where they are within hosts."""
        if level.name == LINK_GROUP and view.devices is not None:
            self._count_link_groups(view.devices, parts, neighbours)
            return
        self.groups = by_first_host(view.hosts.groups(level.name))
        self._open = np.zeros(len(self.groups), dtype=np.bool_)
        self.room = np.zeros(int(self.groups.max(initial=-1)) + 1, dtype=np.int64)
        """The tasks that each group holds, of each part by itself."""
        for shape, size in parts:
            fit = room_when_empty(view, shape, size) if neighbours is None else _fit_now(view, shape, size, neighbours)
            of_part = np.zeros_like(self.room)
            np.add.at(of_part, self.groups, fit)
            self.room += np.minimum(of_part, size)
            self._open |= shape.unmet < 0
            if level.whole:  # then there is one part
                self.fit = _in_one(level, self._larger(), self.groups, fit)
        if not level.whole:
            self.fit = int(level.fit(self.room).sum())

    def _count_link_groups(self, board: DeviceBoard, parts: Parts, neighbours: Neighbours | None) -> None:
        """Counts the tasks of each part by itself; one without devices may be beside any of its host."""
        open_: Mask = np.logical_or.reduce([shape.unmet < 0 for shape, _ in parts])
        hosts, segment = np.flatnonzero(open_), self._level.segment or 1
        totals = 0
        kinds = {each.kind for shape, _ in parts for each in (shape.devices or DeviceNeed(())).kinds}
        for shape, size in parts:
            fit = (
                room_when_empty(self._view, shape, size)
                if neighbours is None
                else _fit_now(self._view, shape, size, neighbours)
            )
            need = shape.devices or DeviceNeed(())
            islands = board.islands(need, hosts, size, when_empty=neighbours is None, kinds=kinds)
            room = np.minimum(islands.room, fit[islands.hosts])
            self.room = room if not self._link_groups else self.room + room
            self._link_groups = [*zip(islands.hosts.tolist(), islands.names, strict=True)]
            in_segments = capped(islands, fit, segment) * segment
            totals += _in_one(self._level, self._larger()[islands.hosts], islands.hosts, in_segments)
        self.groups = np.arange(len(self._link_groups))
        self._open = np.ones(len(self.groups), dtype=np.bool_)
        self.fit = totals

    def _larger(self) -> I64:
        """[hosts]: the larger group in one of which all segments must be."""
        hosts = self._view.hosts
        return hosts.groups(self._level.whole) if self._level.whole else np.zeros(len(hosts.ids), dtype=np.int64)

    def fields(self) -> dict[str, Any]:
        """The fields of `GangsUnplaced` about groups."""
        numbers = distinct(self.groups[self._open])
        first = numbers[np.argsort(-self.room[numbers], kind="stable")][:GROUPS_MAX]
        rooms = (GroupRoom(self._value(number), int(self.room[number])) for number in first.tolist())
        return {
            "level": self._level.name,
            "segment": self._level.segment,
            "groups": tuple(rooms),
            "groups_considered": len(numbers),
        }

    def _value(self, group: int) -> str:
        if self._link_groups:
            host, name = self._link_groups[group]
            return f"{self._view.hosts.ids[host]} {shown(self._view.hosts.devices.layouts[host], name)}"
        host_id = self._view.hosts.ids[int(np.argmax(self.groups == group))]
        if self._level.name == HOST:
            return host_id
        return self._view.hosts.table[host_id].attributes.get(self._level.name, "")


def _in_one(level: Level, whole: I64, groups: I64, fit: I64) -> int:
    """The most tasks that the groups of one larger group hold together, by how many each of their parts holds."""
    most = 0
    for larger in distinct(whole).tolist():
        there = whole == larger
        room = np.zeros(int(groups[there].max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(room, groups[there], fit[there])
        most = max(most, int(level.fit(room).sum()))
    return most


def _fit_now(view: ClusterView, shape: ShapeView, size: int, neighbours: Neighbours) -> I64:
    view.neighbours = neighbours
    return fit_of(neighbours, view.free, view.request(shape, size, shape.open))


def room_when_empty(view: ClusterView, shape: ShapeView, size: int) -> I64:
    """[hosts]: the tasks of a shape, at most `size`, for which each host has room and devices if nothing runs there."""
    limit = shape.rules.host_limit if shape.rules is not None else 0
    fit = np.zeros(len(view.hosts.ids), dtype=np.int64)
    counts = view.hosts.counts & (shape.unmet < 0)
    if view.devices is not None and shape.devices is not None:
        counts &= view.devices.could(shape.devices)
    hosts, most = np.flatnonzero(counts), min(size, shape.most, limit or size)
    fit[hosts] = fits(view.hosts.whole, shape.need, hosts, most)
    if view.devices is not None and shape.devices is not None:
        fit[hosts] = np.minimum(fit[hosts], view.devices.room(shape.devices, hosts, most, when_empty=True))
    return fit
