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


class Cause(IntFlag):
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


class Verdict(Number):
    """What sla said of the disruption of a run, once for all planned causes together."""

    NONE = 0
    ASKED = 1
    DEFERRED = 2
    ALLOWED = 3


class Meaning(NamedTuple):
    """What a cause means for a run. `planned`: sla must allow it where the job has an SLA. `outcome`: that of the run
    where no stronger cause holds; None while nothing has this cause.
    """

    cause: Cause
    planned: bool
    outcome: Outcome | None


MEANINGS = (
    Meaning(Cause.REMOVE, planned=False, outcome=None),
    Meaning(Cause.STOP, planned=False, outcome=Outcome.STOPPED),
    Meaning(Cause.JOB_END, planned=False, outcome=None),
    Meaning(Cause.RUN_LIMIT, planned=False, outcome=None),
    Meaning(Cause.GANG, planned=False, outcome=Outcome.WITH_GANG),
    Meaning(Cause.HEALTH, planned=False, outcome=None),
    Meaning(Cause.START_LATE, planned=False, outcome=None),
    Meaning(Cause.PREEMPT, planned=True, outcome=Outcome.PREEMPTED),
    Meaning(Cause.DRAIN, planned=True, outcome=None),
    Meaning(Cause.UPDATE, planned=True, outcome=None),
    Meaning(Cause.RESTART, planned=True, outcome=None),
)
"""Strongest first: what ends the instance, what counts against it, what moves it."""
CAUSES = 1 << len(MEANINGS)
"""So many sets of causes there are."""
PLANNED = sum(meaning.cause for meaning in MEANINGS if meaning.planned)


class Kind(Number):
    """Of a set of causes: whether it is empty, all planned, or holds one that waits for nobody."""

    NONE = 0
    PLANNED = 1
    UNPLANNED = 2


def _kind(causes: int) -> Kind:
    if not causes:
        return Kind.NONE
    return Kind.UNPLANNED if causes & ~PLANNED else Kind.PLANNED


def strongest(causes: int) -> Meaning | None:
    """The strongest of a set of causes; None where it is empty."""
    return next((meaning for meaning in MEANINGS if causes & meaning.cause), None)


def _outcome(causes: int) -> int:
    found = strongest(causes)
    return int(found.outcome or Outcome.STOPPED) if found else 0


KIND_OF: Lookup = table(map(_kind, range(CAUSES)))
"""The kind of each set of causes."""
OUTCOME_OF: Lookup = table(map(_outcome, range(CAUSES)), np.int64)
"""The outcome that the strongest cause of each set gives a run; 0 for the empty set."""
