"""The hosts that are drained for a unit: a complete set, with the least work to leave."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from events.columns import I64
from processors.placement.gang_search import Part
from processors.placement.packing import Mask, fits, scores

Amount = tuple[int, int]
"""The work that has to leave, scored: the part that isn't preemptible, and all."""


class Ground(NamedTuple):
    """The amounts on the hosts, [kinds + 1, hosts] each."""

    free: I64
    """Free and not held for others; below 0 where more is held than is free."""
    leaves: I64
    """Free when all batch work has left."""
    preemptible: I64
    """The part of that which is preemptible."""
    weight: I64


def drain(ground: Ground, parts: Sequence[Part], blocked: Mask) -> list[tuple[int, int, int]] | None:
    """Host, index of the part and tasks, so that all parts of a unit fit when batch work has left these hosts; None:
    there aren't enough. Where least has to leave that isn't preemptible, then where least has to leave.
    """
    put = np.zeros_like(ground.free)
    places: dict[tuple[int, int], int] = {}
    for index in sorted(range(len(parts)), key=lambda at: -parts[at].score):
        part = parts[index]
        room = np.zeros(len(put[0]), dtype=np.int64)
        open_ = np.flatnonzero(part.open_ & ~blocked)
        room[open_] = fits(ground.free + ground.leaves - put, part.need, open_, min(part.size, part.most))
        if int(room.sum()) < part.size:
            return None
        need = np.array(part.need, dtype=np.int64)
        hosts = _cheapest(ground, put, need, np.flatnonzero(room))[: part.size]
        heap = [(_more(ground, put, need, host), host) for host in hosts]
        heapify(heap)
        for _ in range(part.size):
            _, host = heappop(heap)
            places[host, index] = places.get((host, index), 0) + 1
            put[:, host] += need
            if places[host, index] < room[host]:
                heappush(heap, (_more(ground, put, need, host), host))
    return [(host, part, tasks) for (host, part), tasks in sorted(places.items())]


def _cheapest(ground: Ground, put: I64, need: I64, hosts: I64) -> list[int]:
    """Hosts by what has to leave for one task more."""
    lack, firm = _lack(ground, put[:, hosts] + need[:, None], hosts)
    cheapest: list[int] = hosts[np.lexsort((hosts, lack, firm))].tolist()
    return cheapest


def _more(ground: Ground, put: I64, need: I64, host: int) -> Amount:
    """The work that has to leave in addition for one task more."""
    at = np.array([host, host])
    lack, firm = _lack(ground, np.stack([put[:, host], put[:, host] + need], axis=1), at)
    return int(firm[1] - firm[0]), int(lack[1] - lack[0])


def _lack(ground: Ground, put: I64, hosts: I64) -> tuple[I64, I64]:
    """The work that has to leave for tasks put on hosts, and the part of it that isn't preemptible, scored."""
    lack = np.maximum(put - np.maximum(ground.free[:, hosts], 0), 0)
    return scores(lack, ground.weight), scores(np.maximum(lack - ground.preemptible[:, hosts], 0), ground.weight)
