"""What follows from a job goes with it, and is found by its new priority: `World` compares it with what rows say."""

from events.codes import Code
from events.records.lifecycle import JobPriorityChanged
from tests.processors.entitlement.harness import World, admitted, cpu, waits


def test_a_job_that_stood_aside_and_ended_is_tried_no_more() -> None:
    world = World(cpu(8))
    world.define("/p")
    world.submit("large")
    world.give_back("large", 0, 1, 1, Code.NEVER_FITS)
    assert world.machine.queues.aside
    world.over("large")
    assert not world.machine.queues.aside
    assert admitted(world.capacity(cpu(16))) == []


def test_what_a_job_is_entitled_to_counts_at_its_new_priority_alone() -> None:
    world = World(cpu(8))
    world.define("/p")
    world.place(*world.submit("web", instances=4))
    usage = world.machine.usage["/p"]
    for priority in (7, 3):
        world.peer("lifecycle", JobPriorityChanged(job_id="web", priority=priority))
        assert [usage.entitled_from(each)[0] for each in (priority + 1, priority, 0)] == [0, 4, 4]


def test_a_task_that_comes_to_those_that_wait_is_told_why_too() -> None:
    world = World(cpu(2))
    world.define("/p")
    world.place(*world.submit("web", instances=4))
    world.place(*world.end(("web", 0, 1)))
    before = len(waits(world.said))
    world.requeue(("web", 0, 2))
    assert [job_id for job_id, _ in waits(world.said)[before:]] == ["web"]
