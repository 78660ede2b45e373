"""Hosts of scenarios with devices and cores: written short or one by one, and other ones by an event."""

import pytest

from events.codec import decode
from events.records.hosts import HostOffered
from tests.helpers.play import faults, play

HOSTS = "hosts:\n- {name: h, resources: {cpu: 8}, %s}\npools: [{path: /p}]\nend: 10s\n"


def offers(text: str) -> list[HostOffered]:
    """All that hosts have offered, in order."""
    records = play(text).run.cell.log.scan("paceline.hosts", 0)
    return [event for record in records if isinstance(event := decode(record.value), HostOffered)]


def test_the_short_form_shares_devices_out_among_nodes_and_link_groups() -> None:
    short = "devices: {gpu: {count: 8, model: a100, memory: 80GiB, link_groups: 2, numa: 2}, nic: {count: 1}}"
    [offer] = offers(HOSTS % f"{short}, cores: {{nodes: 2, cores: 3}}")
    *cards, nic = offer.devices
    assert [card.id for card in cards] == [f"gpu-{number}" for number in range(8)]
    assert [(card.numa, card.link_group) for card in cards] == [(0, "gpu-0")] * 4 + [(1, "gpu-1")] * 4
    assert {(card.model, card.memory) for card in cards} == {("a100", 81_920)}
    assert (nic.id, nic.kind, nic.numa, nic.link_group) == ("nic-0", "nic", -1, "")
    assert offer.cores_array.tolist() == [0, 0, 0, 1, 1, 1]
    assert {name: offer.capacity[name] for name in ("gpu", "nic", "gpu_memory")} == {
        "gpu": 8000,
        "nic": 1000,
        "gpu_memory": 8 * 81_920,
    }
    assert "gpu_memory" in offer.sizes


def test_an_event_says_that_devices_are_others_and_the_rest_stays() -> None:
    parts = "[{id: a, kind: gpu, memory: 8GiB}, {id: b, kind: gpu, healthy: false}]"
    text = HOSTS % "devices: {gpu: {count: 2}}, cores: {cores: 4}"
    text += "events:\n- {at: 1s, offers: {host: h-1, resources: {cpu: 4}}}\n"
    text += f"- {{at: 2s, offers: {{host: h-1, resources: {{cpu: 4}}, devices: {parts}, cores: {{cores: 2}}}}}}\n"
    first, less, other = offers(text)
    assert (first.capacity["gpu"], first.capacity["cpu"]) == (2000, 8000)
    assert (less.devices, less.cores, less.capacity["gpu"], less.capacity["cpu"]) == (
        *(first.devices, first.cores),
        *(2000, 4000),
    )
    assert [(each.id, each.healthy) for each in other.devices] == [("a", True), ("b", False)]
    assert (other.capacity["gpu"], other.capacity["gpu_memory"], len(other.cores_array)) == (1000, 8192, 2)


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("devices: {gpu: {cont: 3}}", "/hosts/0/devices/gpu/cont: is not a known field; did you mean count?"),
        (
            "devices: [{id: a, kind: gpu, memry: 1}]",
            "/hosts/0/devices/0/memry: is not a known field; did you mean memory?",
        ),
        ("devices: [{id: a, kind: gpu, of: b}]", "/hosts/0/devices: device 'a': of names 'b', which the host hasn't"),
        ("devices: 4", "/hosts/0/devices: must be a valid dictionary"),
        ("cores: {nodes: 2}", "/hosts/0/cores/cores: is missing"),
        ("cores: 8", "/hosts/0/cores: must be a mapping, such as {nodes: ...}"),
    ],
)
def test_mistakes_are_told_with_their_places(part: str, wanted: str) -> None:
    assert any(line.endswith(wanted) for line in faults(HOSTS % part)), faults(HOSTS % part)


def test_resources_do_not_name_what_devices_make() -> None:
    text = HOSTS.replace("cpu: 8", "cpu: 8, gpu: 4") % "devices: {gpu: {count: 2}}"
    assert any(line.endswith("/hosts/0/resources: gpu is what `devices` make") for line in faults(text)), faults(text)
