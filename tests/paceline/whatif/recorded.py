"""Recordings of simulated cells, whose history is decided again."""

from functools import cache
from pathlib import Path

from events.log.port import Log
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import START_MS
from paceline.whatif.run_table import RunTable
from tests.helpers import ROOT

THREE_TEAMS = ROOT / "examples" / "scenarios" / "three_teams.yaml"
Order = tuple[str, int, int, str]
"""Job, instance, when its run was ordered in milliseconds since 1970, and its host."""


def recording(scenario: Scenario) -> tuple[Log, int]:
    """The log of a scenario, and when it ends."""
    session = of_scenario(scenario, "", RunOptions())
    session.run.run_to_end()
    return session.run.cell.log, session.run.cell.clock.ms + 1


@cache
def of_file(path: Path) -> tuple[Log, int]:
    """The same of a file."""
    return recording(read_scenario(str(path)))


def moment(end_ms: int, part: float) -> int:
    """A time within a recording: 0 is its start, 1 its end."""
    return int(START_MS + (end_ms - START_MS) * part)


def orders(table: RunTable, from_ms: int, to_ms: int) -> set[Order]:
    """The runs that were ordered between two times."""
    return {
        (job.job_id, instance, run.ordered_ms, table.hosts[run.host])
        for job in table.jobs.values()
        for instance in job.runs
        for run in table.runs_of(job, instance)
        if from_ms <= run.ordered_ms < to_ms
    }
