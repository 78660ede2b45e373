"""The parts of a unit as those see them who make room for it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64
from events.topology import LINK_GROUP
from processors.placement.cluster_view import ClusterView
from processors.placement.devices.needs import DeviceNeed
from processors.placement.fewest_groups import fewest_groups
from processors.placement.gang_search import Part
from processors.placement.host_tree import by_first_host
from processors.placement.neighbours import FREE
from processors.placement.packing import fits
from processors.placement.room.kept import OwnRoom
from processors.placement.shape_view import ShapeView


def planned(view: ClusterView, shape: ShapeView, size: int, own: OwnRoom | None) -> Part:
    """So many tasks of a shape for which others may be preempted: also where runs have its fixed ports, or want their
    hosts for themselves. `own`: the room that is kept for them.
    """
    part = shape.part(size)._replace(devices=shape.devices)
    if shape.fixed_ports:
        open_ = shape.meets & view.unclaimed(shape.fixed_ports)
        if own is not None:
            open_ |= shape.open_to(view, own)
        part = part._replace(open_=open_, ports=shape.fixed_ports)
    if shape.shut_off is not None and view.claimants is not None:
        shut_off = shape.shut_off & ~view.arrive_alone & view.claimants.where() & view.unclaimed(shape.fixed_ports)
        part = part._replace(open_=part.open_ | shut_off, obstacles=view.claimants)
    return part


def ruled(
    view: ClusterView, job_id: str, parts: Sequence[tuple[ShapeView, int]], planned: Sequence[Part], clears: bool
) -> list[Part] | None:
    """Parts of a unit for which others leave (`clears`) or hosts are reserved, where its rules allow one task more,
    or would if those left who are in the way; None: it goes by no rules. Several tasks may only share a group and a
    limit for each host, and nothing else that depends on where the others are: for more than that there is no plan.
    """
    neighbours = view.neighbours_of(job_id) if parts[0][0].host is None else None
    if neighbours is None or not neighbours.are_ruled:
        return None
    limited: list[Part] = []
    for (shape, _), part in zip(parts, planned, strict=True):
        rules = neighbours.of(shape.rules, shape.unmet, shape.column)  # devices are judged with who leaves
        if clears:
            allowed, obstacles = rules.clearable()
            part = part._replace(obstacles=obstacles.beside(part.obstacles) if obstacles else part.obstacles)
        else:
            allowed = rules.why() == FREE
        open_, most = part.open_ & allowed, part.most
        if sum(size for _, size in parts) > 1:
            limit = rules.rules.host_limit
            open_ &= (neighbours.own == 0) & (rules.limits_alone and (len(parts) == 1 or not limit))
            tree, segment, within = rules.tree, rules.rules.segments, rules.within
            whole = rules.rules.whole_within
            if tree is not None and len(parts) == 1 and whole != LINK_GROUP:
                part = part._replace(
                    segments=(tree.groups, segment) if segment else None, near=(tree.groups, tree.parts_above())
                )
            elif tree is not None and segment and whole != LINK_GROUP:
                within = tree.groups
            part = part._replace(within=within, in_link_group=rules.rules.is_linked)
            most = min(most, limit or most)
        limited.append(part._replace(open_=open_, most=most, keeps=neighbours.wanted(rules.rules)))
    return limited


class DeviceRooms(NamedTuple):
    """The tasks, at most so many, that find their devices on a host: now, and if all left who may; its link groups."""

    now: Callable[[int, DeviceNeed, int], int]
    later: Callable[[int, DeviceNeed, int], int]
    link_groups: Callable[[int], Sequence[str]]


class Rooms:
    """The tasks that hosts hold. `free`, and what `leaves` if all leave who may: [kinds + 1, hosts]."""

    def __init__(self, free: I64, leaves: Callable[[], I64], devices: DeviceRooms | None = None) -> None:
        self._free, self._leaves, self.devices = free, leaves, devices

    def now(self, part: Part) -> I64:
        """[hosts]: the tasks of a part, by itself, for which each has room."""
        return self._fit(self._free, part, self.devices.now if self.devices is not None else None)

    def later(self, part: Part) -> I64:
        """The same if all left who may."""
        return self._fit(self._free + self._leaves(), part, self.devices.later if self.devices is not None else None)

    def _fit(self, amounts: I64, part: Part, tasks: Callable[[int, DeviceNeed, int], int] | None) -> I64:
        hosts, most = np.flatnonzero(part.open_), min(part.size, part.most)
        fit = np.zeros(len(part.open_), dtype=np.int64)
        fit[hosts] = fits(amounts, part.need, hosts, most)
        if part.devices is not None and tasks is not None:
            for host in np.flatnonzero(fit).tolist():
                fit[host] = tasks(host, part.devices, int(fit[host]))
        return fit


def ways_to_be(parts: Sequence[Part], rooms: Rooms) -> Iterator[Sequence[Part]]:
    """Yields a unit as `by_group`; one with segments divided into a part for each group, all of its one shape; one that
    is to be near divided so that others leave in as few groups as possible, and then undivided.
    """
    for each in by_group(parts, rooms):
        if each[0].segments is not None and each[0].in_link_group and each[0].devices is not None:
            divided = _by_linked_segments(each[0], each[0].segments[1], each[0].devices, rooms)
        elif each[0].segments is not None:
            divided = _divided(each[0], *each[0].segments, rooms)
        elif each[0].near is not None:
            divided = _on_few(each[0], *each[0].near, rooms)
        else:
            divided = []
        if divided:
            yield divided
        if each[0].segments is None:
            yield each


def _divided(part: Part, groups: I64, segment: int, rooms: Rooms) -> list[Part]:
    """A unit in parts, each of whole segments in one group; none: there isn't room for all if all left who may."""
    now, later = _sums(groups, rooms.now(part)), _sums(groups, rooms.later(part))
    sizes = _in_segments(part.size, segment, np.arange(len(now)), (now, now), (later, later))
    return _of_groups(part, groups, [(at, size) for at, size in enumerate(sizes) if size])


