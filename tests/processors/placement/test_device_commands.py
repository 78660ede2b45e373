"""Devices that operators set aside: who gets none of them, whose runs leave, and what the operator is told."""

from typing import Any

from events.codes import Code
from events.records.base import Event
from events.records.hosts import HostDeviceRequested
from events.records.parts import HostDevice, TaskShape
from events.records.placement import HostAnswered, HostDeviceChanged, PreemptionAsked, TasksPlaced
from tests.helpers.machines import of, one
from tests.processors.placement.devices.test_devices import cards, where, with_cards
from tests.processors.placement.harness import World
from tests.processors.placement.test_surplus import asked, leave

CARD = {"shapes": (TaskShape({"gpu": 1000}),)}
HALF = {"shapes": (TaskShape({"gpu": 500}),)}


def say(world: World, device: str, disabled: bool = True, ends: bool = False, host: str = "a") -> list[Event]:
    """An operator's word about a device."""
    return world.fact(HostDeviceRequested(host_id=host, command_id="c", device=device, disabled=disabled, ends=ends))


def told(said: list[Event]) -> tuple[str, str]:
    """The answer to it."""
    answer = one(said, HostAnswered)
    return answer.code, answer.message


def test_a_disabled_device_takes_no_new_tasks_and_what_runs_there_goes_on() -> None:
    world = World()
    with_cards(world, "a", cards(2))
    world.run("first", **CARD)
    said = say(world, "0")
    assert told(said) == (Code.DONE, "Device 0 takes no new tasks; runs on it go on.")
    change = one(said, HostDeviceChanged)
    assert (change.host_id, change.device, change.disabled, change.ends) == ("a", "0", True, False)
    assert asked(world.later(60_000)) == []
    assert where(world.run("second", **CARD)) == [[("1", 1000, 24 * 1024)]]
    world.end(("first", 0, 1))
    assert where(world.run("third", **CARD)) == []
    said = say(world, "0", disabled=False)
    assert told(said) == (Code.DONE, "Device 0 takes new tasks again.")
    assert where(said) == [[("0", 1000, 24 * 1024)]]


def test_with_their_end_the_runs_on_it_leave_and_no_others() -> None:
    world = World()
    with_cards(world, "a", cards(2))
    world.run("half", 2, **HALF)
    world.run("other", **CARD)
    said = say(world, "0", ends=True)
    assert told(said) == (Code.DONE, "Device 0 takes no new tasks; those on it are to leave.")
    asks = asked(said)
    assert sorted(asks) == [("half", 0, 1), ("half", 1, 1)]
    assert asked(world.later(10_000)) == []
    leave(world, asks)
    world.end(*asks)
    assert asked(world.later(60_000)) == []


def test_runs_that_may_not_be_preempted_stay() -> None:
    world = World()
    with_cards(world, "a", cards(1))
    world.run("fixed", preemptible=False, **CARD)
    assert asked(say(world, "0", ends=True)) == []


def test_a_device_that_was_spared_may_be_emptied_later() -> None:
    world = World()
    with_cards(world, "a", cards(1))
    world.run("first", **CARD)
    assert asked(say(world, "0")) == []
    assert asked(say(world, "0", ends=True)) == [("first", 0, 1)]


def test_it_stays_disabled_over_a_restart_and_another_session() -> None:
    world = World()
    with_cards(world, "a", cards(1))
    world.run("first", **CARD)
    said = say(world, "0", ends=True)
    assert of(said, PreemptionAsked)
    world.restart()
    with_cards(world, "a", cards(1))
    assert of(world.run("second", **CARD), TasksPlaced) == []


def test_what_is_no_device_of_the_host_is_told_with_those_there_are() -> None:
    world = World()
    with_cards(world, "a", cards(10))
    assert told(say(world, "12")) == (
        Code.NOT_FOUND,
        "The host has no device 12; it has 0, 1, 2, 3, 4, 5, 6, 7 and 2 more.",
    )
    assert told(say(world, "0", host="nobody")) == (Code.NOT_FOUND, "This cell knows no such host.")
    world.host("sums", gpu=2000)
    assert told(say(world, "gpu:0", host="sums"))[1] == "The host has no device gpu:0; it has none by name."


def test_a_word_that_changes_nothing_is_answered_alone() -> None:
    world = World()
    with_cards(world, "a", (HostDevice("0", "gpu", healthy=False),))
    said = say(world, "0", disabled=False)
    assert (told(said), of(said, HostDeviceChanged)) == ((Code.DONE, "Device 0 wasn't disabled."), [])
    say(world, "0")
    assert of(say(world, "0"), HostDeviceChanged) == []
    message: Any = told(say(world, "0", disabled=False))[1]
    assert message == (
        "Device 0 takes new tasks again; its agent says that it isn't healthy, so it takes none until that ends."
    )
