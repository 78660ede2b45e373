"""The SLA of a job: what users write comes back from the log, and what can't hold is refused in a sentence."""

from typing import Any

import pytest
from pydantic import ValidationError

from events.codec import decode, encode
from events.records.parts import SlaPolicy
from events.spec.job import JobSpec, from_event
from events.spec.problems import problems

SERVICE: dict[str, Any] = {"kind": "stateless", "instances": 10, "command": ["serve"], "resources": {"cpu": 1}}
WHOLE: dict[str, Any] = {
    "max_unavailable": "25%",
    "min_available": 7,
    "min_healthy_time": "30s",
    "max_disruptions_per_hour": "20%",
    "replace": "before",
    "surge": 2,
    "replace_wait": "5m",
    "group": "shop",
    "windows": [
        {"schedule": "0 2 * * 1-5", "duration": "4h", "time_zone": "UTC"},
        {"schedule": "30 1 * * sun", "duration": "90m", "time_zone": "Europe/Berlin"},
    ],
}


def spec_of(sla: dict[str, Any], **fields: Any) -> JobSpec:
    return JobSpec.model_validate({"job_id": "web", "pool": "/p", **SERVICE, **fields, "sla": sla})


@pytest.mark.parametrize(
    "sla",
    [
        {"max_unavailable": None},
        {"max_unavailable": 5},
        {"max_unavailable": "25%"},
        {"max_unavailable": 5, "min_available": "90%"},
        {"max_unavailable": None, "min_healthy_time": "30s"},
        {"max_unavailable": 1, "max_disruptions_per_hour": 3},
        {"max_unavailable": 0, "replace": "before", "surge": 1, "replace_wait": "2m"},
        WHOLE,
    ],
)
def test_an_sla_comes_back_from_the_log_as_it_was_written(sla: dict[str, Any]) -> None:
    event = decode(encode(spec_of(sla).to_event()))
    assert from_event(event, {})["sla"] == sla
    assert spec_of(from_event(event, {})["sla"]).to_event() == event


def test_a_number_alone_is_written_as_before_and_a_percentage_in_its_own_part() -> None:
    event = spec_of({"max_unavailable": 5}).to_event()
    assert (event.max_unavailable, event.sla) == (5, None)
    event = spec_of({"max_unavailable": "50%"}).to_event()
    assert (event.max_unavailable, event.sla) == (None, SlaPolicy(max_unavailable_percent=50))


@pytest.mark.parametrize("kind", ["batch", "stateful", "daemon"])
def test_every_kind_of_job_may_have_an_sla(kind: str) -> None:
    fields = {"instances": 0} if kind == "daemon" else {}
    event = JobSpec.model_validate(
        {"job_id": "web", "pool": "/p", "command": ["a"], "resources": {"cpu": 1}, "kind": kind}
        | ({} if fields else {"instances": 4})
        | {"sla": {"max_unavailable": "50%", "windows": WHOLE["windows"]}}
    ).to_event()
    assert event.sla is not None
    assert event.sla.max_unavailable_percent == 50


@pytest.mark.parametrize(
    ("sla", "fields", "pointer", "message"),
    [
        ({"max_unavailable": 11}, {}, "/sla/max_unavailable", "is 11, the job has 10 instances"),
        ({"min_available": 11}, {}, "/sla/min_available", "is 11, the job has 10 instances"),
        ({"max_unavailable": "101%"}, {}, "/sla/max_unavailable", "a percentage of them such as"),
        ({"max_unavailable": "a few"}, {}, "/sla/max_unavailable", "a percentage of them such as"),
        ({"max_unavailable": True}, {}, "/sla/max_unavailable", "a number of instances"),
        ({"surge": 2}, {}, "/sla/surge", "is for `replace: before`"),
        ({"replace_wait": "1m"}, {}, "/sla/replace_wait", "is for `replace: before`"),
        ({"replace": "before"}, {"kind": "stateful"}, "/sla/replace", "a stateful instance never runs twice"),
        ({"replace": "before"}, {"kind": "batch"}, "/sla/replace", "is started over, not replaced"),
        (
            {"replace": "before"},
            {"ports": [{"name": "http", "port": 80}]},
            "/sla/replace",
            "a fixed port keeps two instances from one host",
        ),
        ({"replace": "after"}, {}, "/sla/replace", "must be `before`"),
        ({"group": "A b"}, {}, "/sla/group", "must be 1 to 128"),
        ({"windows": [{"schedule": "at two", "duration": "1h"}]}, {}, "/sla/windows/0/schedule", "must be five fields"),
        (
            {"windows": [{"schedule": "0 2 * * *", "duration": "1h", "time_zone": "Europe/Zurch"}]},
            {},
            "/sla/windows/0/time_zone",
            "did you mean Europe/Zurich?",
        ),
        (
            {"windows": [{"schedule": "* * * * *", "duration": "10d"}]},
            {},
            "/sla/windows/0/duration",
            "must be from 1m to 7d",
        ),
        ({"max_unavailble": 1}, {}, "/sla/max_unavailble", "did you mean max_unavailable?"),
    ],
)
def test_an_sla_that_cannot_hold_is_refused(
    sla: dict[str, Any], fields: dict[str, Any], pointer: str, message: str
) -> None:
    with pytest.raises(ValidationError) as error:
        spec_of(sla, **fields)
    found = dict(problems(error.value))
    assert list(found) == [pointer]
    assert message in found[pointer]


def test_a_daemon_is_never_replaced_first() -> None:
    with pytest.raises(ValidationError, match="a daemon has one task on every host"):
        JobSpec.model_validate(
            {"job_id": "d", "pool": "/p", "kind": "daemon", "command": ["a"], "resources": {"cpu": 1}}
            | {"sla": {"replace": "before"}}
        )
