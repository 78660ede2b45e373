"""Each promise of sharing is kept: scenarios in a user's words, one per rule, with the checker looking on all along."""

from pathlib import Path

import pytest
from msgspec.structs import replace

import processors.lifecycle.commands as commands
from events.columns import pack_ints
from events.records.lifecycle import JobAccepted
from paceline.simulate.checker import Checker
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from tests.scenarios import waits

SCENARIOS = sorted((Path(__file__).parent / "sharing").glob("*.yaml"))
SHAPES = """
end: 1h
hosts: [{name: h, count: 2, resources: {cpu: 4}}]
pools: [{path: /a, reservation: {cpu: 6}}, {path: /b}]
jobs:
  - {job_id: soft, pool: /b, instances: 8, resources: {cpu: 1}, sim: {duration: 100h}}
  - {job_id: mixed, pool: /a, at: 1m, instances: 3, gang: {min: 3}, resources: {cpu: 1}, sim: {duration: 10m}}
expect:
  - {by: 30m, that: job mixed is SUCCEEDED}
  - {by: 35m, that: job soft tasks RUNNING == 8}
  - {never: cell preempted > 6}
"""


def failures(path: Path) -> list[str]:
    """What doesn't hold of a scenario; while a machine is away nobody says why tasks wait. Raises `Violation`."""
    session = of_scenario(read_scenario(str(path)), f"paceline simulate {path}", RunOptions())
    checker = Checker(session.run.cell.log)
    session.run.run_to_end(lambda run: checker.at_rest(run.cell.clock.ms))
    session.finish()
    is_whole = "lose: placement" not in path.read_text()
    unexplained = waits.without_a_reason(session.run) if is_whole else []
    session.run.cell.close()
    return [f"{each.text}: {each.observation} at {each.at_s}" for each in session.failed()] + unexplained


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_was_promised_holds(path: Path) -> None:
    assert failures(path) == []


def test_a_gang_of_several_shapes_gets_its_reservation_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users submit jobs of one shape; records may have several: here the first task needs a whole host."""
    accepted = commands.accepted

    def mixed(*submitted: object) -> JobAccepted:
        job = accepted(*submitted)  # type: ignore[arg-type]
        if job.job_id != "mixed":
            return job
        whole = replace(job.shapes[0], resources={**job.shapes[0].resources, "cpu": 4000})
        one = {"first": pack_ints([0]), "count": pack_ints([1]), "shape": pack_ints([1])}
        return replace(job, shapes=(*job.shapes, whole), **one)

    monkeypatch.setattr(commands, "accepted", mixed)
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    assert failures(tmp_path / "shapes.yaml") == []
