"""Why the present run of a task shall end: causes, each a bit of a column, and what follows from the strongest."""

from enum import IntFlag
from typing import NamedTuple

import numpy as np

from events.codes import Number, Outcome
from processors.lifecycle.lookups import Lookup, table


class Goal(Number):
    """What the user wants of an instance. It picks the state after a run and outlives it."""

    RUN = 0
    STOP = 1
    REMOVE = 2


class EndCause(IntFlag):
    """Why a run shall end. Several can hold at once; they end with the run. Strongest first."""

    REMOVE = 1 << 0
    STOP = 1 << 1
    JOB_END = 1 << 2
    RUN_LIMIT = 1 << 3
    GANG = 1 << 4
    HEALTH = 1 << 5
    START_LATE = 1 << 6
    PREEMPT = 1 << 7
    DRAIN = 1 << 8
    UPDATE = 1 << 9
    RESTART = 1 << 10


class SlaVerdict(Number):
    """What sla said of the disruption of a run, once for all planned causes together."""

    NONE = 0
    ASKED = 1
    DEFERRED = 2
    ALLOWED = 3


class CauseRule(NamedTuple):
    """What a cause means for a run. `planned`: sla must allow it where the job has an SLA. `outcome`: that of the run
    where no stronger cause holds; None while nothing has this cause.
    """

    cause: EndCause
    planned: bool
    outcome: Outcome | None


CAUSE_RULES = (
    CauseRule(EndCause.REMOVE, planned=False, outcome=None),
    CauseRule(EndCause.STOP, planned=False, outcome=Outcome.STOPPED),
    CauseRule(EndCause.JOB_END, planned=False, outcome=None),
    CauseRule(EndCause.RUN_LIMIT, planned=False, outcome=None),
    CauseRule(EndCause.GANG, planned=False, outcome=Outcome.WITH_GANG),
    CauseRule(EndCause.HEALTH, planned=False, outcome=None),
    CauseRule(EndCause.START_LATE, planned=False, outcome=None),
    CauseRule(EndCause.PREEMPT, planned=True, outcome=Outcome.PREEMPTED),
    CauseRule(EndCause.DRAIN, planned=True, outcome=None),
    CauseRule(EndCause.UPDATE, planned=True, outcome=None),
    CauseRule(EndCause.RESTART, planned=True, outcome=None),
)
"""Strongest first: what ends the instance, what counts against it, what moves it."""
CAUSE_SETS = 1 << len(CAUSE_RULES)
"""So many sets of causes there are."""
PLANNED = sum(meaning.cause for meaning in CAUSE_RULES if meaning.planned)


class CauseKind(Number):
    """Of a set of causes: whether it is empty, all planned, or holds one that waits for nobody."""

    NONE = 0
    PLANNED = 1
    UNPLANNED = 2


def _kind(causes: int) -> CauseKind:
    if not causes:
        return CauseKind.NONE
    return CauseKind.UNPLANNED if causes & ~PLANNED else CauseKind.PLANNED


def strongest(causes: int) -> CauseRule | None:
    """The strongest of a set of causes; None where it is empty."""
    return next((meaning for meaning in CAUSE_RULES if causes & meaning.cause), None)


def _outcome(causes: int) -> int:
    found = strongest(causes)
    return int(found.outcome or Outcome.STOPPED) if found else 0


KIND_OF: Lookup = table(map(_kind, range(CAUSE_SETS)))
"""The kind of each set of causes."""
OUTCOME_OF: Lookup = table(map(_outcome, range(CAUSE_SETS)), np.int64)
"""The outcome that the strongest cause of each set gives a run; 0 for the empty set."""
