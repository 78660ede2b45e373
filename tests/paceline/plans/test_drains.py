"""What a dry run of a drain says of the tasks that would leave, before anybody drains a host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.hosts import HostsDrainRequested
from events.records.parts import SlaPolicy
from events.records.pools import PoolDefined
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CAPACITY = {"cpu": 4_000, "memory": 8_192, "disk": 100_000}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Three hosts of four cores."""
    cell = PlannedCell(tmp_path / "cell", [SimHost(3, CAPACITY, {}, "h#")])
    cell.append(PoolDefined(path="/web", command_id="pool"))
    cell.run(1000)
    yield cell
    cell.close()


def service(cell: PlannedCell, job_id: str, instances: int, cpu: int, **more: object) -> None:
    cell.submit(
        job_id, "/web", kind="stateless", instances=instances, resources={"cpu": cpu}, strategy="spread", **more
    )
    cell.run(5000)


def test_what_finds_no_place_elsewhere_is_told_with_why_and_how_many(cell: PlannedCell) -> None:
    service(cell, "web", 3, 2_500)
    service(cell, "small", 3, 100)
    plan = cell.plan_drain("h1")
    [unplaced] = plan["unplaced"]
    assert (plan["code"], plan["refused"], plan["cut_short"]) == ("DONE", False, False)
    assert (unplaced["job_id"], unplaced["tasks"], unplaced["code"]) == ("web", 1, "HOSTS_IN_MAINTENANCE")
    cell.append(HostsDrainRequested(host_ids=("h1",), command_id="drain"))
    cell.run(60_000)
    assert (cell.outcome("web")["waiting"], cell.outcome("small")["waiting"]) == (1, 0)
    assert cell.outcome("web")["reasons"][0]["code"] == unplaced["code"]


def test_where_all_finds_a_place_nothing_is_told(cell: PlannedCell) -> None:
    service(cell, "web", 6, 500, sla=SlaPolicy(min_healthy_ms=10_000), max_unavailable=1)
    plan = cell.plan_drain("h1")
    assert (plan["code"], plan["unplaced"]) == ("DONE", [])
    assert plan["looked_ahead_s"] >= 10


def test_what_would_be_refused_is_told(cell: PlannedCell) -> None:
    plan = cell.plan_drain("h1", force=True)
    assert (plan["code"], plan["refused"], plan["unplaced"]) == ("FORCE_NOT_ALLOWED", True, [])
