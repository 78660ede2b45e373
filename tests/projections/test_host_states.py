"""Tests of the state of a host."""

import itertools

import numpy as np

from projections.host_states import HostState, conditions, host_state_of
from projections.queries.host_map import STATES, _states

NAMES = ("lost", "silent", "offered", "avoided", "session", "reconciled")
HOSTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(*[(0, 1)] * 4, range(3), range(3))]


def test_a_host_has_the_same_state_alone_and_on_the_map():
    alone = [host_state_of(conditions(**host)) for host in HOSTS]
    columns = {name: np.array([host[name] for host in HOSTS]) for name in NAMES}
    columns["lost"] = columns["lost"] > 0
    assert [STATES[number] for number in _states(conditions(**columns))] == alone
    assert set(alone) == set(HostState)


def test_a_host_is_up_once_it_has_offered_and_its_runs_were_compared_in_this_session():
    host = {"lost": False, "silent": 0, "offered": 1, "avoided": 0, "session": 2, "reconciled": 2}
    assert host_state_of(conditions(**host)) is HostState.UP
    assert host_state_of(conditions(**host | {"avoided": 1})) is HostState.SUSPECTED
    assert host_state_of(conditions(**host | {"reconciled": 1})) is HostState.RETURNING
    assert host_state_of(conditions(**host | {"silent": 1, "avoided": 1})) is HostState.SILENT
    assert host_state_of(conditions(**host | {"silent": 1, "lost": True})) is HostState.LOST
    assert host_state_of(conditions(**dict.fromkeys(NAMES, 0))) is HostState.CONNECTING
