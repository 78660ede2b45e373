"""Numbers at their limits: the largest amounts, none of a kind, all ports, kinds that the cell gets to know later."""

import pytest

from events.bounds import AMOUNT_MAX, PORT_MAX, PORTS_MAX
from events.records.parts import ResourceKind
from events.records.placement import TasksPlaced
from processors.placement.states import Phase
from tests.helpers.machines import one, shaped
from tests.processors.placement.harness import World, hosts_of, offered

KINDS = ("cpu", "memory", "disk", "gpu")


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_that_has_as_much_as_may_be_is_filled_to_the_last_unit(kind: str) -> None:
    world = World()
    world.host("a", cpu=AMOUNT_MAX, memory=AMOUNT_MAX, gpu=AMOUNT_MAX, more={"disk": AMOUNT_MAX})
    world.host("b", cpu=1, memory=1, gpu=1, more={"disk": 1})
    assert {*hosts_of(world.run("big", 1, **shaped({kind: AMOUNT_MAX}))).values()} == {"a"}
    assert {*hosts_of(world.run("one", 1, **shaped({kind: 1}))).values()} == {"b"}
    assert hosts_of(world.run("more", 1, **shaped({kind: 1}))) == {}


def test_more_than_may_be_is_nonsense_and_beyond_64_bits_too() -> None:
    for amount in (AMOUNT_MAX + 1, (1 << 63) - 1, -1):
        world = World()
        world.host("a", cpu=amount)
        assert hosts_of(world.run("j", 1, **shaped({"cpu": 1}))) == {}
        assert int(world.machine.hosts.capacity.sum()) == 0


def test_a_host_with_nothing_of_a_kind_takes_what_asks_for_none_of_it() -> None:
    world = World()
    world.host("a", cpu=0, memory=0, gpu=0)
    assert hosts_of(world.run("nothing", 3, **shaped({}))) == {("nothing", at, 1): "a" for at in range(3)}
    assert hosts_of(world.run("cpu", 1, **shaped({"cpu": 1}))) == {}


def test_a_host_may_come_down_to_nothing_and_back() -> None:
    world = World()
    world.host("a", cpu=AMOUNT_MAX)
    world.run("j", 1, **shaped({"cpu": AMOUNT_MAX}))
    world.fact(offered("a", 1, cpu=0))
    assert world.machine.hosts.surplus(0).tolist()[0] == AMOUNT_MAX
    assert world.machine.hosts.phase[0] == Phase.SHRUNK
    world.fact(offered("a", 1, cpu=AMOUNT_MAX))
    assert world.machine.hosts.phase[0] == Phase.UP


def test_all_ports_of_a_host_can_be_taken() -> None:
    world = World()
    world.host("a", port_first=1, port_last=PORT_MAX)
    tasks = -(-PORT_MAX // PORTS_MAX)
    said = world.run("j", tasks, **shaped({}, ports=PORTS_MAX))
    placed = hosts_of(said)
    assert len(placed) == PORT_MAX // PORTS_MAX
    rest = PORT_MAX - len(placed) * PORTS_MAX
    last = world.run("k", 1, **shaped({}, ports=rest))
    assert one(last, TasksPlaced).ports_array.max() == PORT_MAX
    assert {*world.machine.hosts.ports.taken[0]} == {*range(1, PORT_MAX + 1)}
    assert hosts_of(world.run("l", 1, **shaped({}, ports=1))) == {}


def test_a_kind_that_the_cell_gets_to_know_later_counts_from_then_on() -> None:
    world = World()
    world.host("a", more={"fpga": 2})
    world.host("b")
    world.know(ResourceKind("fpga"))
    assert {*hosts_of(world.run("j", 3, **shaped({"fpga": 1}))).values()} == {"a"}
    assert len(hosts_of(world.run("k", 1, **shaped({"fpga": 1})))) == 0
    world.fact(offered("a", 1, more={"fpga": 1}))
    assert world.machine.hosts.phase[world.machine.hosts.table["a"].number] == Phase.SHRUNK
