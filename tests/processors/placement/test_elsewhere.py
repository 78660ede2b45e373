"""Tasks that a host couldn't start go elsewhere, where another host has room."""

from typing import Any

import pytest
from msgspec.structs import replace

from events.columns import pack_ints
from events.records.hosts import HostRemovalRequested
from tests.helpers.machines import queued
from tests.processors.placement.harness import World, hosts_of

FIRST, SECOND = ("a", 0, 1), ("a", 0, 2)
AGAIN = ("a", 0, 1, 2, 0)


def kept_from(host: str) -> Any:
    return replace(queued([AGAIN]), host_ids=(host,), avoid=pack_ints([0]))


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_the_next_run_goes_to_another_host_though_the_first_would_be_chosen(strategy: str) -> None:
    world = World()
    world.host("h1", cpu=1000 if strategy == "pack" else 8000)
    world.host("h2", cpu=4000)
    assert hosts_of(world.run("a", strategy=strategy)) == {FIRST: "h1"}
    world.end(FIRST)
    world.peer("lifecycle", kept_from("h1"))
    assert hosts_of(world.admit(AGAIN)) == {SECOND: "h2"}


def test_it_goes_to_the_same_host_where_no_other_has_room() -> None:
    world = World()
    world.host("h1", cpu=4000)
    world.host("small", cpu=500)
    world.run("a")
    world.end(FIRST)
    world.peer("lifecycle", kept_from("h1"))
    assert hosts_of(world.admit(AGAIN)) == {SECOND: "h1"}


def test_others_of_its_job_go_where_they_would() -> None:
    world = World()
    world.host("h1", cpu=2000)
    world.host("h2", cpu=4000)
    world.accept("a", 2)
    both = ("a", 0, 2, 1, 0)
    world.peer("lifecycle", queued([both]))
    assert set(hosts_of(world.admit(both)).values()) == {"h1"}
    world.end(("a", 0, 1), ("a", 1, 1))
    two = [("a", 0, 1, 2, 0), ("a", 1, 1, 2, 0)]
    world.peer("lifecycle", replace(queued(two), host_ids=("h1",), avoid=pack_ints([0, -1])))
    assert hosts_of(world.admit(*two)) == {("a", 0, 2): "h2", ("a", 1, 2): "h1"}


def test_a_host_that_takes_the_number_of_one_that_was_removed_is_not_avoided() -> None:
    world = World()
    world.host("h2", cpu=8000)
    world.host("h1", cpu=1000)
    world.run("a")
    world.end(FIRST)
    world.peer("lifecycle", kept_from("h1"))
    world.silence("h1")
    world.fact(HostRemovalRequested(host_id="h1", command_id="c"))
    world.host("new", cpu=1000)
    assert hosts_of(world.admit(AGAIN)) == {SECOND: "new"}
