"""The worked cases: our numbers, and where they differ on purpose, why."""

import json
from typing import Any

from events.codes import Code
from events.resources import STANDARD_KINDS, Amounts
from tests.helpers import WORKED
from tests.processors.entitlement.harness import World, admitted

FOLDER = WORKED
CASES: dict[str, Any] = {
    case["case_id"]: case
    for name in ("entitlement", "admission")
    for case in json.loads((FOLDER / f"{name}.json").read_text())
}


def amounts(values: dict[str, float] | None, milli: int = 1000) -> Amounts:
    """Cores and devices to thousandths; memory and disk as they are."""
    times = {"cpu": milli, "gpu": milli}
    return {name: int(value * times.get(name, 1)) for name, value in (values or {}).items()}


def settings_of(pool: dict[str, Any]) -> dict[str, Amounts]:
    kinds = pool["resources"]
    return {
        "reservation": amounts({name: kinds[name]["reservation"] for name in kinds}),
        "limit": amounts({name: kinds[name]["limit"] for name in kinds}),
        "share": amounts({name: kinds[name]["share"] for name in kinds}, milli=1),
    }


def world_of(case: dict[str, Any], roots_too_small: bool = False) -> World:
    """The cell of a case: its pools, what they hold, then what waits there, in ten equal tasks."""
    world = World(amounts(case["cluster_capacity"]))
    for pool in case["pools"]:
        if pool["path"] != "/":
            spec = settings_of(pool)
            if roots_too_small:  # their pools below reserve more than they have
                spec["reservation"] = {} if pool["path"].count("/") > 1 else spec["reservation"]
            answer = world.define(pool["path"], **spec)
            assert answer.code == Code.DONE, answer.message
    for path, given in case["inputs"].items():
        if "allocation" in given:
            world.submit("held", path, 10, amounts(given["allocation"]["total"], milli=100))
        if "demand" in given:
            tenth = {name: value / 10 for name, value in given["demand"].items()}
            world.submit(f"wants-{path.rpartition('/')[2]}", path, 10, amounts(tenth))
    return world


def test_what_one_pool_leaves_goes_to_the_others() -> None:
    """10, 45, 45: as in the users' guide of Peloton."""
    case = CASES["user_guide_example_1"]
    world = world_of(case)
    for check in case["expected_checks"]:
        assert world.entitled(check["pool"])[0] == check["value"] * 1000


def test_what_is_held_counts_as_demand() -> None:
    case = CASES["derived_allocation_counts_as_requirement"]
    world = world_of(case)
    assert world.holds("/rp1") == 70_000
    assert world.entitled("/rp1")[0] == case["reference_values"]["/rp1"]["entitlement"]["cpu"] * 1000
    assert world.entitled("/rp2")[0] == case["reference_values"]["/rp2"]["entitlement"]["cpu"] * 1000
    assert world.holds("/rp2") == 48_000, "it claims all of it; who holds more gives it back"


def test_pools_without_demand_get_nothing_until_they_ask() -> None:
    """Peloton hands idle pools head-room, for its next cycle is a minute away; ours follows demand at once."""
    case = CASES["derived_unclaimed_capped_by_limit"]
    world = world_of(case)
    assert case["reference_values"]["/rp1"]["entitlement"]["cpu"] == 30
    assert world.entitled("/rp1")[0] == 0
    world.submit("job", "/rp1", instances=200, need={"cpu": 1000})
    assert world.holds("/rp1") == 30_000, "its limit"


def test_the_only_demand_gets_all_it_asks() -> None:
    """Peloton: 33.3 with the head-room of idle siblings taken off again; exact sharing gives what is asked: 20."""
    case = CASES["elastic_one_pool_demand"]
    world = world_of(case, roots_too_small=True)
    entitled = world.entitled("/respool1/respool11")
    assert entitled[0] == 20_000
    assert entitled[1] == 200
    assert entitled[2] == 1000, "disk: its limit, as there"
    assert sum(world.entitled(pool)[0] for pool in ("/respool2", "/respool3", "/respool1/respool12")) == 0


