"""Drains and campaigns as users write them."""

import pytest
from pydantic import ValidationError

from events.codec import decode, encode
from events.spec.maintenance import DrainSpec, MaintenanceSpec, plan_body
from events.spec.problems import problems

PLAN = {
    "maintenance_id": "kernel-6-12",
    "hosts": {"attribute": "pool", "values": ["shared"]},
    "at_a_time": 60,
    "per_rack": 3,
    "drain": {"batch": "wait", "deadline": "15m", "escalate": "preempt"},
    "work": {"kind": "reboot", "within": "30m"},
    "check": {"within": "10m"},
    "max_failed": 2,
    "max_down": 10,
    "stuck": "2h",
}


def test_a_plan_is_written_to_the_log_and_read_back_as_it_was():
    fact = decode(encode(MaintenanceSpec.model_validate(PLAN).to_event(["h1", "h2"], "c")))
    assert (fact.host_ids, fact.plan.stuck_ms, fact.plan.within_ms) == (("h1", "h2"), 7_200_000, 1_800_000)
    body = plan_body(fact.plan)
    again = MaintenanceSpec.model_validate({**PLAN, **body})
    assert again.to_event(["h1", "h2"], "c") == fact
    assert {name: body[name] for name in ("at_a_time", "drain", "work", "stuck")} == {
        "at_a_time": 60,
        "drain": PLAN["drain"],
        "work": PLAN["work"],
        "stuck": "2h",
    }


def test_what_is_ended_by_force_is_so_ten_minutes_after_the_deadline_unless_said():
    drain = DrainSpec.model_validate({"deadline": "2h", "escalate": "force"})
    assert drain.to_event(["h1"], "c").force_after_ms == 600_000
    drain = DrainSpec.model_validate({"deadline": "2h", "escalate": "force", "force_after": "1m"})
    assert drain.to_part().force_after_ms == 60_000


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"drain": {"escalate": "preempt"}}, "drain/deadline"),
        ({"drain": {"deadline": "1h", "force_after": "1m"}}, "drain/force_after"),
        ({"work": {"kind": "time"}}, "work/duration"),
        ({"work": {"kind": "reboot", "duration": "1m"}}, "work/duration"),
        ({"hosts": {}}, "hosts/ids"),
        ({"hosts": {"ids": ["h1"], "attribute": "rack", "values": ["r"]}}, "hosts/ids"),
        ({"hosts": {"attribute": "rack"}}, "hosts/values"),
        ({"hosts": {"ids": ["h1"], "values": ["r"]}}, "hosts/values"),
        ({"hosts": ["h1"]}, "hosts"),
        ({"at_a_time": 0}, "at_a_time"),
        ({"at_a_tme": 2}, "at_a_tme"),
        ({"maintenance_id": "a/b"}, "maintenance_id"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(change, pointer):
    with pytest.raises(ValidationError) as refused:
        MaintenanceSpec.model_validate(PLAN | change)
    assert [each for each, _ in problems(refused.value, MaintenanceSpec)] == [f"/{pointer}"]
