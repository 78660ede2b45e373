"""Several requests of a task: how they stand in the fact, and what users are told of those that can't be."""

from typing import Any

import pytest
from pydantic import ValidationError

from events.records.parts import Alternative, AlternativeAmount, DeviceModels
from events.resources import STANDARD
from events.spec.job import JobSpec, from_event
from events.spec.problems import problems

EITHER = [{"resources": {"gpu": 1}, "devices": {"models": {"gpu": "h100"}}}, {"resources": {"gpu": 2}}]


def job(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"job_id": "a", "pool": "/p", "command": ["x"], **fields})


def wrong(**fields: Any) -> list[str]:
    with pytest.raises(ValidationError) as error:
        job(**fields)
    return [pointer for pointer, _ in problems(error.value)]


def test_each_request_is_whole_and_the_first_is_that_of_the_job() -> None:
    event = job(resources={"cpu": 2, "memory": "64MiB"}, any_of=EITHER).to_event()
    base = (AlternativeAmount("cpu", 2000), AlternativeAmount("memory", 64))
    h100 = (DeviceModels("gpu", ("h100",)),)
    assert event.rules is not None
    assert event.rules.alternatives == (
        Alternative((*base, AlternativeAmount("gpu", 1000)), h100),
        Alternative((*base, AlternativeAmount("gpu", 2000))),
    )
    assert (event.resources["gpu"], event.rules.devices) == (1000, h100)


def test_a_request_for_cores_asks_as_much_cpu_unless_it_says_so() -> None:
    each = [{"cores": 2, "resources": {"memory": "1GiB"}}, {"cores": 3}, {"resources": {"gpu": 1}}]
    event = job(resources={"cpu": 8}, any_of=each).to_event()
    assert event.rules is not None
    cpu = [amount.amount for one in event.rules.alternatives for amount in one.resources if amount.name == "cpu"]
    assert cpu == [2000, 3000, 8000]
    assert wrong(any_of=[{"cores": 2, "resources": {"cpu": 1}}, {}]) == ["/any_of/0/cores"]


def test_what_is_shown_of_a_job_submits_the_same_again() -> None:
    event = job(any_of=EITHER).to_event()
    again = JobSpec.model_validate(from_event(event, STANDARD)).to_event()
    assert (again.rules, again.resources) == (event.rules, event.resources)


def test_what_alternatives_cannot_be() -> None:
    assert wrong(any_of=EITHER[:1]) == ["/any_of"]
    assert wrong(any_of=EITHER * 5) == ["/any_of"]
    assert wrong(kind="daemon", any_of=EITHER) == ["/any_of"]
    assert wrong(revocable=True, any_of=EITHER) == ["/any_of"]
    assert wrong(any_of=[*EITHER, {"resources": {"gpu": 1.5}}]) == ["/any_of/2/resources/gpu"]
    assert wrong(any_of=[*EITHER, {"devices": {"models": {"gpu": "a"}}}]) == ["/any_of/2/devices"]
    assert wrong(instances=2, overrides=[{"instances": "0", "resources": {"gpu": 1}}], any_of=EITHER) == [
        "/overrides/0"
    ]