def test_demand_adds_up_the_tree() -> None:
    case = CASES["demand_rollup"]
    world = World()
    for path in ("/respool1", "/respool1/respool11", "/respool1/respool12", "/respool2", "/respool2/respool21"):
        world.define(path)
    for path, given in case["inputs"].items():
        world.submit(f"job-{path.rpartition('/')[2]}", path, need=amounts(given["demand"]))
    for path, expected in case["expected_demand"].items():
        want = amounts(expected)
        assert world.machine.reports.row(path).demand == STANDARD_KINDS.vector(want)


def test_the_rules_of_the_tree() -> None:
    """Two of its rules have no counterpart: a name is part of the path, so a sibling of the same name is the same pool,
    and nothing moves. Its root has limits, those of the cell; ours has none, for capacity comes and goes.
    """
    world = World()
    assert world.define("", "path_nil").code == Code.INVALID_POOL
    assert world.define("/i_do_not_exist/respool33", "parent_missing").code == Code.NO_SUCH_POOL
    bad = CASES["negative_reservation"]["request"]
    assert (
        world.define("/respoolc", reservation=amounts({"cpu": bad["resources"]["cpu"]["reservation"]})).code
        == Code.INVALID_POOL
    )
    high = CASES["root_child_limit_exceeds"]["request"]["resources"]["cpu"]["limit"]
    most = {"cpu": int(high) * 1000}
    assert world.define("/respool3", limit=most).code == Code.DONE
    above = {"cpu": int(high) * 1000 + 1}
    assert world.define("/respool3/below", limit=above).code == Code.INVALID_POOL


def test_admission_within_the_entitlement() -> None:
    case = CASES["admit_from_pending"]
    need = amounts(case["gang"]["resources_per_task"])
    world = World()
    world.define("/p", reservation=amounts(case["pool"]["reservation"]), limit=amounts(case["pool"]["limit"]))
    assert world.submit("j", need=need) == [], "reject_no_entitlement"
    assert world.holds("/p") == 0
    assert admitted(world.capacity(amounts(case["non_slack_entitlement"]))) == [("j", 0, 1)]
    assert world.holds("/p") == amounts(case["expected"]["total_allocation_after"])["cpu"]


def test_a_job_that_was_stopped_while_it_waited_leaves_the_queue() -> None:
    case = CASES["invalidated_single_task_gang"]
    world = World()
    world.define("/p")
    world.submit("job1", instances=2)
    world.end(("job1", 1, 1))
    assert world.machine.reports.row("/p").demand[0] == 1
    world.end(("job1", 0, 1))
    assert world.machine.reports.row("/p").demand == (0, 0, 0, 0)
    assert case["expected"]["pending_queue_size"] == 0


def test_the_queue_goes_by_priority_then_order() -> None:
    case = CASES["enqueue_counts_by_priority"]
    world = World()
    world.define("/p")
    for number, gang in enumerate(case["enqueued"]):
        world.submit(f"j{number}", need=amounts(gang["resources_per_task"]), priority=gang["priority"])
    places = [place for places in world.machine.order["/p"].waiting.values() for place in places]
    assert [-priority for priority, *_ in places] == [2, 2, 1, 0]
    assert [job_id for *_, (job_id, _) in places] == ["j2", "j3", "j1", "j0"]


def test_a_placement_that_failed_frees_the_pool() -> None:
    """Peloton keeps the allocation through a cycle of attempts; here a returned gang frees its pool at once."""
    assert [row["expected"] for row in CASES["cycle_completed"]["rows"]] == [False, False, False, True]
    world = World({"cpu": 20})
    world.define("/p")
    world.submit("a")
    world.give_back("a", 0, 1, 1, Code.CONSTRAINT_MISMATCH)
    assert world.holds("/p") == 0
