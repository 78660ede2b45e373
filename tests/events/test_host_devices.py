"""Offers of hosts with devices and cores: which are taken at their word, and what they add up to."""

from typing import Any

import pytest

from events.bounds import HOST_CORES_MAX, HOST_DEVICES_MAX
from events.host_devices import sums
from events.host_offers import offer_fault
from events.records.hosts import HostOffered
from events.records.parts import HostDevice
from events.resources import Amounts

CARD = HostDevice("0", "gpu", memory=81_920)
PART = HostDevice("MIG-1", "gpu/1g.10gb", memory=9_728, of="0")


def fault(*devices: HostDevice, cores: Any = (), capacity: Amounts | None = None) -> str:
    amounts = sums(devices) if capacity is None else capacity
    return offer_fault(HostOffered.pack(host_id="h", session=1, capacity=amounts, devices=devices, cores=cores))


def card(name: str = "0", **more: Any) -> HostDevice:
    return HostDevice(name, **{"kind": "gpu", **more})


def test_a_host_with_cards_parts_and_cores_is_taken_at_its_word() -> None:
    parts = (PART, HostDevice("MIG-2", "gpu/2g.20gb", of="0", excludes=("MIG-1",), healthy=False))
    assert fault(CARD, *parts, card("GPU-8f3a/x.y", model="h100", numa=3, link_group="nv"), cores=[0, 0, 1]) == ""


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        ((card(), card()), "more than one device has the id '0'"),
        ((card("core/3"),), "an id has 1 to 128"),
        ((card("gpu:0"),), "an id has 1 to 128"),
        ((card("a,b"),), "an id has 1 to 128"),
        ((card(""),), "an id has 1 to 128"),
        ((card("x" * 129),), "an id has 1 to 128"),
        ((card(kind="GPU 1"),), "is no name of a resource"),
        ((card(kind="memory"),), "memory is no kind of device"),
        ((card(kind="cpu"),), "cpu is no kind of device"),
        ((card(kind="gpu_memory"),), "gpu_memory is no kind of device"),
        ((card(of="7"),), "of names '7', which the host hasn't"),
        ((card(excludes=("7",)),), "excludes names '7', which the host hasn't"),
        ((card(excludes=("7",) * 65),), "excludes names 65 devices, at most 64"),
        ((card(of="0"),), "it can't be a part of itself"),
        ((card(model="m" * 257),), "model and link_group have at most 256 characters"),
        ((card(link_group="m" * 257),), "model and link_group have at most 256 characters"),
        ((card(memory=-1),), "memory is -1 MiB"),
        ((card(numa=-2),), "numa is -2"),
        ((card(numa=1024),), "numa is 1024"),
        (tuple(card(f"g{at}") for at in range(HOST_DEVICES_MAX + 1)), "it has 257 devices, at most 256"),
    ],
)
def test_devices_that_are_nonsense_make_the_offer_count_as_nothing(
    devices: tuple[HostDevice, ...], wanted: str
) -> None:
    assert wanted in fault(*devices, capacity={})


def test_cores_are_bounded_and_have_nodes() -> None:
    assert fault(cores=[0] * HOST_CORES_MAX) == ""
    assert "at most 4096" in fault(cores=[0] * (HOST_CORES_MAX + 1))
    assert "numbered 0 to 1023" in fault(cores=[0, -1])


def test_capacity_says_what_the_devices_make() -> None:
    assert (
        fault(CARD, capacity={"gpu": 2000, "gpu_memory": 81_920}) == "capacity has 2000 of gpu, the devices make 1000"
    )
    assert fault(CARD, capacity={"gpu": 1000}) == "capacity has 0 of gpu_memory, the devices make 81920"


def test_memory_of_a_card_counts_once_and_that_of_its_parts_where_the_card_takes_no_tasks() -> None:
    assert sums([CARD, PART]) == {"gpu": 1000, "gpu_memory": 81_920, "gpu/1g.10gb": 1000}
    broken = HostDevice("0", "gpu", memory=81_920, healthy=False)
    assert sums([broken, PART]) == {"gpu_memory": 9_728, "gpu/1g.10gb": 1000}
    assert sums([HostDevice("n", "nic", memory=5)]) == {"nic": 1000}
