"""What an SLA says beyond a number: it reaches the other machines, bounds updates and comes with each version."""

from typing import Any

import pytest

from events.codes import Code
from events.records.lifecycle import JobAccepted, JobRejected, JobSlaChanged
from events.records.parts import SlaPolicy, SlaWindow, ZoneOffsets
from tests.helpers.machines import of, one
from tests.processors.lifecycle.harness import World
from tests.processors.lifecycle.test_updates import Cell, policy

HALF = SlaPolicy(max_unavailable_percent=50)


def test_the_acceptance_carries_the_whole_sla_of_a_batch_job_too() -> None:
    world = World()
    sla = SlaPolicy(per_hour=2, windows=(SlaWindow("0 2 * * *", 3_600_000, ZoneOffsets()),))
    accepted = one(world.submit("a", instances=3, max_unavailable=1, sla=sla), JobAccepted)
    assert (accepted.max_unavailable, accepted.sla) == (1, sla)
    assert one(world.submit("b"), JobAccepted).sla is None


def test_an_update_takes_no_more_than_the_percentage_allows() -> None:
    cell = Cell(sla=HALF, update=policy())
    assert "at most 2 at a time" in cell.update(command=("two",)).message
    assert cell.taken() == [[0, 1], [2, 3]]
    assert cell.running() == [2, 2, 2, 2]


def test_the_percentage_holds_for_the_instances_of_the_new_version() -> None:
    cell = Cell(sla=SlaPolicy(min_available_percent=75))
    cell.update(instances=8, command=("two",))
    assert max(map(len, cell.taken())) == 2, "three quarters of 8 must stay available"
    assert cell.running() == [2] * 8


@pytest.mark.parametrize(
    ("sla", "why"),
    [
        (SlaPolicy(min_available_percent=90), "min_available is 90% of 4 instances"),
        (SlaPolicy(min_available=4), "min_available is 4 of 4 instances"),
        (SlaPolicy(max_unavailable_percent=0), "max_unavailable is 0% of 4 instances"),
        (SlaPolicy(min_available=4, max_unavailable_percent=50), "min_available is 4 of 4 instances"),
    ],
)
def test_an_sla_that_never_lets_an_instance_go_refuses_updates_and_says_by_which_bound(
    sla: SlaPolicy, why: str
) -> None:
    cell = Cell(sla=sla)
    for answer in (cell.update(command=("two",)), cell.act("restart")):
        assert answer.code == Code.NOT_UPDATABLE
        assert answer.message.startswith(why)
    assert cell.update(command=("two",), sla=HALF).code == Code.DONE
    assert "there" in cell.act("roll_back", version=1).message


def test_an_sla_that_replaces_first_may_be_updated() -> None:
    cell = Cell(max_unavailable=0, sla=SlaPolicy(replace="before", surge=2))
    assert cell.update(command=("two",)).code == Code.DONE
    assert cell.taken()[0] == [0, 1]


def test_each_change_of_the_sla_is_said_whole_and_goes_back_with_the_version() -> None:
    cell = Cell(sla=HALF)
    cell.update(max_unavailable=2, sla=SlaPolicy(min_healthy_ms=5))
    cell.update(sla=None)
    cell.update(max_unavailable=None)
    assert cell.act("roll_back", version=1).code == Code.DONE
    said = [(each.max_unavailable, each.sla) for each in of(cell.said, JobSlaChanged)]
    assert said == [(2, SlaPolicy(min_healthy_ms=5)), (2, None), (None, None), (None, HALF)]
    assert [bool(each.count) for each in of(cell.said, JobSlaChanged)] == [False, False, False, True]


@pytest.mark.parametrize(
    "fields",
    [
        {"sla": SlaPolicy(max_unavailable_percent=101)},
        {"sla": SlaPolicy(min_available=4)},
        {"sla": SlaPolicy(min_healthy_ms=-1)},
        {"sla": SlaPolicy(per_hour=-1)},
        {"sla": SlaPolicy(replace="after")},
        {"sla": SlaPolicy(replace="before")},
        {"sla": SlaPolicy(replace="before"), "kind": "stateless", "ports": ("http",), "port_numbers": {"http": 80}},
        {"sla": SlaPolicy(surge=0)},
        {"sla": SlaPolicy(group="A b")},
        {"sla": SlaPolicy(windows=(SlaWindow("0 2 * * *", 0, ZoneOffsets()),))},
        {"sla": SlaPolicy(windows=(SlaWindow("* * * * *", 10 * 86_400_000, ZoneOffsets()),))},
        {"sla": HALF, "max_unavailable": 1},
        {"sla": SlaPolicy(windows=(SlaWindow("at two", 60_000, ZoneOffsets()),))},
        {"sla": SlaPolicy(windows=(SlaWindow("0 2 * * *", 60_000, ZoneOffsets("X", (1,), ())),))},
    ],
)
def test_a_record_of_another_writer_that_makes_no_sense_is_rejected(fields: dict[str, Any]) -> None:
    assert one(World().submit("a", **{"instances": 3, **fields}), JobRejected).code == Code.INVALID_SPEC
