"""What dry runs of host pools say, before anybody changes one or moves a host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested
from events.records.parts import DeviceModels, HostDevice, PlacementRules
from events.records.pools import PoolDefined
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CAPACITY = {"cpu": 4_000, "memory": 8_192, "disk": 100_000}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Three hosts of four cores, the first of which is busy."""
    cell = PlannedCell(tmp_path / "cell", [SimHost(3, CAPACITY, {}, "h#")])
    cell.append(PoolDefined(path="/web", command_id="pool"))
    cell.append(HostPoolDefined(name="gpus", command_id="gpus"))
    cell.run(1000)
    cell.submit("batch", "/web", instances=1, resources={"cpu": 1_000}, priority=7)
    cell.run(5000)
    yield cell
    cell.close()


def move(hosts: int, target: str = "gpus") -> HostPoolMoveRequested:
    return HostPoolMoveRequested(source="shared", target=target, hosts=hosts, command_id="move", batch="move")


def test_the_hosts_are_named_that_would_be_moved_with_their_scores(cell: PlannedCell) -> None:
    plan = cell.plan_move(move(3))
    assert (plan["code"], plan["refused"], plan["candidates"]) == ("DONE", False, 3)
    assert [(each["host_id"], each["tasks"], each["priorities"]) for each in plan["hosts"]] == [
        ("h2", 0, 0),
        ("h3", 0, 0),
        ("h1", 1, 7),
    ]
    again = cell.plan_move(move(1))
    assert [each["host_id"] for each in again["hosts"]] == ["h2"], "nothing was written"


def test_what_would_be_refused_is_told(cell: PlannedCell) -> None:
    plan = cell.plan_move(move(4))
    assert (plan["code"], plan["refused"], plan["hosts"]) == ("TOO_FEW_HOSTS", True, [])
    assert cell.plan_move(move(1, "none"))["code"] == "NOT_FOUND"


def assign(host_pool: str, *host_ids: str) -> HostPoolAssigned:
    return HostPoolAssigned(host_ids=host_ids, host_pool=host_pool, command_id="assign")


def test_the_jobs_are_named_that_could_use_fewer_hosts_and_those_that_would_fit_nowhere_first(
    cell: PlannedCell,
) -> None:
    cell.submit("gang", "/web", instances=8, gang_min=8, resources={"cpu": 1_000})
    cell.run(5000)
    plan = cell.plan_host_pools(assign("gpus", "h1", "h2"))
    assert (plan["code"], plan["refused"]) == ("DONE", False)
    outside = {each["job_id"]: each["runs_outside"] for each in plan["jobs"]}
    assert [(each["job_id"], each["hosts"], each["hosts_then"], each["fits"]) for each in plan["jobs"]] == [
        ("gang", 3, 1, False),
        ("batch", 3, 1, True),
    ]
    assert outside["batch"] == 1, "it is on h1, and goes on"
    assert cell.plan_move(move(1))["jobs"][0]["hosts_then"] == 2
    assert cell.plan_host_pools(assign("none", "h1"))["code"] == "NOT_FOUND"


def test_a_definition_that_takes_hosts_from_jobs_says_from_which(cell: PlannedCell) -> None:
    cell.append(assign("gpus", "h1", "h2", "h3"), HostPoolDefined(name="gpus", command_id="kinds", kinds=("batch",)))
    cell.run(5000)
    [job] = cell.plan_host_pools(HostPoolDefined(name="gpus", command_id="none"))["jobs"]
    assert (job["job_id"], job["hosts"], job["hosts_then"], job["fits"]) == ("batch", 3, 0, False)
    assert cell.plan_host_pools(HostPoolDefined(name="gpus", command_id="removed", removed=True))["refused"]


def test_a_job_fits_only_where_its_model_of_card_is(tmp_path: Path) -> None:
    def cards(model: str) -> tuple[HostDevice, ...]:
        return tuple(HostDevice(id=str(at), kind="gpu", model=model) for at in range(2))

    hosts = [
        SimHost(1, CAPACITY | {"gpu": 2_000}, {}, "h#", number, devices=cards(model))
        for number, model in ((1, "h100"), (2, "l4"))
    ]
    cell = PlannedCell(tmp_path / "cell", hosts)
    cell.append(PoolDefined(path="/web", command_id="pool"))
    cell.append(HostPoolDefined(name="gpus", command_id="gpus"))
    cell.run(1000)
    asked = PlacementRules(devices=(DeviceModels(kind="gpu", models=("h100",)),))
    cell.submit("trained", "/web", instances=1, resources={"cpu": 1_000, "gpu": 2_000}, rules=asked)
    cell.submit("any", "/web", instances=1, resources={"cpu": 1_000, "gpu": 2_000})
    cell.run(5000)
    plan = cell.plan_host_pools(assign("gpus", "h1"))
    assert [(each["job_id"], each["hosts"], each["hosts_then"], each["fits"]) for each in plan["jobs"]] == [
        ("trained", 1, 0, False),
        ("any", 2, 1, True),
    ]
    cell.close()
