"""Placement: tasks a second onto large clusters, and what a changed host costs. Decision work alone, on one core.

Beside each figure stands the naive pass in the same run: numpy over all hosts for each task, by the same key, as many
tasks as a second and a half allows; its hosts are compared with those of the engine.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bench import Options, Result, _full, _plan, _reclaim, sized
from events.columns import I64
from processors.placement.engine.board import weights
from processors.placement.engine.columns import BALANCED, FAR, HOST_BITS, NONE, PACK, RANK_AT, SCORE_MAX, SPREAD, Ruled
from processors.placement.engine.compiled import Kernels
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import Request, Shape
from processors.runtime import kernel_cache

HOSTS = sized(50_000, 1_000)
NAIVE_S = sized(1500, 50) / 1000
REPEATS = sized(5, 1)
RACKS = 50
TARGETS = {
    "reclaim_39000_cpu_s": 15,
    "reclaim_slope": 1.2,
    "gangs_50000_hosts_tasks_per_s": 5_000_000,
    "mixed_50000_hosts_tasks_per_s": 40_000,
    "yunikorn_shape_tasks_per_s": 5_000_000,
    "yunikorn_jobs_per_s": 500_000,
    "armada_shape_tasks_per_s": 500_000,
    "nomad_shape_tasks_per_s": 1_000_000,
    "nomad_spread_tasks_per_s": 100_000,
    "changed_host_ms": 2,
    "full_start_s": 5,
    "full_memory_mib": 512,
    "full_round_ms": 3,
    "plan_s": 2,
}


class Among(NamedTuple):
    """Conditions of the bench: each attribute must have one of some values."""

    must: tuple[tuple[str, frozenset[str]], ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes, each once."""
        return tuple(name for name, _ in self.must)

    def rank(self, values: dict[str, str]) -> int:
        """0 where all are met."""
        return 0 if all(values.get(name) in allowed for name, allowed in self.must) else -1


class Naive:
    """The same choice by a pass over all hosts for each task."""

    def __init__(self, engine: Engine) -> None:
        hosts, c = engine.hosts, engine.columns
        self.free, self.capacity = c.free[1:, :hosts].copy(), c.capacity[1:, :hosts]
        weight, shift = weights(self.capacity.max(axis=1).tolist())
        self.weight, self.shift = np.array(weight)[:, None], np.array(shift)[:, None]
        self.inverse = (1 << 30) // np.maximum(self.capacity >> self.shift, 1)
        self.numbers = np.arange(hosts)
        self.level = np.zeros(hosts, dtype=np.int64)

    def host(self, shape: Shape, rank: np.ndarray, group: np.ndarray | None = None) -> int:
        """Puts one task; returns its host, -1: none."""
        need = np.array(shape.need)[:, None]
        open_ = ((self.free >= need) | (need == 0)).all(axis=0) & (rank >= 0)
        k = ((np.maximum(self.free, 0) >> self.shift) * self.weight).sum(axis=0)
        score = k if shape.strategy == PACK else SCORE_MAX - k
        if shape.strategy == BALANCED:
            kinds = np.flatnonzero(need[:, 0])
            used = (self.capacity[kinds] - self.free[kinds] + need[kinds]) >> self.shift[kinds]
            share = (used * self.inverse[kinds]) >> 20
            score = (np.minimum(share.max(axis=0) - share.min(axis=0), 1023) << 26) | (k >> 10)
        key = np.where(open_, (rank.astype(np.int64) << RANK_AT) | (score << HOST_BITS) | self.numbers, NONE)
        level = self.level if group is None else np.bincount(group, self.level).astype(np.int64)[group]
        if shape.strategy == SPREAD or group is not None:
            level = np.where(open_, level, NONE)
            key = np.where(level == level.min(), key, NONE)
        host = int(np.argmin(key))
        if key[host] == NONE:
            return -1
        self.free[:, host] -= need[:, 0]
        self.level[host] += 1
        return host


def run(log: str, options: Options) -> Result:
    """Decision work writes no log, whichever is asked for; plans and the full cell are on embedded logs."""
    began = time.process_time()
    kernels = kernel_cache.load()
    figures: dict[str, float] = {}
    references: dict[str, float] = {"kernels_s": time.process_time() - began}
    for name, figure, naive in cases(kernels):
        figures[name], references[f"naive_{name}"] = figure, naive
    figures["mixed_50000_hosts_tasks_per_s"] = min(
        figures[f"mixed_{name}_50000_hosts_tasks_per_s"] for name in ("pack", "spread", "balanced")
    )
    figures["engine_memory_mib"] = memory(kernels)
    for more in (_plan.run(options.folder / "plan"), _full.figures(options.folder / "full")):
        figures |= more[0]
        references |= more[1]
    figures |= _reclaim.figures()
    return Result(figures, references, TARGETS)


