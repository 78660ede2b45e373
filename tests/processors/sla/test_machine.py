"""Who may be disturbed, in users' words."""

import json

import pytest

from events.codes import Code
from events.columns import ints
from events.records.lifecycle import DisruptionAsked, JobSlaChanged
from events.records.parts import Cause
from events.records.sla import DisruptionAllowed
from tests.helpers import WORKED
from tests.helpers.machines import columns, runs_of
from tests.processors.sla.harness import World

CASES = json.loads((WORKED / "sla.json").read_text())


def test_one_instance_of_a_healthy_service_may_go_and_the_next_waits_for_it() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    assert world.ask(("web", 0, 1), ("web", 1, 1)) == [("web", 0, 1)]
    (deferred,) = world.deferred
    assert (runs_of(deferred), deferred.code) == ([("web", 1, 1)], Code.SLA_BUDGET_SPENT)
    assert (ints(deferred.unavailable).tolist(), ints(deferred.max_unavailable).tolist()) == ([1], [1])
    assert world.down(("web", 0, 1)) == [], "it is still missing"
    assert world.up(("web", 0, 2)) == [("web", 1, 1)], "allowed without being asked again"
    assert len(world.deferred) == 1, "said once"


def test_all_that_must_wait_is_said_at_once() -> None:
    world = World()
    world.service("web", 4, max_unavailable=1)
    world.service("api", 3, max_unavailable=2)
    world.hear(DisruptionAsked(**columns([*(("web", at, 1) for at in range(4)), *(("api", at, 1) for at in range(3))])))
    (deferred,) = world.deferred
    assert sorted(runs_of(deferred)) == [("api", 2, 1), ("web", 1, 1), ("web", 2, 1), ("web", 3, 1)]
    numbers = zip(ints(deferred.unavailable).tolist(), ints(deferred.max_unavailable).tolist(), strict=True)
    assert dict(zip(deferred.job_ids, numbers, strict=True)) == {"web": (1, 1), "api": (2, 2)}


def test_an_instance_that_was_stopped_is_missed_by_nobody_until_it_is_started() -> None:
    world = World()
    world.service("web", 4, max_unavailable=1)
    world.stop("web", 0, 2)
    world.down(("web", 0, 1), ("web", 1, 1))
    assert world.machine.unavailable("web") == 0
    assert world.ask(("web", 2, 1)) == [("web", 2, 1)]
    world.up(("web", 2, 2))
    world.start("web", 0, 1)
    assert world.machine.unavailable("web") == 1
    assert world.ask(("web", 3, 1)) == [], "instance 0 is wanted again, and isn't there yet"
    assert world.up(("web", 0, 2)) == [("web", 3, 1)]


def test_an_instance_that_shall_stop_anyway_needs_no_budget() -> None:
    world = World()
    world.service("web", 3, max_unavailable=0)
    world.ask(("web", 1, 1))
    assert world.stop("web", 1, 1) == [("web", 1, 1)]
    assert world.stop("web") == []
    assert world.machine.unavailable("web") == 0


def test_an_instance_that_is_told_to_stop_is_unavailable_from_then_on() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.stopping(("web", 0, 1))
    assert world.machine.unavailable("web") == 1
    assert world.ask(("web", 1, 1)) == []
    world.down(("web", 0, 1))
    assert world.up(("web", 0, 2)) == [("web", 1, 1)]
    assert world.stopping(("web", 0, 1)) == [], "that run is long over"
    assert world.machine.unavailable("web") == 1


def test_another_sla_holds_from_then_on() -> None:
    world = World()
    world.service("web", 4, max_unavailable=1)
    world.ask(("web", 0, 1), ("web", 1, 1), ("web", 2, 1))
    assert world.sla("web", 2) == [("web", 1, 1)]
    assert world.sla("web", 0) == []
    assert world.up(("web", 0, 2), ("web", 1, 2)) == []
    assert world.sla("web", 1) == [("web", 2, 1)]


def test_who_gets_an_sla_is_known_as_it_is() -> None:
    world = World()
    world.service("web", 5, max_unavailable=None)
    assert world.sla("web", 2, first=[0, 2, 3], count=[2, 1, 2], run=[3, 0, 1], wanted=[1, 1, 0]) == []
    assert world.machine.unavailable("web") == 1, "instance 2; nobody misses 3 and 4"
    assert world.ask(("web", 0, 3), ("web", 1, 3)) == [("web", 0, 3)]
    assert world.up(("web", 2, 1)) == [("web", 1, 3)]


def test_who_has_no_sla_any_more_waits_for_nobody() -> None:
    world = World()
    world.service("web", 3, max_unavailable=0)
    world.ask(("web", 0, 1), ("web", 1, 1))
    assert world.sla("web", None) == [("web", 0, 1), ("web", 1, 1)]
    assert world.ask(("web", 2, 1)) == [("web", 2, 1)]
    assert not len(world.machine.jobs)


