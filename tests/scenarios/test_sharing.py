"""Each promise of sharing is kept: scenarios in a user's words, one per rule, with the checker looking on all along."""

from pathlib import Path

import pytest

from paceline.simulate.checker import Checker
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario

SCENARIOS = sorted((Path(__file__).parent / "sharing").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_was_promised_holds(path: Path) -> None:
    session = of_scenario(read_scenario(str(path)), f"paceline simulate {path}", RunOptions())
    checker = Checker(session.run.cell.log)
    session.run.run_to_end(lambda run: checker.at_rest(run.cell.clock.ms))
    session.finish()
    session.run.cell.close()
    assert [f"{each.text}: {each.observation} at {each.at_s}" for each in session.failed()] == []