def cases(kernels: Kernels) -> Iterator[tuple[str, float, float]]:
    """Each case: its name, its figure, and that of the naive pass."""
    yield "gangs_50000_hosts_tasks_per_s", *gangs(kernels)
    for name, strategy in (("pack", PACK), ("spread", SPREAD), ("balanced", BALANCED)):
        yield f"mixed_{name}_50000_hosts_tasks_per_s", *mixed(kernels, strategy)
    yield "yunikorn_shape_tasks_per_s", *yunikorn(kernels, sized(5_000, 500))
    yield "yunikorn_jobs_per_s", *yunikorn(kernels, 1)
    yield "armada_shape_tasks_per_s", *armada(kernels)
    yield "nomad_shape_tasks_per_s", *nomad(kernels, "")
    yield "nomad_spread_tasks_per_s", *nomad(kernels, "rack")
    yield "changed_host_ms", *changed_host(kernels)
    yield "engine_round_ms", *engine_round(kernels)


def cluster(kernels: Kernels, capacity: Sequence[Sequence[int]], full: float = 0, seed: int = 1) -> Engine:
    """Hosts of these capacities in turn, filled up to a share on the average, in racks, with some attributes."""
    draw = random.Random(seed)
    engine = Engine(len(capacity[0]), kernels)
    for host, one in enumerate(capacity):
        used = min(1.0, max(0.0, draw.gauss(full, 0.15))) if full else 0.0
        attributes = {
            "rack": f"r{host % RACKS}",
            "zone": draw.choice("abc"),
            "disk": draw.choice(("ssd", "hdd", "nvme")),
            "os": draw.choice(("12", "13")),
        }
        engine.host(host, [round(each * (1 - used)) for each in one], one, True, attributes)
    return engine


def mixed_capacity(hosts: int) -> list[list[int]]:
    """Four sizes of hosts: mCPU, MiB, MiB of disk, ports."""
    sizes = [[32_000, 128 << 10, 1 << 20, 10_000], [64_000, 256 << 10, 2 << 20, 10_000]]
    sizes += [[16_000, 128 << 10, 1 << 20, 10_000], [96_000, 384 << 10, 4 << 20, 10_000]]
    return [sizes[host % 4] for host in range(hosts)]


def timed(call: Callable[[], object]) -> float:
    """Seconds of CPU."""
    began = time.process_time()
    call()
    return time.process_time() - began


def compared(naive: Naive, asks: Iterator[tuple[Shape, np.ndarray, bool]], ours: I64) -> float:
    """Tasks a second of the naive pass; raises where it chooses other hosts than ours. An ask: a shape, the ranks of
    hosts, and whether a job begins.
    """
    done, began = 0, time.process_time()
    for shape, rank, fresh in asks:
        if fresh:
            naive.level[:] = 0
        host = naive.host(shape, rank)
        if done >= len(ours) or host != ours[done]:
            raise SystemExit(f"the naive pass puts task {done} on host {host}, not on {ours[done : done + 1]}")
        done += 1
        if time.process_time() - began > NAIVE_S or done == len(ours):
            break
    return done / (time.process_time() - began)


def gangs(kernels: Kernels) -> tuple[float, float]:
    """Gangs of 1,000 equal tasks onto hosts that are 75 % full, each gang of another shape."""
    engine = cluster(kernels, mixed_capacity(HOSTS), 0.75)
    naive, draw = Naive(engine), random.Random(2)
    size, count = sized(1_000, 100), sized(50, 3)
    shapes = [Shape((draw.randrange(500, 4000), draw.randrange(1 << 9, 1 << 13), 0, 0)) for _ in range(count)]
    numbers = np.array([engine.number(shape) for shape in shapes])
    times, hosts = [], []
    for number in numbers.tolist():
        began = time.process_time()
        out, placed = engine.place_columns(np.array([number]), np.array([size]), np.array([1]))
        times.append(time.process_time() - began)
        hosts.append(out[: placed[0]])
    everywhere = np.zeros(engine.hosts, dtype=np.int8)
    asks = ((shape, everywhere, at == 0) for shape in shapes for at in range(size))
    return size / statistics.median(times), compared(naive, asks, np.concatenate(hosts))


