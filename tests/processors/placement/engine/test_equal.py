"""The engine chooses what its twin chooses, over random clusters, with numpy and compiled."""

import random

import numpy as np
import pytest

from processors.placement.engine.compiled import LOOPS, VECTORS, Kernels
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import Request, Shape
from tests.helpers.drawn import seeds
from tests.processors.placement.engine.clusters import Cluster, compare


@pytest.fixture(scope="module")
def compiled_kernels() -> Kernels:
    pytest.importorskip("numba")
    from processors.runtime import kernel_cache

    return kernel_cache.load()


@seeds(1_000, suite=40)
def test_placement_is_that_of_a_look_at_every_host(seed):
    compare(seed, VECTORS, hosts=30)


@seeds(200, suite=5)
def test_the_loops_themselves_say_the_same(seed):
    compare(seed, LOOPS, hosts=30)


@seeds(2_000, suite=40)
def test_compiled_code_says_the_same(seed, compiled_kernels):
    compare(seed, compiled_kernels, hosts=30)


@seeds(range(5_000, 5_050), suite=1)
def test_large_clusters_and_a_long_memory_say_the_same(seed, compiled_kernels):
    compare(seed, compiled_kernels, hosts=400, log=1 << 12, slots=16)


@seeds(200, suite=30)
def test_a_board_that_goes_on_chooses_as_one_made_anew_whatever_decides(seed):
    draw, hosts = random.Random(seed), (20, 128, 300)[seed % 3]
    kernels = ((LOOPS,), (VECTORS, LOOPS))[seed % 2]
    capacity, tasks, up = np.full((2, hosts), 20), np.zeros(hosts, dtype=np.int64), np.ones(hosts, dtype=np.bool_)
    free, kept = capacity.copy(), Engine(2)
    shapes = [Shape((3, 1)), Shape((1, 2)), *(Shape((2, 2), strategy=strategy) for strategy in (1, 2, 3))]
    load = np.full(hosts, 8)
    for _ in range(25):
        fresh, kept.kernels = Engine(2), draw.choice(kernels)
        for engine in (kept, fresh):
            engine.synchronise(free, capacity, up, tasks, load)
        for _ in range(draw.randint(1, 4)):
            request = Request(draw.choice(shapes), draw.choice((1, 2, 5, 20)))
            (ours,), (theirs,) = kept.place([request]), fresh.place([request])
            assert ours.tolist() == theirs.tolist()
            np.subtract.at(free.T, ours, np.array(request.shape.need))
        for host in (draw.randrange(hosts) for _ in range(draw.randint(0, 12))):
            load[host] = draw.choice((8, 8, draw.randint(0, 16)))
            free[:, host] = draw.choice((draw.randint(0, 20), np.minimum(20, free[:, host] + draw.randint(0, 6))))


def test_nothing_is_compiled_while_tasks_are_placed(compiled_kernels):
    before = {name: getattr(compiled_kernels, name).signatures for name in Kernels._fields}
    for seed in range(3):
        cluster = Cluster(seed, compiled_kernels)
        for _ in range(30):
            cluster.turn()
    assert {name: getattr(compiled_kernels, name).signatures for name in Kernels._fields} == before
    assert all(before.values())


def test_what_changes_the_kernels_changes_nothing_else(compiled_kernels):
    """A process begins with numpy and goes on compiled, with the same data."""
    shape, chosen = Shape((3, 1)), []
    for later in (VECTORS, compiled_kernels):
        engine = Engine(2)
        for host in range(300):
            engine.host(host, (host % 17, 20), (16, 20), True, {})
        first = engine.place([Request(shape, 40)])
        engine.kernels = later
        chosen.append([*first, *engine.place([Request(shape, 300), Request(shape._replace(strategy=1), 40)])])
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(*chosen, strict=True))
