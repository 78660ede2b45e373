"""What the bench of racks compares: a gang that wants to be near never has more racks than others would give it."""

import random

import numpy as np
import pytest

from bench import topology
from bench._topology_rules import RULES, kueue, near, slurm
from tests.helpers.drawn import seeds

ROWS, ZONES = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1])


@seeds(2_000, suite=100)
def test_a_gang_that_wants_to_be_near_never_has_more_racks_than_by_another_rule(seed: int) -> None:
    draw = random.Random(seed)
    room = np.array([draw.randrange(9) for _ in ROWS])
    if not room.any():
        return
    size = draw.randint(1, int(room.sum()))
    chosen = {name: rule(room, (ROWS, ZONES), size) for name, rule in RULES.items()}
    for groups in chosen.values():
        assert sum(each.size for each in groups) == size
        assert all(0 < each.size <= room[each.number] for each in groups)
    assert len(chosen["near"]) == min(map(len, chosen.values()))


def test_slurm_takes_the_lowest_switch_and_there_the_tightest_leaf() -> None:
    room = np.array([4, 3, 5, 2, 9, 9])
    assert slurm(room, (ROWS, ZONES), 7) == [(4, 7)]
    assert slurm(room, (ROWS, ZONES), 12) == [(4, 9), (5, 3)]
    assert slurm(np.array([4, 3, 5, 2, 3, 1]), (ROWS, ZONES), 7) == [(0, 4), (1, 3)]


def test_kueue_takes_one_domain_as_low_as_it_can_and_below_it_the_largest() -> None:
    room = np.array([4, 3, 5, 2, 3, 1])
    assert kueue(room, (ROWS, ZONES), 5) == [(2, 5)]
    assert kueue(room, (ROWS, ZONES), 7) == [(0, 4), (1, 3)]
    assert kueue(room, (ROWS, ZONES), 9) == [(2, 5), (0, 4)]


def test_fewer_racks_go_before_one_row() -> None:
    assert near(np.array([4, 3, 3, 3, 0, 9]), (ROWS, ZONES), 12) == [(5, 9), (1, 3)]
    assert len(slurm(np.array([4, 3, 3, 3, 0, 9]), (ROWS, ZONES), 12)) == 4


@pytest.mark.parametrize("rule", RULES.values())
def test_gangs_come_and_end_on_a_cluster_that_holds_them(rule, monkeypatch) -> None:
    monkeypatch.setattr(topology, "GANGS", 50)
    assert topology.churn(rule).gangs > 30