def mixed(kernels: Kernels, strategy: int) -> tuple[float, float]:
    """Single tasks of 500 shapes with conditions, hosts 75 % full."""
    engine = cluster(kernels, mixed_capacity(HOSTS), 0.75)
    draw = random.Random(3)
    shapes = []
    for _ in range(sized(500, 50)):
        must = [("zone", "abc", 2), ("disk", ("ssd", "hdd", "nvme"), 2), ("os", ("12", "13"), 1)]
        must_have = tuple((name, frozenset(draw.sample(values, count))) for name, values, count in draw.sample(must, 2))
        need = (
            draw.randrange(100, 4000),
            draw.randrange(1 << 8, 1 << 13),
            draw.choice((0, 1 << 10)),
            draw.choice((0, 2)),
        )
        shapes.append(Shape(need, strategy, Among(must_have) if draw.random() < 0.8 else None))
    numbers = np.array([engine.number(shape) for shape in shapes])
    tasks = sized(20_000, 500)
    order = np.array([draw.randrange(len(shapes)) for _ in range(tasks)])
    one = np.ones(tasks, dtype=np.int64)
    engine.place_columns(numbers, one[: len(numbers)], one[: len(numbers)])  # all shapes have bounds
    engine.settle()
    naive = Naive(engine)
    ranks = [engine.columns.ranks[engine._sets[shape.conditions], : engine.hosts] for shape in shapes]
    began = time.process_time()
    out, placed = engine.place_columns(numbers[order], one, one)
    rate = tasks / (time.process_time() - began)
    asks = ((shapes[at], ranks[at], True) for at in order.tolist())
    return rate, compared(naive, asks, out[placed == 1])


