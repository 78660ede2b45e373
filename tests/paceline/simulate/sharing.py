"""Drawn scenarios of sharing, played in virtual time with the checker looking on."""

from events.log.memory import MemoryLog
from paceline.simulate.checker import Checker
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import Cell, SimLog, VirtualClock
from paceline.simulate.world.expectation_watch import Watch
from paceline.simulate.world.log_summary import LogSummaryComponent
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import actions
from tests.helpers.random_sharing import draw_delays, draw_sharing


def play_drawn(seed: int) -> Cell:
    """The cell of a drawn scenario at its end. Raises `Violation`."""
    return play(draw_sharing(seed), draw_delays(seed))


def play(scenario: Scenario, delays_ms: dict[str, dict[str, int]] | None = None) -> Cell:
    """The cell of a scenario at its end. Raises `Violation`."""
    clock = VirtualClock()
    cell = Cell(SimLog(MemoryLog(clock.monotonic_ms), clock), clock, delays_ms=delays_ms)
    checker = Checker(cell.log)
    summary = LogSummaryComponent(cell.log, False, lambda job: None)
    cell.add("story", summary, list(cell.log.readers))
    assert scenario.end is not None
    run = Run(cell, summary, actions(scenario, cell), Watch([]), scenario.end, None)
    run.run_to_end(lambda run: checker.at_rest(run.cell.clock.ms))
    return cell