def test_what_has_no_verdict_yet_waits_for_the_new_sla_of_a_job_that_had_none_for_a_moment() -> None:
    world = World()
    world.service("web", 5, max_unavailable=0)
    assert world.ask(*(("web", instance, 1) for instance in range(5))) == []
    off = JobSlaChanged(job_id="web", max_unavailable=None)
    left = {"first": [0, 1, 3], "count": [1, 2, 1], "run": [1, 1, 2], "wanted": [1, 1, 1]}
    on = JobSlaChanged.pack(job_id="web", max_unavailable=1, instances=4, **left)
    assert world.hear(off, on) == [("web", 0, 1)], "instance 3 has another run, and 4 was removed"
    assert world.machine.unavailable("web") == 1
    assert not len(world.machine.unguarded)
    assert runs_of(world.deferred[-1]) == [("web", 1, 1), ("web", 2, 1)]
    assert world.up(("web", 0, 2)) == [("web", 1, 1)]
    assert world.up(("web", 1, 2)) == [("web", 2, 1)]
    assert world.up(("web", 2, 2)) == []


def test_a_verdict_names_the_change_that_led_to_it() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.ask(("web", 0, 1), ("web", 1, 1))
    world.down(("web", 0, 1))
    world.up(("web", 0, 2))
    up = Cause(machine="lifecycle", round=world.rounds["lifecycle"], index=0)
    allowed = [event for event in world.said if isinstance(event, DisruptionAllowed)]
    assert [event.causes for event in allowed[1:]] == [(up,)], "another instance is available again"


def test_the_budget_is_held_although_the_old_run_is_still_seen() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.ask(("web", 0, 1))
    assert world.up(("web", 0, 1)) == []
    assert world.ask(("web", 1, 1)) == []


def test_an_instance_that_is_down_anyway_may_be_disturbed() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.down(("web", 2, 1))
    assert world.ask(("web", 0, 1)) == []
    assert world.ask(("web", 2, 2)) == [("web", 2, 2)]
    assert world.up(("web", 2, 2)) == [], "run 2 was allowed to go, so it doesn't count as back"
    assert world.up(("web", 2, 3)) == [("web", 0, 1)]


def test_a_service_that_is_starting_counts_as_unavailable() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1, running=False)
    world.up(("web", 0, 1))
    assert world.ask(("web", 0, 1)) == []
    assert world.up(("web", 1, 1), ("web", 2, 1)) == [("web", 0, 1)]


def test_a_withdrawn_disruption_gives_its_budget_to_the_next() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.ask(("web", 0, 1), ("web", 1, 1), ("web", 2, 1))
    assert world.withdraw(("web", 1, 1)) == []
    assert world.withdraw(("web", 0, 1)) == [("web", 2, 1)]
    assert world.machine.unavailable("web") == 1


def test_zero_means_none_on_purpose() -> None:
    """Peloton takes 0 for no limit; here a job without an SLA says so by having none."""
    case = next(case for case in CASES if case["case_id"] == "derived_zero_means_no_limit")
    assert case["expected_patched_instances"] == [0]
    world = World()
    world.service("web", 4, max_unavailable=case["maximum_unavailable_instances"])
    assert world.ask(("web", 0, 1)) == []
    world.down(("web", 0, 1))
    assert world.ask(("web", 0, 2)) == [("web", 0, 2)], "what is down takes no budget"


def test_preemption_is_gated_too() -> None:
    """Peloton lets preemption pass the gate; here nothing that is done on purpose does."""
    case = next(case for case in CASES if case["case_id"] == "derived_resource_preemption_is_not_gated")
    world = World()
    world.service("web", 3, max_unavailable=case["maximum_unavailable_instances"])
    world.down(*(("web", instance, 1) for instance in case["unavailable_instances"]))
    assert world.ask(("web", 0, 1)) == []


@pytest.mark.parametrize("max_unavailable", [None, 1])
def test_nobody_waits_for_a_job_without_an_sla_or_one_that_is_over(max_unavailable: int | None) -> None:
    world = World()
    world.service("web", 2, max_unavailable=max_unavailable)
    world.over("web")
    assert world.ask(("web", 1, 1), ("web", 0, 1), ("unknown", 7, 3)) == [
        ("unknown", 7, 3), ("web", 0, 1), ("web", 1, 1)
    ]  # fmt: skip
    assert world.ask(("web", 0, 1)) == [("web", 0, 1)]


def test_a_run_that_ended_meanwhile_needs_no_verdict() -> None:
    world = World()
    world.service("web", 2, max_unavailable=1)
    world.down(("web", 0, 1))
    assert world.ask(("web", 0, 1)) == []
    world.ask(("web", 1, 1))
    assert world.down(("web", 1, 1)) == []
    assert world.up(("web", 0, 2), ("web", 1, 2)) == [], "it ended while it waited"


def test_a_job_that_has_ended_leaves_its_place() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.ask(("web", 0, 1), ("web", 1, 1))
    world.over("web")
    world.over("unknown")
    world.service("other", 3, max_unavailable=1)
    assert world.machine.jobs["other"].base == 0
    assert world.ask(("other", 1, 1), ("other", 2, 1)) == [("other", 1, 1)]


def test_a_successor_goes_on_where_the_process_stopped() -> None:
    world = World()
    world.service("web", 3, max_unavailable=1)
    world.ask(("web", 0, 1), ("web", 1, 1))
    world.restart()
    assert world.quiet() == []
    world.down(("web", 0, 1))
    assert world.up(("web", 0, 2)) == [("web", 1, 1)]


def test_more_than_a_round_takes_comes_in_the_next_one() -> None:
    world = World(budget=2)
    world.service("web", 9, max_unavailable=5)
    asked = [("web", instance, 1) for instance in range(9)]
    assert world.ask(*asked) == asked[:5]
    assert [len(runs_of(each)) for each in world.deferred] == [1, 2, 1]
