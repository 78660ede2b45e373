"""Hosts that come, flap and vanish leave nothing behind: placement is as if it had never heard of them."""

import numpy as np

from events.codes import Code
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import HostReconciled
from events.records.parts import Cause
from events.records.placement import HostLost, HostRemoved
from processors.placement.constraints import Request
from processors.placement.engine_view import of
from processors.placement.hosts import WIDTH_MIN
from processors.placement.machine import Placement
from tests.helpers.machines import shaped
from tests.processors.placement.harness import World, assert_alike, offered

HOSTS = 50_000
ASKED = Request(())


def come(machine: Placement, host: str, session: int, rack: int) -> None:
    hosts = machine.hosts
    hosts.connected(HostConnected(host_id=host, session=session, gateway="g"), 1)
    hosts.reconciled(HostReconciled(host_id=host, session=session, kept=0, ended=0, stopped=0), 1)
    hosts.offered(offered(host, session, attributes={"rack": f"r{rack}", "hostname": host}), 1)


def flap(machine: Placement, host: str, session: int) -> None:
    machine.hosts.silent(HostSilent(host_id=host, session=session), 2)
    machine.hosts.back(HostBack(host_id=host, session=session), 3)


def vanish(machine: Placement, host: str, session: int) -> None:
    machine.hosts.lose(HostLost(host_id=host, session=session, code=Code.SILENT, silent_ms=1, cause=Cause()), 4)
    machine._removed(HostRemoved(host_id=host, session=session, code=Code.STAYED_AWAY, left_ms=1, cause=Cause()), 5)


def test_50000_hosts_that_come_flap_and_vanish_leave_nothing() -> None:
    machine = Placement()
    names = [f"h{number:05}" for number in range(HOSTS)]
    for number, host in enumerate(names):
        come(machine, host, 1, number % 100)
    hosts = machine.hosts
    assert of(hosts, hosts.capacity - hosts.used) is not None
    assert len(hosts.constraints.of(ASKED).unmet) == HOSTS
    for host in names[::3]:
        flap(machine, host, 1)
    for host in names[::2]:  # their numbers are given to others
        vanish(machine, host, 1)
    for host in names[:1000:2]:
        come(machine, host, 2, 7)
    assert len(hosts.ids) == HOSTS
    for host in [*hosts.table]:
        vanish(machine, host, hosts.table[host].session)
    assert of(hosts, hosts.capacity - hosts.used) is None
    assert hosts.engine is None
    assert (len(hosts.table), hosts.ids, hosts.ports.taken, hosts.shrunken.watched, hosts.untold) == (0, [], [], {}, {})
    assert hosts._columns.shape[1] == WIDTH_MIN
    asked = hosts.constraints.of(ASKED)
    assert (len(asked.unmet), len(asked.rank)) == (0, 0)
    assert [*hosts.constraints._attributes.names] == []
    assert hosts.ports.without([31_000]).tolist() == []
    assert int(hosts.capacity.sum()) == 0


def test_what_is_left_is_as_after_a_start_from_the_rows() -> None:
    world = World()
    for at in range(12):
        world.host(f"h{at}", attributes={"rack": f"r{at % 3}"})
    world.run("j", 20, **shaped({"cpu": 1000}))
    placed = {world.machine.hosts.ids[number] for number in np.flatnonzero(world.machine.hosts.runs).tolist()}
    for at in range(12):
        if f"h{at}" not in placed:
            world.silence(f"h{at}")
            world.remove(f"h{at}")
    assert len(world.machine.hosts.table) == len(placed)
    fresh, _ = world.restored()
    assert_alike(world.machine, fresh)
    world.host("h11", attributes={"rack": "new"})
    assert_alike(world.machine, world.restored()[0])
