"""Link groups of hosts as groups of members of a gang: those whose cards are linked directly (decision 113).

A host has several of them, so they are no groups of hosts: whoever puts a task in one says so with what it needs.
"""

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from events.columns import I64
from events.topology import LINK_GROUP
from processors.placement.devices.board import DeviceBoard, Islands
from processors.placement.devices.layouts import HostLayout
from processors.placement.devices.needs import DeviceNeed
from processors.placement.devices.states import GROUP
from processors.placement.fewest_groups import fewest_groups
from processors.placement.host_tree import Tree
from processors.placement.neighbours import Request

SPARE = 64
"""So many tasks more than it has a gang looks for room, so that it takes the least that suffices."""


def is_in_one(requests: Sequence[Request]) -> bool:
    """Whether all tasks of a unit must be in one link group: by `within`, or since which member is of which segment
    isn't known for members that ask different things.
    """
    rules = requests[0].rules.rules
    segments = len(requests) > 1 and rules.segments and rules.nearness == LINK_GROUP
    return bool(rules.whole_within == LINK_GROUP or segments) and sum(each.size for each in requests) > 1


def in_one(requests: Sequence[Request], hosts: Sequence[int]) -> Iterator[Sequence[Request]]:
    """The unit in each link group of some hosts, in their order, that may hold all of it; of one host that with least
    room first. Tasks without devices are on the host; a unit without is nowhere.
    """
    parts = [each for each in requests if each.rules.devices is not None and each.rules.board is not None]
    rooms = [_rooms(each, np.array(hosts, dtype=np.int64)) for each in parts]
    by_host: dict[int, list[tuple[int, str]]] = {}
    for (host, name), room in rooms[0].items() if rooms else ():
        if all(of_part.get((host, name), 0) >= each.size for of_part, each in zip(rooms, parts, strict=True)):
            by_host.setdefault(host, []).append((room, name))
    for host in hosts:
        for _, name in sorted(by_host.get(host, ()), key=lambda each: each[0]):
            yield [_pinned(each, host, name, each.size) for each in requests]


def near(request: Request, fit: I64, tree: Tree) -> tuple[int, list[list[Request]]] | None:
    """A gang of tasks that are alike in the fewest link groups, near each other in the tree, in each a multiple of a
    segment: the number of these, and the tasks for each; None: there is no such choice. `fit`: how many tasks each host
    holds.
    """
    need, board = _asked(request)
    segment = request.rules.rules.segments or 1
    islands = board.islands(need, np.flatnonzero(fit), request.size + SPARE)
    room = capped(islands, fit, segment)
    if request.rules.limit is not None:
        groups, most = request.rules.limit
        room = _capped(room, groups[islands.hosts], most // segment)
    above = [islands.hosts, *(level[islands.hosts] for level in tree.above)]
    groups_taken = fewest_groups(room, above, request.size // segment)
    if groups_taken is None:
        return None
    return len(groups_taken), [
        [_pinned(request, int(islands.hosts[at]), islands.names[at], size * segment)] for at, size in groups_taken
    ]


def capped(islands: Islands, fit: I64, segment: int = 1) -> I64:
    """The segments that link groups hold beside each other, those of most room first, where hosts hold so many tasks:
    the most that so many of them hold together is exact.
    """
    return _capped(islands.room // segment, islands.hosts, fit // segment)


def _capped(room: I64, groups: I64, most: I64) -> I64:
    """The room of items where groups of them hold so much, the largest items first."""
    order = np.lexsort((-room, groups))
    sums = np.cumsum(room[order])
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    before_group = np.repeat((sums - room[order])[first], np.diff(first, append=len(order)))
    before = sums - room[order] - before_group
    out = np.zeros_like(room)
    out[order] = np.clip(most[groups[order]] - before, 0, room[order])
    return out


def shown(layout: HostLayout, name: str) -> str:
    """A link group of a host as users know it, or the card that is one by itself."""
    kind, _, word = name.partition(" ")
    return word if kind == GROUP else layout.ids[int(word)]


def _rooms(request: Request, hosts: I64) -> dict[tuple[int, str], int]:
    need, board = _asked(request)
    islands = board.islands(need, hosts, request.size + SPARE)
    return dict(zip(zip(islands.hosts.tolist(), islands.names, strict=True), islands.room.tolist(), strict=True))


def _asked(request: Request) -> tuple[DeviceNeed, DeviceBoard]:
    """The devices that each task of a request takes, and those there are."""
    need, board = request.rules.devices, request.rules.board
    assert need is not None, "a task without devices is in no link group"
    assert board is not None, "nobody has devices"
    return need, board


def _pinned(request: Request, host: int, name: str, size: int) -> Request:
    there = np.zeros_like(request.open_)
    there[host] = request.open_[host]
    rules = copy(request.rules)  # kept up with those of the job, whose counts they share
    rules.devices = rules.devices._replace(group=name) if rules.devices is not None else None
    return request._replace(open_=there, size=size, rules=rules)
