"""What jobs may ask of devices and cores, and what they are told where no task can have it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from events.codes import Code
from events.records.parts import DeviceModels, PlacementRules
from events.resources import STANDARD, STANDARD_KINDS, UnknownResource
from events.spec.job import JobSpec, from_event, json_schema
from events.spec.problems import problems
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.validation import refusal
from processors.state.record_rows import row_of
from tests.helpers.drawn import examples

CARDS = {"models": {"gpu": ["a100", "h100"]}, "within": "link_group"}


def job(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"job_id": "a", "pool": "/p", "command": ["x"], **fields})


def wrong(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as error:
        job(**fields)
    return problems(error.value)


def test_models_and_the_part_of_the_host_stand_in_the_rules() -> None:
    event = job(resources={"gpu": 2}, devices=CARDS).to_event()
    assert event.rules == PlacementRules(devices=(DeviceModels("gpu", ("a100", "h100")),), devices_within="link_group")
    one = job(resources={"gpu": "400m"}, devices={"models": {"gpu": "a100"}}).to_event()
    assert one.rules == PlacementRules(devices=(DeviceModels("gpu", ("a100",)),))
    assert one.resources["gpu"] == 400
    assert job(resources={"gpu": 2}).to_event().rules is None, "a job that asks for cards alone has no rules"


def test_cores_ask_for_as_much_cpu() -> None:
    event = job(cores=8, numa="one").to_event()
    assert event.resources["cpu"] == 8000
    assert event.rules == PlacementRules(devices_within="numa", cores=8)
    assert job(cores=8, resources={"cpu": 8, "gpu": 1}).to_event().resources["cpu"] == 8000
    assert [pointer for pointer, _ in wrong(cores=8, cpu_limit=4)] == ["/cpu_limit"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cores": 8, "numa": "one"}, {"cores": 8, "devices": {"within": "numa"}, "resources": {"cpu": 8}}),
        ({"devices": {}}, {}),
        (
            {"resources": {"gpu": 1}, "devices": {"models": {"gpu": ["b", "a", "b"]}}},
            {"resources": {"gpu": 1}, "devices": {"models": {"gpu": ["a", "b"]}}},
        ),
    ],
)
def test_two_ways_to_write_one_request_are_one_job(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert job(**one).to_event() == job(**other).to_event()


requests = st.fixed_dictionaries(
    {"resources": st.fixed_dictionaries({"gpu": st.sampled_from([1, 2, "400m", 8])})},
    optional={
        "cores": st.integers(1, 64),
        "numa": st.just("one"),
        "devices": st.fixed_dictionaries(
            {}, optional={"models": st.just({"gpu": ["h100", "a100"]}), "within": st.just("numa")}
        ),
    },
)


@examples(60)
@given(requests)
def test_a_request_comes_back_as_it_was_and_is_accepted(spec: dict[str, Any]) -> None:
    event = job(**spec).to_event()
    assert JobSpec.model_validate(from_event(event, STANDARD)).to_event() == event
    assert refusal(row_of(SubmittedRow, event), 100, 60_000) is None


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        (
            {"resources": {"gpu": 1.5}},
            "/resources/gpu",
            "is 1.5; above one it must be whole, 1 or 2: a task has a share of one device, or whole devices",
        ),
        (
            {"resources": {"gpu/7g": "2500m"}},
            "/resources/gpu~17g",
            "is 2.5; above one it must be whole, 2 or 3: a task has a share of one device, or whole devices",
        ),
        (
            {"resources": {"gpu": 2, "gpu_memory": "10GiB"}},
            "/resources/gpu_memory",
            "is the memory of one card: leave it out with more than one gpu",
        ),
        (
            {"cores": 8, "resources": {"cpu": 4}},
            "/cores",
            "is 8, and resources ask for 4 cpu: leave cpu out, or ask for as much",
        ),
        (
            {"cores": 8, "numa": "one", "resources": {"gpu": 2}, "devices": {"within": "link_group"}},
            "/numa",
            "and within link_group of devices exclude each other: give one of them",
        ),
        (
            {"devices": {"models": {"gpu": "a100"}}},
            "/devices/models",
            "are for kinds that a task asks for, and it asks for no gpu",
        ),
        ({"numa": "one"}, "/devices/within", "is for tasks that ask for devices, such as gpu, or for cores"),
        (
            {"cores": 2, "devices": {"within": "link_group"}},
            "/devices/within",
            "link_group is for tasks that ask for devices, such as gpu",
        ),
        (
            {"cores": 2, "revocable": True},
            "/cores",
            "are for tasks that aren't revocable: CPU that is lent is nobody's own",
        ),
        (
            {"instances": 3, "cores": 2, "overrides": [{"instances": "1", "resources": {"cpu": 4}}]},
            "/overrides/0/cores",
            "is 2, and resources ask for 4 cpu: leave cpu out, or ask for as much",
        ),
        (
            {"instances": 3, "overrides": [{"instances": "1", "resources": {"gpu": 1.2}}]},
            "/overrides/0/resources/gpu",
            "is 1.2; above one it must be whole, 1 or 2: a task has a share of one device, or whole devices",
        ),
    ],
)
def test_what_no_task_can_have_is_refused_in_a_sentence(fields: dict[str, Any], pointer: str, message: str) -> None:
    assert wrong(**fields) == [(pointer, message)]


def test_instances_may_have_other_devices_and_cores() -> None:
    others = [
        {"instances": "0", "cores": 4},
        {"instances": "1", "cores": 0, "resources": {"cpu": 1, "gpu": 1}, "devices": {"models": {"gpu": "a100"}}},
    ]
    spec = {"instances": 3, "cores": 2, "overrides": others}
    event = job(**spec).to_event()
    assert [each.rules for each in event.overrides] == [
        PlacementRules(cores=4),
        PlacementRules(devices=(DeviceModels("gpu", ("a100",)),)),
    ]
    assert [each.resources for each in event.overrides] == [{"cpu": 4000}, {"cpu": 1000, "gpu": 1000}]
    again = JobSpec.model_validate(from_event(event, STANDARD)).to_event()
    assert again.overrides == event.overrides
    assert refusal(row_of(SubmittedRow, event), 100, 60_000) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resources": {"gpu": 1500}}, "resources: gpu is 1.5; above one it must be whole"),
        ({"resources": {"cpu": 1000}, "rules": PlacementRules(cores=2)}, "cores is 2, and resources ask for 1 cpu"),
        ({"rules": PlacementRules(devices=(DeviceModels("gpu", ()),))}, "devices are for kinds that a task asks for"),
        ({"rules": PlacementRules(devices_within="rack")}, "devices_within is 'rack', it must be link_group or numa"),
        ({"rules": PlacementRules(cores=-1)}, "cores is -1, it must be 0 to 4096"),
    ],
)
def test_lifecycle_refuses_it_of_facts_that_come_another_way(fields: dict[str, Any], message: str) -> None:
    event = msgspec.structs.replace(job().to_event(), **fields)
    refused = refusal(row_of(SubmittedRow, event), 100, 60_000)
    assert refused is not None
    assert refused[0] is Code.INVALID_SPEC
    assert message in refused[1]


def test_a_cell_that_does_not_count_the_memory_of_cards_says_the_command_that_adds_it() -> None:
    told = str(UnknownResource(["gpu_memory"], STANDARD_KINDS.names))
    assert told.endswith("; paceline cell set --resource gpu_memory=MiB adds it")


def test_editors_know_the_fields_of_devices() -> None:
    fields = json_schema()["$defs"]["DevicesAsked"]["properties"]
    assert fields["within"]["anyOf"][0]["enum"] == ["link_group", "numa"]
