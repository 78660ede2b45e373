"""Jobs that need what not every agent can do, in a whole cell."""

import pytest

from events.codec import decode
from events.codes import Code
from events.records.parts import HealthCheck
from events.records.placement import GangsUnplaced
from events.records.rounds import RoundCommitted
from hostagent import fleet
from tests.helpers.whole_cell import Cell


def unplaced(cell: Cell) -> list[GangsUnplaced]:
    """Why tasks found no place."""
    rounds = (decode(record.value) for record in cell.log.scan("paceline.placement", 0))
    decisions = (decode(value) for each in rounds if isinstance(each, RoundCommitted) for value in each.decisions)
    return [each for each in decisions if isinstance(each, GangsUnplaced)]


def test_a_job_with_a_health_check_waits_for_an_agent_that_can_check_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "abilities", dict)
    cell = Cell(hosts=1)
    cell.pool("/p")
    cell.submit("a", health=HealthCheck("command", ("true",)))
    cell.run(1000)
    [why] = unplaced(cell)
    assert why.code == Code.CONSTRAINT_MISMATCH
    assert "paceline/health" in str(why)
    monkeypatch.undo()
    cell.fleet.cut("sim-1")
    cell.run(10_000)
    assert cell.state("a") == "SUCCEEDED"
