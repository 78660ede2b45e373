"""Runs scenarios in the test's own process."""

from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.client.errors import Faults
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, Session, of_scenario

CELL = """
hosts:
  - {name: h, count: 2, resources: {cpu: 2}}
pools:
  - {path: /p}
  - {path: /q}
"""


def play(text: str) -> Session:
    """A session of a scenario that has run to its end."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text)
        session = of_scenario(read_scenario(str(path)), "paceline simulate scenario.yaml", RunOptions())
    session.run.run_to_end()
    session.finish()
    return session


def verdicts(text: str) -> list[tuple[bool, str, float]]:
    """Of each expectation whether it holds, what was seen, and when, in seconds."""
    return [(each.holds, each.observation, each.at_ms / 1000) for each in play(text).run.watch.verdicts()]


def faults(text: str) -> list[str]:
    """What is wrong with a scenario: line:column: message."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text)
        try:
            read_scenario(str(path))
        except Faults as found:
            return [line.removeprefix(f"{path}:") for line in found.lines]
    return []
