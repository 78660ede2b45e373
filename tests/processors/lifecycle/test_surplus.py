"""Surplus instances: they come as sla says, are no update's, and leave when they are of an older serial."""

from typing import Any

import pytest

from events.codec import encode
from events.codes import RunCause, RunReport
from events.columns import pack_ints
from events.records.base import Event
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import (
    DisruptionAsked,
    GangsQueued,
    InstancesChanged,
    RunsEnded,
    RunsStopping,
    UpdateEnded,
    UpdateStarted,
)
from events.records.parts import SlaPolicy, UpdatePolicy
from events.records.sla import SurplusSet
from tests.helpers.machines import Run, kinds, of, one, ranges_of, runs_of
from tests.processors.lifecycle.harness import World, allowed

SPEC: dict[str, Any] = {
    "kind": "stateless",
    "instances": 2,
    "max_unavailable": 0,
    "sla": SlaPolicy(replace="before", surge=1),
    "update": UpdatePolicy(healthy_ms=0),
}
WEB: list[Run] = [("web", instance, 1) for instance in range(2)]
MORE: Run = ("web", 2, 1)


class Replaced(World):
    """A service of two instances that replaces first."""

    def __init__(self) -> None:
        super().__init__()
        self.submit("web", **SPEC)
        self.place(*WEB)
        self.report(RunReport.STARTED, *WEB)

    def surplus(self, surplus: int, serial: int) -> list[Event]:
        said = SurplusSet(
            job_ids=("web",), job=pack_ints([0]), surplus=pack_ints([surplus]), serial=pack_ints([serial])
        )
        return self.peer("sla", said)

    def update(self, **fields: Any) -> list[Event]:
        spec = encode(JobSubmitted(job_id="web", pool="/p", **{"command": ("true",), **SPEC, **fields}))
        asked = JobUpdateRequested(job_id="web", command_id=self.command_id(), expected_version=0, spec=spec)
        return self.fact("paceline.jobs", asked)


@pytest.fixture
def world() -> Replaced:
    return Replaced()


def test_a_surplus_instance_is_queued_as_any_other_and_leaves_when_it_is_given_up(world: Replaced) -> None:
    said = world.surplus(1, 1)
    added = one(said, InstancesChanged)
    assert (added.surplus, added.instances, added.first_array.tolist()) == (1, 3, [2])
    assert ranges_of(one(said, GangsQueued)) == [("web", 2, 1, 1, 0)]
    assert added.cause is not None
    assert added.cause.machine == "sla"
    world.place(MORE, host="h2")
    world.report(RunReport.STARTED, MORE)
    stopping = one(world.surplus(0, 1), RunsStopping)
    assert runs_of(stopping) == [MORE]
    assert stopping.why_array.tolist() == [RunCause.REMOVE]
    said = world.report(RunReport.STOPPED, MORE)
    assert one(said, InstancesChanged).instances == 2


def test_one_of_an_older_serial_leaves_and_another_comes(world: Replaced) -> None:
    world.surplus(1, 1)
    world.place(MORE, host="h2")
    world.busy = True
    world.surplus(0, 1)
    world.surplus(1, 2)
    world.busy = False
    said = world.quiet()
    assert runs_of(one(said, RunsStopping)) == [MORE]
    added = one(said, InstancesChanged)
    assert (added.surplus, added.first_array.tolist()) == (2, [3])


def test_no_update_counts_or_takes_a_surplus_instance_and_it_goes_on_by_it(world: Replaced) -> None:
    said = world.update(command=("false",))
    assert one(said, UpdateStarted).updated == 2
    asked = one(said, DisruptionAsked)
    assert asked.why_array.tolist() == [RunCause.UPDATE]
    said = world.surplus(1, 1)
    assert kinds(said) == ["InstancesChanged", "GangsQueued"]
    world.place(MORE, host="h2")
    world.report(RunReport.STARTED, MORE)
    said = world.peer("sla", allowed(*runs_of(asked)))
    for run in WEB:
        if not any(run in runs_of(each) for each in of(said, RunsStopping)):
            world.peer("sla", allowed(run))
        world.report(RunReport.STOPPED, run)
        again = (*run[:2], 2)
        world.place(again)
        said = world.report(RunReport.STARTED, again)
    assert one(world.said, UpdateEnded).state == "SUCCEEDED"
    assert runs_of(one(world.surplus(0, 1), RunsStopping)) == [MORE]


def test_a_job_that_gets_more_instances_takes_over_its_surplus(world: Replaced) -> None:
    world.surplus(1, 1)
    world.place(MORE, host="h2")
    world.report(RunReport.STARTED, MORE)
    said = world.update(instances=3)
    changes = of(said, InstancesChanged)
    assert [(each.adopted, each.surplus) for each in changes] == [(1, 0), (0, 1)], "and another one is surplus"
    assert one(said, UpdateStarted).added == 0
    assert changes[1].first_array.tolist() == [3]
    assert RunsStopping not in map(type, world.surplus(0, 1)), "the third waits to be placed"
    assert runs_of(of(world.said, RunsEnded)[-1]) == [("web", 3, 1)]
