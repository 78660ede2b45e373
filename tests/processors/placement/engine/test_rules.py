"""What a user may rely on, rule by rule; the random clusters of `test_equal.py` mix them."""

import numpy as np

from processors.placement.engine.columns import BALANCED, LOAD_AWARE, SPREAD
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import Request, Shape


def racks(names="abc", hosts=8, capacity=(10, 10)):
    engine = Engine(len(capacity))
    for at in range(hosts * len(names)):
        engine.host(at, capacity, capacity, True, {"rack": names[at // hosts]})
    return engine


def test_a_limit_counts_the_job_s_tasks_that_are_there():
    engine = racks("a", hosts=3, capacity=(100, 100))
    (hosts,) = engine.place([Request(Shape((1, 1), limit=13), 39, job=np.array([[0, 10], [1, 13]]))])
    assert np.bincount(hosts, minlength=3).tolist() == [3, 0, 13]


def test_strategies_choose_the_full_the_empty_the_even_and_the_idle_host():
    engine = Engine(2)
    for host, (free, load) in enumerate((((5, 9), 60), ((9, 9), 50), ((5, 7), 40), ((7, 9), 1))):
        engine.host(host, free, (10, 10), True, {}, load)
    chosen = []
    for strategy in (0, SPREAD, BALANCED, LOAD_AWARE):
        chosen += engine.place([Request(Shape((1, 1), strategy), 1)])[0].tolist()
        engine.rollback()
    assert chosen == [2, 1, 1, 3]


def test_a_gang_that_failed_is_tried_again_once_there_is_room():
    engine = racks("a", hosts=3, capacity=(2, 2))
    shape = Shape((1, 1))
    assert not len(engine.place([Request(shape, 7, whole=True)])[0])
    assert not len(engine.place([Request(shape, 7, whole=True)])[0])
    engine.host(1, (3, 3), (3, 3), True, {"rack": "a"})
    assert len(engine.place([Request(shape, 7, whole=True)])[0]) == 7


def test_synchronising_settles_what_was_decided_and_forgets_what_was_not():
    engine, twin = Engine(1), Engine(1)
    free = np.array([[4, 3, 2]])
    up, tasks, shape = np.ones(3, dtype=np.bool_), np.zeros(3, dtype=np.int64), Shape((2,))
    for one in (engine, twin):
        assert one.synchronise(free, free, up, tasks, tasks) == 3
    assert engine.place([Request(shape, 1)])[0].tolist() == [2]
    assert engine.synchronise(free - [[0, 0, 2]], free, up, np.array([0, 0, 1]), tasks) == 0
    engine.place([Request(shape, 2)])
    assert engine.synchronise(free, free, up, tasks, tasks) == 3
    assert [hosts.tolist() for hosts in engine.place([Request(shape, 4)])] == [
        hosts.tolist() for hosts in twin.place([Request(shape, 4)])
    ]
