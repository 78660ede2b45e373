"""The states of a host, and what placement does in each: the only list of them. Whoever asks, asks by a rule of it.

A host is in the first phase that holds: LOST, SILENT, RETURNING, SHRUNK, SUSPECTED, UP. Beside it, it has a stage,
which says what is wanted of it (`stages.py`): it takes tasks where both let it.
"""

from typing import NamedTuple

from events.codes import Number, Stage


class Phase(Number):
    """The use that a host is of now."""

    UP = 0
    RETURNING = 1
    """Connected, and lifecycle hasn't settled its runs yet, or it hasn't offered anything."""
    SILENT = 2
    LOST = 3
    SUSPECTED = 4
    """It is avoided."""
    SHRUNK = 5
    """It offers less than its runs hold."""


class Rules(NamedTuple):
    """The use of hosts in a state."""

    name: str
    """In counts of hosts by reason."""
    takes: bool = False
    """New tasks may be put there."""
    takes_bound: bool = False
    """Tasks that may run nowhere else may be put there."""
    waited_for: bool = False
    """It may be back soon: tasks that have their homes there wait for it."""
    absent: bool = False
    """It isn't there any more: nothing is kept there."""


STATES = {
    Phase.UP: Rules("up", takes=True, takes_bound=True),
    Phase.SUSPECTED: Rules("suspected", takes_bound=True),
    Phase.SHRUNK: Rules("offers less than runs there"),
    Phase.RETURNING: Rules("returning", waited_for=True),
    Phase.SILENT: Rules("silent", waited_for=True),
    Phase.LOST: Rules("lost", absent=True),
}
STAGES = {
    Stage.UP: Rules("up", takes=True, takes_bound=True),
    Stage.CORDONED: Rules("cordoned", takes_bound=True),
    Stage.DRAINING: Rules("draining", takes_bound=True),
    Stage.DRAINING_BATCH: Rules("draining", takes_bound=True),
    Stage.FORCING: Rules("draining"),
    Stage.DRAINED: Rules("drained"),
    Stage.CHECKING: Rules("being checked"),
}
"""Tasks that are bound to a host which drains are put there until they have left for its maintenance."""
DRAINS = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING)
"""Their runs are to leave."""
LEAVING = (*DRAINS, Stage.DRAINED, Stage.CHECKING)
"""Their capacity is what their runs hold: nothing is admitted onto what is leaving."""
TAKES = tuple(phase for phase, rules in STATES.items() if rules.takes)
TAKES_BOUND = tuple(phase for phase, rules in STATES.items() if rules.takes_bound)
WAITED_FOR = tuple(phase for phase, rules in STATES.items() if rules.waited_for)
ABSENT = tuple(phase for phase, rules in STATES.items() if rules.absent)


def phase_of(*, lost: bool, silent: bool, settled: bool, shrunk: bool, avoided: bool) -> Phase:
    """The state of a host: the first of these that holds."""
    states = {
        Phase.LOST: lost,
        Phase.SILENT: silent,
        Phase.RETURNING: not settled,
        Phase.SHRUNK: shrunk,
        Phase.SUSPECTED: avoided,
    }
    return next((phase for phase, holds in states.items() if holds), Phase.UP)
