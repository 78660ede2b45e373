"""What a plan of room for a waiting job says, and that the same is done once it is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.pools import CellConfigured, PoolDefined, RebalanceRequested
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CAPACITY = {"cpu": 4_000, "memory": 8_192, "disk": 100_000}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Two hosts of four cores, each of them with a task of one core; a task of four waits."""
    cell = PlannedCell(tmp_path / "cell", [SimHost(2, CAPACITY, {}, "h#")])
    cell.append(CellConfigured(command_id="cell", move_after_ms=3_600_000), PoolDefined(path="/a", command_id="pool"))
    cell.run(1000)
    cell.submit("small", "/a", instances=2, resources={"cpu": 1_000}, strategy="spread")
    cell.run(5000)
    cell.submit("whole", "/a", instances=1, resources={"cpu": 4_000})
    cell.run(5000)
    yield cell
    cell.close()


def test_the_task_is_named_that_would_be_moved_and_it_is_once_that_is_asked_for(cell: PlannedCell) -> None:
    plan = cell.plan_rebalance("whole")
    assert (plan["code"], plan["refused"]) == ("DONE", False)
    [move] = plan["moves"]
    assert (move["job_id"], move["run"]) == ("small", 1)
    assert cell.plan_rebalance("whole") == plan, "nothing was written"
    cell.append(RebalanceRequested(job_id="whole", command_id="now"))
    cell.run(30_000)
    assert cell.plan_rebalance("whole")["message"] == "no task of job whole is entitled and waits for a place"


def test_nobody_is_moved_for_a_job_that_is_not_there(cell: PlannedCell) -> None:
    plan = cell.plan_rebalance("none")
    assert (plan["code"], plan["refused"], plan["moves"]) == ("NOT_FOUND", True, [])