def yunikorn(kernels: Kernels, size: int) -> tuple[float, float]:
    """10,000 equal tasks in two pools on 5,000 hosts, in jobs of a size."""
    rates = []
    for _ in range(REPEATS):
        engine = cluster(kernels, [[16_000, 64 << 10]] * sized(5_000, 500))
        naive, tasks = Naive(engine), sized(10_000, 1_000)
        shapes = [Shape((100, 256)), Shape((100, 320))]
        numbers = np.array([engine.number(shape) for shape in shapes])
        of_job = numbers[np.arange(tasks // size) % 2]
        for number in numbers.tolist():
            engine.slot(number)
        began = time.process_time()
        out, _ = engine.place_columns(of_job, np.full(len(of_job), size), np.ones(len(of_job), dtype=np.int64))
        rates.append(tasks / (time.process_time() - began))
    everywhere = np.zeros(engine.hosts, dtype=np.int8)
    asks = ((shapes[at], everywhere, True) for at in np.repeat(of_job - numbers[0], size).tolist())
    return statistics.median(rates), compared(naive, asks, out)


def armada(kernels: Kernels) -> tuple[float, float]:
    """One-task jobs that fill 1,000 hosts of 32 CPU and 256 GiB."""
    hosts, rates = sized(1_000, 50), []
    for _ in range(REPEATS):
        engine = cluster(kernels, [[32_000, 256 << 10]] * hosts)
        naive, shape = Naive(engine), Shape((1_000, 4 << 10))
        jobs = np.full(32 * hosts, engine.number(shape))
        one = np.ones_like(jobs)
        began = time.process_time()
        out, placed = engine.place_columns(jobs, one, one)
        rates.append(len(jobs) / (time.process_time() - began))
        if not placed.all():
            raise SystemExit("the cluster isn't full")
    everywhere = np.zeros(hosts, dtype=np.int8)
    return statistics.median(rates), compared(naive, ((shape, everywhere, True) for _ in jobs), out)


def nomad(kernels: Kernels, over: str) -> tuple[float, float]:
    """A job of 1,200 tasks on 10,000 hosts in 50 racks, of which it may use every other one."""
    rates, tasks = [], sized(1_200, 100)
    racks = frozenset(f"r{number}" for number in range(0, RACKS, 2))
    shape = Shape((6_000, 6_000), conditions=Among((("rack", racks),)), over=over)
    for _ in range(REPEATS):
        engine = cluster(kernels, [[14_000, 32_000]] * sized(10_000, 500))
        naive = Naive(engine)
        engine.slot(engine.number(shape))
        began = time.process_time()
        if over:
            hosts = engine.place_ruled(shape, tasks, evenly(engine, over, tasks))
        else:
            (hosts,) = engine.place([Request(shape, tasks, True)])
        rates.append(tasks / (time.process_time() - began))
    rank = engine.columns.ranks[engine._sets[shape.conditions], : engine.hosts]
    group = np.arange(engine.hosts) % RACKS if over else None
    done, began = 0, time.process_time()
    while done < tasks and time.process_time() - began < NAIVE_S:
        if naive.host(shape, rank, group) != hosts[done]:
            raise SystemExit(f"the naive pass puts task {done} elsewhere")
        done += 1
    return statistics.median(rates), done / (time.process_time() - began)


def evenly(engine: Engine, over: str, tasks: int) -> Ruled:
    """The rules of a new job that is spread evenly over the values of an attribute, and has no others."""
    none, groups = np.zeros(0, dtype=np.int64), int(engine.attributes.column(over).max()) + 1
    return Ruled(
        closed=np.zeros(engine.hosts, dtype=np.int8),
        own=np.zeros(engine.hosts, dtype=np.int64),
        limit=np.array([FAR, 0]),
        apart=none,
        groups=np.zeros((0, engine.hosts), dtype=np.int64),
        counts=np.zeros((0, 1), dtype=np.int64),
        totals=none,
        over=np.repeat(np.array([[0], [1], [tasks], [1]]), groups, axis=1),
    )


def changed_host(kernels: Kernels) -> tuple[float, float]:
    """Milliseconds in which one host gets other attributes, and a task of each of 300 sets of conditions is tried that
    fits nowhere; beside it a look at every host for each set.
    """
    hosts, sets = sized(10_000, 500), sized(300, 20)
    engine = cluster(kernels, mixed_capacity(hosts))
    draw = random.Random(4)
    racks = [f"r{number}" for number in range(RACKS)]
    shapes = []
    for _ in range(sets):
        must = (("rack", frozenset(draw.sample(racks, 20))), ("zone", frozenset(draw.sample("abc", 2))))
        must += (
            ("disk", frozenset(draw.sample(("ssd", "hdd", "nvme"), 2))),
            ("os", frozenset(draw.sample(("12", "13"), 1))),
        )
        shapes.append(Shape((1 << 30, 0, 0, 0), conditions=Among(must)))
    numbers = np.array([engine.number(shape) for shape in shapes])
    one = np.ones_like(numbers)
    engine.place_columns(numbers, one, one)
    times = []
    for turn in range(sized(20, 2)):
        host = draw.randrange(hosts)
        before = engine.attributes.hosts[host]
        capacity = engine.columns.capacity[1:, host].tolist()
        began = time.process_time()
        engine.host(host, capacity, capacity, True, {**before, "rack": racks[turn]})
        engine.place_columns(numbers, one, one)
        times.append(time.process_time() - began)
    naive = Naive(engine)
    some = min(sets, 5)
    took = timed(lambda: [naive.host(shape, engine._ranks[1].all(engine.attributes)) for shape in shapes[:some]])
    return statistics.median(times) * 1000, took / some * sets * 1000


def engine_round(kernels: Kernels) -> tuple[float, float]:
    """Milliseconds of the engine in a round of a full cell: 100 tasks have ended, 100 of 500 shapes come; beside it a
    look at all hosts for each of those.
    """
    engine = cluster(kernels, mixed_capacity(HOSTS), 0.9)
    draw, tasks = random.Random(5), sized(100, 10)
    shapes = [Shape((draw.randrange(100, 4000), draw.randrange(1 << 8, 1 << 13), 0, 0)) for _ in range(sized(500, 20))]
    numbers = np.array([engine.number(shape) for shape in shapes])
    one = np.ones(tasks, dtype=np.int64)
    for at in range(0, len(numbers), tasks):  # all have bounds
        engine.place_columns(numbers[at : at + tasks], one[: len(numbers[at : at + tasks])], one[: len(numbers[at:])])
    capacity = engine.columns.capacity[1:, : engine.hosts].copy()
    up, none, times = np.ones(engine.hosts, dtype=np.bool_), np.zeros(engine.hosts, dtype=np.int64), []
    for _ in range(sized(20, 2)):
        free = engine.columns.free[1:, : engine.hosts].copy()
        ended = [draw.randrange(engine.hosts) for _ in range(tasks)]
        free[:2, ended] = np.minimum(free[:2, ended] + 500, capacity[:2, ended])
        come = numbers[[draw.randrange(len(numbers)) for _ in range(tasks)]]
        began = time.process_time()
        engine.synchronise(free, capacity, up, none, none)
        engine.place_columns(come, one, one)
        times.append(time.process_time() - began)
    naive, everywhere = Naive(engine), np.zeros(engine.hosts, dtype=np.int8)
    took = timed(lambda: [naive.host(shape, everywhere) for shape in shapes[: sized(100, 10)]])
    return statistics.median(times) * 1000, took * 1000


def memory(kernels: Kernels) -> float:
    """MiB of an engine with all hosts, 500 shapes and as many sets of conditions."""
    engine = cluster(kernels, mixed_capacity(HOSTS))
    for number in range(sized(500, 20)):
        must = Among((("rack", frozenset({f"r{number}"})),))
        engine.slot(engine.number(Shape((number + 1, 1, 0, 0), conditions=must)))
    size = sum(column.nbytes for column in engine.columns)
    return size / 2**20
