"""Topology: the racks of gangs that want to be near, beside those that the rules of Slurm and Kueue choose.

Clusters of two zones, rows, and racks of hosts with one place each, drawn by seed. `snapshot`: one gang comes to racks
that are full by chance; `churn`: gangs come and end on a cluster that is mostly full, on which each rule has placed all
before. A gang comes in where the cluster has room for it, which is the same for all rules.
"""

import heapq
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench import Options, Result, sized
from bench._topology_rules import RULES, Rule
from events.columns import I64

ZONES, ROWS, RACKS, HOSTS = 2, 4, 8, 16
"""Zones of the cell, rows of a zone, racks of a row, hosts of a rack."""
SIZES = (1, 2, 2, 4, 4, 8, 8, 16, 16, 24, 32, 48, 64, 96)
"""Members of gangs, as likely as they are named."""
SNAPSHOTS = sized(1_500, 30)
GANGS = sized(3_000, 60)
LOAD_PERCENT = 90
"""So much of a cluster gangs would take if none was refused."""
SEED = 1


class Cluster(NamedTuple):
    """The room of each rack, and the row and zone of each."""

    room: I64
    above: tuple[I64, I64]


class Used(NamedTuple):
    """The racks and rows that gangs of several members are on, in sum, and the gangs."""

    racks: int = 0
    rows: int = 0
    gangs: int = 0

    def more(self, cluster: Cluster, racks: list[int]) -> "Used":
        """The sums with one gang more."""
        rows = len({int(cluster.above[0][rack]) for rack in racks})
        return Used(self.racks + len(racks), self.rows + rows, self.gangs + 1)


def run(log: str, options: Options) -> Result:
    """Without a log: choosing racks alone."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    for name, rule in RULES.items():
        begin = time.process_time()
        both = {"snapshot": snapshots(rule), "churn": churn(rule)}
        seconds = time.process_time() - begin
        into = figures if name == "near" else references
        for part, sums in both.items():
            into[f"{part}_{name}_racks_per_gang"] = sums.racks / sums.gangs
            into[f"{part}_{name}_rows_per_gang"] = sums.rows / sums.gangs
        into[f"{name}_gangs_per_s"] = sum(sums.gangs for sums in both.values()) / seconds
    references["snapshot_fewest_racks_per_gang"] = fewest()
    targets = {"snapshot_near_racks_per_gang": references["snapshot_fewest_racks_per_gang"]}
    for part in ("snapshot", "churn"):
        others = (references[f"{part}_{name}_racks_per_gang"] for name in RULES if name != "near")
        targets.setdefault(f"{part}_near_racks_per_gang", min(others))
    return Result(figures, references, targets)


def empty() -> Cluster:
    """A cluster on which nothing runs."""
    rack = np.arange(ZONES * ROWS * RACKS)
    return Cluster(np.full(len(rack), HOSTS), (rack // RACKS, rack // (RACKS * ROWS)))


def snapshots(rule: Rule) -> Used:
    """The racks of gangs that come to racks of which more or less is free."""
    sums = Used()
    for cluster, size in _drawn():
        sums = sums.more(cluster, [each.number for each in rule(cluster.room, cluster.above, size)])
    return sums


def fewest() -> float:
    """The fewest racks that hold these gangs, wherever they are."""
    counts = [int(np.searchsorted(np.cumsum(-np.sort(-each.room)), size)) + 1 for each, size in _drawn()]
    return sum(counts) / len(counts)


def _drawn() -> Iterator[tuple[Cluster, int]]:
    draw = random.Random(SEED)
    for _ in range(SNAPSHOTS):
        cluster, free = empty(), draw.choice((5, 15, 30, 60))
        for rack in range(len(cluster.room)):
            cluster.room[rack] = sum(draw.randrange(100) < free for _ in range(HOSTS))
        size = draw.choice([size for size in SIZES if size > 1])
        if size <= cluster.room.sum():
            yield cluster, size


def churn(rule: Rule) -> Used:
    """The racks of gangs that come and end over time, where all before were placed by the rule."""
    draw, cluster, sums = random.Random(SEED), empty(), Used()
    mean = sum(SIZES) / len(SIZES)
    every = round(1_000 * mean * 100 / (len(cluster.room) * HOSTS * LOAD_PERCENT))
    ends: list[tuple[int, int, list[tuple[int, int]]]] = []
    for number in range(GANGS):
        size, ms = draw.choice(SIZES), round(draw.expovariate(1) * 1_000)
        while ends and ends[0][0] <= number * every:
            for rack, tasks in heapq.heappop(ends)[2]:
                cluster.room[rack] += tasks
        if size > cluster.room.sum():
            continue
        groups = rule(cluster.room, cluster.above, size)
        for each in groups:
            cluster.room[each.number] -= each.size
        heapq.heappush(ends, (number * every + ms, number, [(each.number, each.size) for each in groups]))
        if size > 1:
            sums = sums.more(cluster, [each.number for each in groups])
    return sums
