"""What a user may rely on, rule by rule; the random clusters of `test_equal.py` mix them."""

import numpy as np
import pytest

from processors.placement.engine.columns import BALANCED, LOAD_AWARE, SPREAD
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import Request, Shape


def racks(names="abc", hosts=8, capacity=(10, 10)):
    engine = Engine(len(capacity))
    for at in range(hosts * len(names)):
        engine.host(at, capacity, capacity, True, {"rack": names[at // hosts]})
    return engine


def by_rack(engine, hosts):
    values = [engine.attributes.hosts[host]["rack"] for host in hosts.tolist()]
    return {name: values.count(name) for name in sorted({*values})}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ((("a", 50),), {"a": 6, "b": 3, "c": 3}),
        ((("a", 0),), {"b": 6, "c": 6}),
        ((("a", 100),), {"a": 12}),
    ],
)
def test_a_target_for_one_rack_leaves_the_rest_evenly_to_the_others(targets, expected):
    engine = racks()
    (hosts,) = engine.place([Request(Shape((1, 1), over="rack"), 12, targets=targets)])
    assert by_rack(engine, hosts) == expected


def test_a_full_rack_s_target_goes_elsewhere_if_it_is_a_wish_and_waits_if_not():
    engine = racks(hosts=2, capacity=(2, 2))
    shape = Shape((1, 1), over="rack")
    (wished,) = engine.place([Request(shape, 6, targets=(("a", 100),))])
    engine.rollback()
    (hard,) = engine.place([Request(shape, 6, targets=(("a", 100),), total=6)])
    assert by_rack(engine, wished) == {"a": 4, "b": 2} or by_rack(engine, wished) == {"a": 4, "b": 1, "c": 1}
    assert by_rack(engine, hard) == {"a": 4}


def test_the_first_of_those_who_want_one_another_by_two_labels_goes_anywhere():
    engine = racks()
    shape = Shape((1, 1), carries=("x", "y"), wants=(("x", "rack"), ("y", "rack")))
    (hosts,) = engine.place([Request(shape, 4, whole=True)])
    assert len(by_rack(engine, hosts)) == 1


def test_two_that_want_each_other_and_nobody_else_wait():
    engine = racks()
    a, b = Shape((1, 1), carries=("a",), wants=(("b", "rack"),)), Shape((1, 1), carries=("b",), wants=(("a", "rack"),))
    assert [len(hosts) for hosts in engine.place([Request(a, 1), Request(b, 1)])] == [0, 0]


def test_who_is_shunned_keeps_away_too():
    engine = racks("ab", hosts=1)
    shy, loud = Shape((1, 1), shuns=(("loud", "rack"),)), Shape((1, 1), carries=("loud",))
    first, second, third = engine.place([Request(shy, 1), Request(loud, 1), Request(shy, 2)])
    assert first.tolist() == [0]
    assert second.tolist() == [1]
    assert third.tolist() == [0, 0]


def test_a_job_by_itself_shares_its_host_with_its_own_tasks_alone():
    engine = racks("a", hosts=2)
    alone, other = Shape((1, 1), exclusive=True), Shape((1, 1))
    mine, theirs = engine.place([Request(alone, 3), Request(other, 3)])
    assert mine.tolist() == [0, 0, 0]
    assert theirs.tolist() == [1, 1, 1]
    (more,) = engine.place([Request(alone, 2, job=np.array([[0, 3]]))])
    assert more.tolist() == [0, 0]
    (others,) = engine.place([Request(alone, 1)])
    assert not len(others)


def test_a_limit_counts_the_job_s_tasks_that_are_there():
    engine = racks("a", hosts=3, capacity=(100, 100))
    (hosts,) = engine.place([Request(Shape((1, 1), limit=13), 39, job=np.array([[0, 10], [1, 13]]))])
    assert np.bincount(hosts, minlength=3).tolist() == [3, 0, 13]


def test_a_gang_within_a_rack_takes_the_one_that_holds_it():
    engine = racks("abc", hosts=2, capacity=(4, 4))
    engine.place([Request(Shape((3, 3)), 1)])  # on rack a, which is best now and holds too few
    (hosts,) = engine.place([Request(Shape((2, 2)), 4, whole=True, within="rack")])
    assert by_rack(engine, hosts) == {"b": 4}
    (none,) = engine.place([Request(Shape((2, 2)), 5, whole=True, within="rack")])
    assert not len(none)


def test_the_skew_counts_full_racks():
    engine = racks("abc", hosts=1, capacity=(5, 5))
    engine.host(0, (1, 1), (5, 5), True, {"rack": "a"})
    (hosts,) = engine.place([Request(Shape((1, 1), over="rack", skew=1), 9)])
    assert by_rack(engine, hosts) == {"a": 1, "b": 2, "c": 2}


def test_the_desired_host_goes_before_a_better_one_if_it_can():
    engine = racks("a", hosts=4)
    engine.host(2, (1, 1), (10, 10), True, {"rack": "a"})
    shape = Shape((2, 2))
    desired, full = engine.place([Request(shape, 1, desired=3), Request(shape, 1, desired=2)])
    assert desired.tolist() == [3]
    assert full.tolist() != [2]


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
