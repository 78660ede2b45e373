"""What a submitter is warned of about devices: what no host has, though its amounts are there."""

from typing import Any

import pytest

from events.columns import pack_ints
from events.host_devices import sums
from events.records.hosts import HostOffered
from events.records.parts import HostDevice
from events.records.placement import HostDeviceChanged, HostTainted

SESSION = 1_795_673_927_421
CARDS = tuple(
    HostDevice(f"{at}", "gpu", model=model, memory=40 << 10, link_group=model)
    for at, model in enumerate(["a100", "a100", "h100", "h100"])
)


def asks(cards: int | str, *models: str, **devices: Any) -> dict[str, Any]:
    """A part of a job that asks for cards."""
    return {
        "resources": {"cpu": 1, "gpu": cards},
        "devices": devices | ({"models": {"gpu": list(models)}} if models else {}),
    }


@pytest.fixture
def warned(api):
    """The warnings of a job, of a host with four cards."""
    api.pool("/p")
    api.cell.host("small", session=SESSION - 1)
    api.cell.host("h1", session=SESSION)
    capacity = {"cpu": 16_000, "memory": 8192} | sums(CARDS)
    api.cell.fact(
        HostOffered(host_id="h1", session=SESSION, capacity=capacity, devices=CARDS, cores=pack_ints([0, 0, 1, 1]))
    )
    api.fold()

    def of(**job: Any) -> list[str]:
        spec = {"job_id": "a", "pool": "/p", "command": ["true"], **job}
        answer = api.client.post("/v1/jobs?dry_run=true", json=spec)
        assert answer.status_code == 200, answer.text
        return answer.json().get("warnings", [])

    return of


def lacks(text: str, more: str = "") -> list[str]:
    where = "no host with room has the devices or cores for it on one card, or in one group"
    return [f"1 instance would fit on no host: {where}; nearest h1, {text}{more} (NEVER_FITS)"]


def test_of_models_groups_and_cores_the_nearest_host_tells_what_it_lacks(warned):
    assert warned(**asks(2, "h100", within="link_group")) == []
    assert warned(**asks("400m", "a100")) == []
    assert warned(cores=4) == []
    assert warned(**asks(1, "h200")) == lacks("0 of 1 whole gpu (h200)")
    assert warned(**asks(3, "h100", "h200")) == lacks("2 of 3 whole gpu (h100 or h200)")
    assert warned(**asks("400m", "h200")) == lacks("no gpu (h200)")
    assert warned(**asks(3, within="link_group")) == lacks("group a100: 2, group h100: 2 of 3 gpu")
    assert warned(cores=5) == lacks("4 of 5 cores")
    many = "it asks 5 gpu, the most of those that match is 4 gpu (NEVER_FITS)"
    assert warned(**asks(5, "h100")) == [f"1 instance would fit on no host: {many}"]


def test_a_card_that_is_set_aside_is_none(api, warned):
    api.cell.decide("placement", HostDeviceChanged(host_id="h1", device="3", disabled=True, ends=False))
    api.fold()
    assert warned(**asks(1, "h100")) == []
    assert warned(**asks(2, "h100")) == lacks("1 of 2 whole gpu (h100)")


def test_hosts_that_say_only_an_amount_have_cards_of_no_model(api, warned):
    capacity = {"cpu": 16_000, "memory": 8192, "gpu": 4_000}
    api.cell.fact(HostOffered(host_id="h1", session=SESSION, capacity=capacity))
    api.fold()
    assert warned(**asks(4)) == []
    assert warned(**asks(1, "a100")) == lacks("0 of 1 whole gpu (a100)")


def test_a_taint_is_told_only_of_hosts_that_have_the_devices(api, warned):
    api.cell.decide("placement", HostTainted(host_id="h1", taints={"dedicated": "ml"}))
    api.fold()
    assert warned(**asks(1, "h200")) == lacks("0 of 1 whole gpu (h200)")
    (text,) = warned(**asks(1, "h100"))
    assert text.endswith("have taints that it doesn't tolerate: dedicated=ml (HOSTS_TAINTED)")


def test_of_several_requests_one_that_a_host_could_hold_is_enough(warned):
    """The amounts of the first were looked at alone, so a job that could begin at once was warned of its CPU."""
    assert warned(any_of=[{"resources": {"cpu": 40}}, asks(1, "a100")]) == []
    assert warned(any_of=[asks(1, "h200"), asks(1, "a100")]) == []
    more = "; nor would it by another request of `any_of`"
    assert warned(any_of=[asks(1, "h200"), {"cores": 9}]) == lacks("0 of 1 whole gpu (h200)", more)
