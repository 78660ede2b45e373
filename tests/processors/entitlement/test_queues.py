"""What follows from a job goes with it, and is found by its new priority: `World` compares it with what rows say."""

from events.codes import Code, Outcome
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


def test_a_service_that_lost_instances_is_before_other_work_of_its_priority_until_they_have_places() -> None:
    world = World(cpu(8))
    world.define("/p")
    world.place(*world.submit("batch", instances=4), *world.submit("web", instances=4, kind="stateless"))
    world.capacity(cpu(4))
    world.end(*((job, at, 1) for job in ("batch", "web") for at in (0, 1)), kept=1, outcome=Outcome.LOST)
    for job in ("batch", "web"):
        world.give_back(job, 0, 2, 2, Code.NO_HOST_FITS)
    world.submit("new", kind="stateless")
    assert world.end(("batch", 2, 1)) == [("web", 0, 2)]
    assert world.end(("batch", 3, 1)) == [("web", 1, 2)]
    world.place(("web", 0, 2), ("web", 1, 2))
    world.requeue(("web", 2, 2))
    assert world.end(("web", 3, 1)) == [("batch", 0, 2)]


def test_an_instance_that_has_failed_waits_as_before() -> None:
    world = World(cpu(4))
    world.define("/p")
    world.place(*world.submit("batch", instances=2), *world.submit("web", instances=2, kind="stateless"))
    world.capacity(cpu(2))
    world.end(("batch", 0, 1), ("web", 0, 1), kept=1, outcome=Outcome.FAILED)
    for job in ("batch", "web"):
        world.give_back(job, 0, 1, 2, Code.NO_HOST_FITS)
    assert world.end(("web", 1, 1)) == [("batch", 0, 2)]
