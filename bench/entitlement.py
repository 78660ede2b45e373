"""Entitlement: shares of 10,000 pools, admission of a million tasks, what these take, who leaves for 10,000 tasks.

Decision work on one core, without log and driver; what is decided is applied, where more is decided after it.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from bench import Options, Result, sized
from bench._admission import KINDS, SHAPES, leaves_of, pool_paths
from events.cell_settings import KindRow
from events.pool_paths import parent_of
from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow, root_row
from processors.entitlement.shares.tree import ShareTree

POOLS, REPEATS = sized(10_000, 300), sized(7, 1)
CAPACITY, WANT_MAX, RESERVED_MAX = 200_000_000, 100_000, 3_000
TASKS_PER_JOB = 100
TIMEOUT_S = 900


def run(log: str, options: Options) -> Result:
    """No log is written, whichever is asked for."""
    figures: dict[str, float] = {}
    for shape in SHAPES:
        command = [sys.executable, "-m", "bench._admission", shape]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
        figures |= json.loads(done.stdout.splitlines()[-1])
    tree = Drawn(pool_paths(POOLS))
    figures["share_10000_pools_ms"] = tree.whole() * 1000
    naive_s = tree.naive()
    few = Drawn([f"/p{number:03}" for number in range(sized(1000, 50))])
    references = {
        "naive_share_10000_pools_ms": naive_s * 1000,
        "naive_share_one_change_us": naive_s * 1e6,
        "naive_admissions_per_s": TASKS_PER_JOB / few.naive(),
        "naive_memory_mib": 1_000_000 * sys.getsizeof(dict.fromkeys(("job", "instance", "run", "pool"))) / 2**20,
        "naive_victims_10000_ms": sorted_victims() * 1000,
    }
    return Result(figures, references)


class Drawn:
    """A tree of pools with reservations, shares and wants, each of them drawn, saturated."""

    def __init__(self, paths: Sequence[str]) -> None:
        draw = random.Random(1)
        kinds = Kinds([KindRow(name, "milli", None) for name in KINDS])
        self.size = len(kinds)
        self.leaves = set(leaves_of(paths))
        self.rows = {"/": root_row().widened(kinds)}
        sums = {path: [0] * self.size for path in self.rows.keys() | paths}
        for path in reversed(paths):
            if path in self.leaves:
                sums[path] = [draw.choice((0, 0, draw.randint(0, RESERVED_MAX))) for _ in range(self.size)]
            above = sums[parent_of(path)]
            sums[parent_of(path)] = [a + b for a, b in zip(above, sums[path], strict=True)]
            share = tuple(draw.choice((1, 1, 1, 2, 5)) for _ in range(self.size))
            self.rows[path] = PoolRow(tuple(sums[path]), (-1,) * self.size, share)
        self.rows = {path: self.rows[path] for path in ("/", *paths)}
        self.tree = ShareTree(kinds)
        for path, row in self.rows.items():
            self.tree.define(path, row)
        self._draw = draw
        self.want()

    def want(self) -> None:
        """Each pool wants something else."""
        self.wants = {
            path: tuple(self._draw.randint(0, WANT_MAX) if path in self.leaves else 0 for _ in range(self.size))
            for path in self.rows
        }
        for path, want in self.wants.items():
            self.tree.set_want(path, want)
        self.tree.set_capacity((CAPACITY,) * self.size)

    def whole(self) -> float:
        """Measures the seconds in which the entitlements of all pools are computed from their demands."""
        times = []
        for _ in range(REPEATS):
            self.want()
            began = time.process_time()
            all_at_once = self.tree.all()
            times.append(time.process_time() - began)
        if all_at_once != {path: self.tree.entitlement(path) for path in self.rows}:
            raise SystemExit("the whole tree isn't what its paths say")
        return statistics.median(times)

    def naive(self) -> float:
        """Seconds of the same in plain Python, pool by pool."""
        began = time.process_time()
        recomputation = recomputed(self.rows, self.wants, (CAPACITY,) * self.size)
        took = time.process_time() - began
        if recomputation != self.tree.all():
            raise SystemExit("the naive recomputation finds something else")
        return took


def recomputed(rows: dict[str, PoolRow], own: dict[str, Vector], capacity: Vector) -> dict[str, Vector]:
    """Entitlements without turns, limits and share 0: level by level, kind by kind, each pool by sorting."""
    below: dict[str, list[str]] = {path: [] for path in rows}
    for path in sorted(rows):
        if path != "/":
            below[parent_of(path)].append(path)
    by_kind = []
    for kind, total in enumerate(capacity):
        want = {path: amounts[kind] for path, amounts in own.items()}
        for path in sorted(rows, key=lambda path: -path.count("/")):
            if path != "/":
                want[parent_of(path)] += want[path]
        shares = {"/": total}
        for path, children in below.items():
            reserved = [min(want[child], rows[child].reservation[kind]) for child in children]
            rest = [want[child] - have for child, have in zip(children, reserved, strict=True)]
            more = divided(shares[path] - sum(reserved), rest, [rows[child].share[kind] for child in children])
            shares |= {child: sum(parts) for child, *parts in zip(children, reserved, more, strict=True)}
        by_kind.append(shares)
    return {path: tuple(shares[path] for shares in by_kind) for path in rows}


def divided(total: int, wants: list[int], weights: list[int]) -> list[int]:
    """An amount by weight, smallest want for its weight first; the rest to the largest remainders."""
    parts, weight = [0] * len(wants), sum(weights)
    order = sorted(range(len(wants)), key=lambda at: wants[at] * max(weights) ** 2 // weights[at])
    while order and wants[order[0]] * weight <= total * weights[order[0]]:
        at = order.pop(0)
        parts[at] = wants[at]
        total, weight = total - wants[at], weight - weights[at]
    rest = total
    for at in order:
        parts[at] = total * weights[at] // weight
        rest -= parts[at]
    for at in sorted(order, key=lambda at: (-(total * weights[at] % weight), at))[:rest]:
        parts[at] += 1
    return parts


def sorted_victims() -> float:
    """Seconds in which a million tasks are sorted by priority and age to take the first 10,000."""
    draw = random.Random(1)
    tasks = [(draw.randint(0, 9), -draw.randint(0, 1 << 30), at) for at in range(sized(1_000_000, 50_000))]
    began = time.process_time()
    sorted(tasks)[:10_000]
    return time.process_time() - began
