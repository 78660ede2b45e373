"""Job and pool specs: what users write becomes facts, and everything wrong with a spec is said at once."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from events.bounds import AMOUNT_MAX, INT_MAX, MS_MAX, OUTPUT_KIB_MAX, PROCESSES_MAX
from events.codec import decode, encode
from events.codes import Code
from events.resources import STANDARD
from events.spec.job import JobSpec, from_event, json_schema
from events.spec.pool import PoolSpec
from events.spec.problems import problems
from processors.lifecycle.validation import refusal
from tests.helpers.drawn import examples

MINIMAL = {"pool": "/maps", "command": ["true"]}


def wrong(spec: Any, model: Any = JobSpec) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(spec)
    return dict(problems(caught.value))


def job(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({**MINIMAL, **fields})


def test_a_minimal_job_gets_the_defaults_of_the_record():
    event = job().to_event("a")
    assert (event.resources, event.stop_grace_ms, event.kind) == ({"cpu": 100, "memory": 64}, 10_000, "batch")
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    ("written", "milli"), [("500m", 500), (2, 2000), (0.5, 500), ("1.5", 1500), ("2", 2000), (0.001, 1)]
)
def test_cpu_is_written_in_cores_or_thousandths(written, milli):
    assert job(resources={"cpu": written}).to_event("a").resources["cpu"] == milli


@pytest.mark.parametrize(
    "written", [0, "0m", -1, "-1", "1e3", "1 m", "m", True, None, 0.0001, float("nan"), float("inf"), "9" * 30, "5MiB"]
)
def test_what_is_no_cpu_is_refused(written):
    assert list(wrong({**MINIMAL, "resources": {"cpu": written}})) == ["/resources/cpu"]


@pytest.mark.parametrize(
    ("written", "mib"), [("64MiB", 64), ("2GiB", 2048), ("1.5GiB", 1536), ("1TiB", 1 << 20), (0, 0)]
)
def test_memory_has_a_unit(written, mib):
    assert job(resources={"memory": written}).to_event("a").resources.get("memory", 0) == mib


@pytest.mark.parametrize("written", [64, "64", "64MB", "0.5MiB", "64 MiB"])
def test_memory_without_a_known_unit_is_refused(written):
    assert "unit" in wrong({**MINIMAL, "resources": {"memory": written}})["/resources/memory"]


@pytest.mark.parametrize(
    ("written", "ms"),
    [("500ms", 500), ("10s", 10_000), ("1.5s", 1500), ("5m", 300_000), ("1h", 3_600_000), ("1.5d", 129_600_000)],
)
def test_times_have_a_unit(written, ms):
    assert job(max_runtime=written).to_event("a").max_runtime_ms == ms


def test_a_controller_and_what_becomes_of_preempted_tasks_are_said_of_batch_jobs():
    event = job(controller=True, instances=3, on_preempt="fail").to_event("a")
    assert (event.controller, event.on_preempt) == (True, "fail")
    assert (job().to_event("a").controller, job().to_event("a").on_preempt) == (False, "requeue")
    assert from_event(event, {})["on_preempt"] == "fail"
    assert job(controller=True, gang={"min": 1}).to_event("a").controller, "a gang of one is no gang"
    service = {**MINIMAL, "kind": "stateless", "controller": True, "on_preempt": "fail"}
    assert list(wrong(service)) == ["/controller", "/on_preempt"]
    assert list(wrong({**MINIMAL, "instances": 2, "gang": {"min": 2}, "controller": True})) == ["/controller"]
    assert list(wrong({**MINIMAL, "on_preempt": "wait"})) == ["/on_preempt"]


def test_everything_wrong_is_said_at_once():
    found = wrong(
        {
            "job_id": "Has Capitals",
            "pool": "no-slash",
            "comand": ["x"],
            "instances": 3,
            "resources": {"cpu": 0, "memroy": "1GiB", "memory": 64},
            "gang": {"min": 5},
            "sla": {"max_unavailable": 4},
            "constraints": [{"attribute": "arch"}],
            "on_silence": {"action": "stop_after"},
            "labels": {"a/b~c": 1},
        }
    )
    assert set(found) == {
        "/job_id",
        "/pool",
        "/comand",
        "/resources/cpu",
        "/resources/memory",
        "/resources/memroy",
        "/gang/min",
        "/sla/max_unavailable",
        "/constraints/0/values",
        "/on_silence/after",
        "/labels/a~1b~0c",
    }
    assert found["/comand"] == "is not a known field; did you mean command?"
    assert found["/resources/memroy"].endswith("did you mean memory?")
    assert found["/gang/min"] == "is 5, the job has 3 instances"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"instances": 0}, "/instances"),
        ({"instances": 100_001}, "/instances"),
        ({"instances": "3"}, "/instances"),
        ({"instances": True}, "/instances"),
        ({"priority": 1 << 31}, "/priority"),
        ({"kind": "cron"}, "/kind"),
        ({"kind": "daemon", "instances": 3}, "/instances"),
        ({"kind": "daemon", "preemptible": True}, "/preemptible"),
        ({"kind": "daemon", "strategy": "spread"}, "/strategy"),
        ({"kind": "stateful", "on_silence": {"action": "keep"}}, "/on_silence/action"),
        ({"volumes": ["data"]}, "/volumes"),
        ({"kind": "daemon", "volumes": ["data"]}, "/volumes"),
        ({"kind": "stateful", "volumes": ["a-b", "a_b"]}, "/volumes"),
        ({"kind": "stateful", "volumes": ["../data"]}, "/volumes"),
        ({"kind": "stateful", "volumes": [f"v{number}" for number in range(17)]}, "/volumes"),
        ({"strategy": "random"}, "/strategy"),
        ({"command": []}, "/command"),
        ({"command": "true"}, "/command"),
        ({"command": ["a\0b"]}, "/command/0"),
        ({"env": {"A=B": "c"}}, "/env/A=B"),
        ({"env": {"A": 1}}, "/env/A"),
        ({"ports": ["http", "http"]}, "/ports"),
        ({"ports": ["a-b", "a_b"]}, "/ports"),
        ({"ports": ["http", "HTTP"]}, "/ports"),
        ({"ports": ["http", {"name": "http", "port": 80}]}, "/ports"),
        ({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}, "/ports"),
        ({"ports": [str(number) for number in range(65)]}, "/ports"),
        ({"kind": "stateless", "instances": 4, "gang": {"min": 2}}, "/gang/min"),
        ({"kind": "stateless", "sla": {"max_unavailable": 2}}, "/sla/max_unavailable"),
        ({"on_silence": {"after": "1s"}}, "/on_silence/after"),
        ({"retries": {"max": -1}}, "/retries/max"),
        ({"constraints": [{"attribute": "a", "operator": "like", "values": ["b"]}]}, "/constraints/0/operator"),
        ({"pool": "/"}, "/pool"),
        ({"pool": "/a/"}, "/pool"),
        ({"job_id": ""}, "/job_id"),
        ({"job_id": "a\n"}, "/job_id"),
        ({"env": {"A": "x" * 140_000}}, "/env"),
        ({"env": {f"A{number}": "x" * 100_000 for number in range(6)}}, ""),
        ({"env": {f"A{number}": "x" for number in range(5000)}}, "/env"),
        ({"command": ["sh", "-c", "ü" * 70_000]}, "/command"),
        ({"constraints": [{"attribute": "a", "operator": "exists"}] * 65}, "/constraints"),
        ({"constraints": [{"attribute": "a", "values": ["b"] * 1001}]}, "/constraints/0/values"),
        ({"constraints": [{"attribute": "a", "values": ["b" * 257]}]}, "/constraints/0/values/0"),
        ({"labels": {f"a{number}": "" for number in range(65)}}, "/labels"),
        ({"labels": {"a": "b" * 257}}, "/labels/a"),
        ({"instances": 20_000, "gang": {"min": 16_001}}, "/gang/min"),
    ],
)
def test_a_wrong_field_is_named(fields, pointer):
    assert list(wrong({**MINIMAL, **fields})) == [pointer]


@pytest.mark.parametrize("user", ["4294967295", "web:99999999999"])
def test_no_user_of_a_container_has_a_number_that_linux_has_not(user):
    assert wrong({"pool": "/p", "image": "app:1", "user": user}) == {
        "/user": "has a number beyond 4294967294, the highest"
    }


def test_a_simulated_job_needs_no_command():
    sim = {"duration": "2s", "fail_runs": 1, "fail_run": 3}
    event = JobSpec.model_validate({"pool": "/a", "sim": sim}).to_event("a")
    assert event.simulated is not None
    assert (event.simulated.duration_ms, event.simulated.fail_runs, event.simulated.fail_run) == (2000, 1, 3)


def test_the_hash_is_of_what_is_meant_and_not_of_how_it_is_written():
    same = [job(), job(job_id="b"), job(instances=1, resources={"cpu": "100m"}, stop_grace="10000ms")]
    assert len({spec.to_event("a").spec_hash for spec in same}) == 1
    assert job(instances=2).to_event("a").spec_hash != same[0].to_event("a").spec_hash


def test_a_job_without_id_is_no_fact():
    with pytest.raises(ValueError, match="no id"):
        job().to_event()


def test_the_schema_says_defaults_as_users_write_them():
    schema = json_schema()
    assert schema["$defs"]["Resources"]["properties"]["cpu"]["default"] == 0.1
    assert schema["properties"]["stop_grace"]["default"] == "10s"
    assert schema["additionalProperties"] is False


names = st.text("abc", min_size=1, max_size=5)
spans = st.integers(0, 10**9).map("{}ms".format)
specs = st.builds(
    dict,
    pool=names.map("/{}".format),
    kind=st.sampled_from(["batch", "stateless"]),
    instances=st.integers(5, 100_000),
    command=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1, max_size=3
    ).filter(lambda command: command[0]),
    env=st.dictionaries(names, names, max_size=2),
    resources=st.builds(
        dict,
        cpu=st.integers(1, AMOUNT_MAX).map("{}m".format),
        memory=st.integers(0, AMOUNT_MAX).map("{}MiB".format),
        gpu=st.integers(0, AMOUNT_MAX // 1000),
    ),
    ports=st.lists(names, unique=True, max_size=3),
    priority=st.integers(-INT_MAX, INT_MAX),
    preemptible=st.booleans(),
    gang=st.builds(dict, min=st.integers(0, 1)),
    retries=st.builds(dict, max=st.integers(0, 1000)),
    constraints=st.lists(st.builds(dict, attribute=names, values=st.lists(names, min_size=1, max_size=2)), max_size=2),
    stop_grace=st.integers(0, MS_MAX).map("{}ms".format),
    labels=st.dictionaries(names, names, max_size=2),
    cpu_limit=st.none() | st.just(f"{AMOUNT_MAX}m"),
    processes=st.none() | st.integers(1, PROCESSES_MAX),
    output=st.builds(dict, head=st.integers(4, OUTPUT_KIB_MAX).map("{}KiB".format)) | st.builds(dict),
    isolation=st.sampled_from([None, "none", "cgroup"]),
    sim=st.none()
    | st.builds(dict, duration=spans, exit_code=st.integers(0, 255))
    | st.builds(dict, durations=st.lists(spans, min_size=1, max_size=3)),
).map(lambda spec: spec if spec["kind"] == "batch" else {**spec, "retries": {"max": 0}})


@examples(150)
@given(specs)
def test_a_valid_spec_comes_back_as_it_was_and_is_accepted(spec):
    event = JobSpec.model_validate(spec).to_event("some-id")
    assert JobSpec.model_validate(from_event(event, STANDARD)).to_event() == event
    assert refusal(event, len(encode(event)), 60_000) is None


def test_lifecycle_refuses_what_the_spec_refuses_when_it_comes_another_way():
    event = job(job_id="a").to_event()
    refused = refusal(msgspec.structs.replace(event, instances=0), 100, 60_000)
    assert refused is not None
    assert refused[0] is Code.INVALID_SPEC


def test_a_pool_without_numbers_has_no_limit_and_share_one():
    event = PoolSpec.model_validate({}).to_event("/a", "c")
    assert event.limit == {}
    assert (event.share, event.share_default) == ({}, 1)
    assert event.reservation.get("memory", 0) == 0


def test_a_pool_in_units():
    event = PoolSpec.model_validate(
        {"reservation": {"cpu": 4}, "limit": {"cpu": 8, "memory": "4GiB"}, "share": 3, "open_jobs_max": 10}
    ).to_event("/a", "c")
    assert (event.reservation["cpu"], event.limit) == (4000, {"cpu": 8000, "memory": 4096})
    assert (event.share, event.share_default, event.open_jobs_max) == ({}, 3, 10)


def test_a_wrong_pool_is_told_where():
    spec = {"reservation": {"cpu": 4, "memroy": "1GiB"}, "limit": {"cpu": 3}, "share": "much"}
    found = wrong(spec, PoolSpec)
    assert found["/reservation/memroy"].endswith("did you mean memory?")
    assert "/share" in found
    assert wrong({"reservation": {"cpu": 4}, "limit": {"cpu": 3}}, PoolSpec) == {
        "/limit/cpu": "is below the reservation"
    }


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        (
            {"kind": "stateless", "retries": {"max": 3}},
            "/retries",
            "is for batch jobs only: a service runs until it is stopped",
        ),
        ({"retries": 3}, "/retries", "must be a mapping, such as {max: ...}"),
        ({"command": "sleep 1"}, "/command", 'must be a list, such as ["sleep", "1"]'),
    ],
)
def test_what_would_have_no_effect_and_what_is_no_value_is_refused_in_plain_words(fields, pointer, message):
    assert wrong({**MINIMAL, **fields}) == {pointer: message}


@pytest.mark.parametrize("kind", ["stateless", "stateful", "daemon"])
def test_a_service_may_say_that_it_is_not_retried(kind):
    assert job(kind=kind, retries={"max": 0}).retries.max == 0


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"share": 1.5}, "/share", "must be a whole number from 0 to"),
        ({"share": -1}, "/share", "must be a whole number from 0 to"),
        ({"preemption_delay": "forever"}, "/preemption_delay", "; or never"),
    ],
)
def test_a_pool_with_a_wrong_value_is_told_what_may_stand_there(fields, pointer, message):
    found = wrong(fields, PoolSpec)
    assert (list(found), message in found[pointer]) == ([pointer], True)


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"spread": {"over": "rack", "targets": {"a": 70, "b": 70}}}, "/spread/targets", "140 percent in all"),
        (
            {
                "constraints": [{"attribute": "rack", "operator": "exists", "weight": 40}],
                "affinity": [{"label": "app", "value": "web", "weight": 23}],
            },
            "/affinity",
            "weights of 63 in sum, at most 62",
        ),
    ],
)
def test_what_is_asked_of_neighbours_has_its_bounds(fields: dict[str, Any], pointer: str, message: str) -> None:
    ((found, text),) = wrong({**MINIMAL, **fields}).items()
    assert found == pointer
    assert message in text


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"ports": [{"name": "web", "port": 0}]}, "/ports/0/port", "must be greater than or equal to 1"),
        ({"ports": [7]}, "/ports/0", "must be a valid string"),
        ({"constraints": [{"any": []}]}, "/constraints/0/any", "must have at least 1 item, or be left out"),
        (
            {"constraints": [{"attribute": "disk", "operator": "exists", "values": ["floppy"]}]},
            "/constraints/0/values",
            "are not for exists: leave them out",
        ),
        ({"overrides": [{"instances": "one"}]}, "/overrides/0/instances", 'must be instances such as "0-9,12"'),
        ({"affinity": [{"label": "app"}]}, "/affinity/0/value", "is missing"),
        (
            {"spread": {"over": "rack", "skew": 1, "targets": {"a": 50}}},
            "/spread/targets",
            "and skew exclude each other: give either targets or skew, not both",
        ),
        (
            {"affinity": [{"label": "app", "value": "db"}], "anti_affinity": [{"label": "app", "value": "db"}]},
            "/anti_affinity",
            "and affinity name app=db both: no host is beside it and apart",
        ),
        (
            {"gang": {"min": 2}, "instances": 2, "near": "link_group"},
            "/near",
            "is link_group, which is for tasks that ask for cards, such as gpu",
        ),
        (
            {"spread": {"over": "link_group", "skew": 1}},
            "/spread",
            "is over link_group, and within a host only `within` and `near` are",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_file(fields, pointer, message):
    with pytest.raises(ValidationError) as error:
        JobSpec.model_validate({"job_id": "a", "pool": "/p", "command": ["x"], **fields})
    assert problems(error.value) == [(pointer, message)]


def test_near_in_the_rack_and_apart_on_the_host_is_no_contradiction():
    label = {"label": "app", "value": "db"}
    near = {"affinity": [{**label, "within": "rack"}], "anti_affinity": [label]}
    JobSpec.model_validate({"job_id": "a", "pool": "/p", "command": ["x"], **near})