def _by_linked_segments(part: Part, segment: int, need: DeviceNeed, rooms: Rooms) -> list[Part]:
    """The same with link groups as groups. Those of a host hold no more together than it does."""
    if rooms.devices is None:
        return []
    on_hosts_now, on_hosts_later = rooms.now(part), rooms.later(part)
    names = rooms.devices.link_groups
    places = [(host, name) for host in np.flatnonzero(on_hosts_later).tolist() for name in names(host)]
    now, later = (
        np.array([tasks(host, need._replace(group=name), part.size) for host, name in places], dtype=np.int64)
        for tasks in (rooms.devices.now, rooms.devices.later)
    )
    hosts = np.array([host for host, _ in places], dtype=np.int64)
    sizes = _in_segments(part.size, segment, hosts, (now, on_hosts_now), (later, on_hosts_later))
    numbers = np.arange(len(part.open_))
    return [
        of_host._replace(devices=need._replace(group=name))
        for (host, name), size in zip(places, sizes, strict=False)
        if size
        for of_host in _of_groups(part, numbers, [(host, size)])
    ]


def _in_segments(size: int, segment: int, hosts: I64, *rooms: tuple[I64, I64]) -> list[int]:
    """The tasks for each group, in whole segments: first for those that have room now, then where most more has; none:
    not all find room. `hosts`: the one of each group; `rooms`: the tasks that each group, and each host, holds now, and
    if all left who may.
    """
    now, rest = rooms[0][0], size // segment
    order = np.lexsort((np.arange(len(now)), -(now % segment), -now)).tolist()
    sizes, on_hosts = np.zeros_like(now), np.zeros(int(hosts.max(initial=-1)) + 1, dtype=np.int64)
    for of_groups, of_hosts in rooms:
        for group in order:
            host = int(hosts[group])
            beside = int(of_hosts[host]) // segment - int(on_hosts[host])
            more = max(0, min(rest, beside, int(of_groups[group]) // segment - int(sizes[group])))
            sizes[group] += more
            on_hosts[host] += more
            rest -= more
    tasks: list[int] = (sizes * segment).tolist()
    return [] if rest else tasks


def _on_few(part: Part, groups: I64, above: Sequence[I64], rooms: Rooms) -> list[Part]:
    """A unit in parts, each in one of the fewest groups that hold it if all left who may; none: there isn't room."""
    return _of_groups(part, groups, fewest_groups(_sums(groups, rooms.later(part)), above, part.size) or ())


def _of_groups(part: Part, groups: I64, sizes: Iterable[tuple[int, int]]) -> list[Part]:
    return [
        part._replace(open_=part.open_ & (groups == group), size=size, segments=(groups, 1)) for group, size in sizes
    ]


def _sums(groups: I64, fit: I64) -> I64:
    """The tasks that each group holds."""
    sums = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(sums, groups, fit)
    return sums


def by_group(parts: Sequence[Part], rooms: Rooms) -> Iterator[Sequence[Part]]:
    """Yields a unit that must be within one group of hosts once for each that could hold it if all left who may, the
    one with room for most tasks now first, and there once for each link group where it must be in one; another unit as
    it is.
    """
    if parts[0].within is None:
        yield parts
        return
    groups = by_first_host(parts[0].within)
    count = int(groups.max(initial=0)) + 1
    enough, now = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
    for part in parts:
        enough &= _sums(groups, rooms.later(part)) >= part.size
        now += _sums(groups, rooms.now(part))
    for group in sorted(np.flatnonzero(enough).tolist(), key=lambda group: (-now[group], group)):
        there = [part._replace(open_=part.open_ & (groups == group)) for part in parts]
        if not parts[0].in_link_group or parts[0].segments is not None:
            yield there
        elif rooms.devices is not None:
            yield from _by_link_group(there, int(np.argmax(groups == group)), rooms.devices)


def _by_link_group(parts: Sequence[Part], host: int, devices: DeviceRooms) -> Iterator[Sequence[Part]]:
    """Yields a unit on a host once for each link group that could hold it, the one with most room now first."""
    ways: list[tuple[int, Sequence[Part]]] = []
    for name in devices.link_groups(host):
        inside = [part._replace(devices=part.devices and part.devices._replace(group=name)) for part in parts]
        asking = [(part.devices, part.size) for part in inside if part.devices is not None]
        if all(devices.later(host, need, size) >= size for need, size in asking):
            ways.append((sum(devices.now(host, need, size) for need, size in asking), inside))
    yield from (way for _, way in sorted(ways, key=lambda each: -each[0]))
