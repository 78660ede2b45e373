"""Why the present run of a task shall end: causes, each a bit of a column, and what follows from the strongest.

Decision 028.
"""

from collections.abc import Callable
from enum import IntFlag
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from events.codes import Number, Outcome, RunCause
from processors.lifecycle.lookups import Lookup


class Goal(Number):
    """The user's goal for an instance. It picks the state after a run and outlives it."""

    RUN = 0
    STOP = 1
    REMOVE = 2


class EndCause(IntFlag):
    """Why a run shall end. Several can hold at once; they end with the run. `CAUSE_RULES` is their order."""

    REMOVE = 1 << 0
    STOP = 1 << 1
    JOB_END = 1 << 2
    RUN_LIMIT = 1 << 3
    HEALTH = 1 << 4
    START_LATE = 1 << 5
    PREEMPT = 1 << 6
    GANG = 1 << 7
    DRAIN = 1 << 8
    UPDATE = 1 << 9
    HOLD = 1 << 10
    IN_ORDER = 1 << 11
    """An order to preempt names it, and sla is heard on all of that order: no reason to end yet."""
    REVOKE = 1 << 12
    EVICT = 1 << 13


class SlaVerdict(Number):
    """The answer of sla about the disruption of a run, once for all planned causes together."""

    NONE = 0
    ASKED = 1
    DEFERRED = 2
    ALLOWED = 3
    FREE = 4
    """Allowed because it wasn't available: only as long as that is so."""


class CauseKind(Number):
    """The demand of a cause, and of a set of causes the strongest one."""

    NONE = 0
    HEARD = 1
    """Sla is asked, and nothing ends by it."""
    PLANNED = 2
    """The run ends as soon as sla allows it, where the job has an SLA."""
    UNPLANNED = 3
    """It waits for nobody."""


class CauseRule(NamedTuple):
    """The meaning of a cause for a run. `outcome`: that of the run where no stronger cause holds; None while nothing
    has this cause, or nothing ends by it.
    """

    cause: EndCause
    code: RunCause
    """Its name in records."""
    kind: CauseKind
    outcome: Outcome | None = None
    keeps: bool = False
    """Whether the admission may pass to the next run."""


CAUSE_RULES = (
    CauseRule(EndCause.REMOVE, RunCause.REMOVE, CauseKind.UNPLANNED, Outcome.STOPPED),
    CauseRule(EndCause.STOP, RunCause.STOP, CauseKind.UNPLANNED, Outcome.STOPPED),
    CauseRule(EndCause.JOB_END, RunCause.JOB_END, CauseKind.UNPLANNED, Outcome.STOPPED),
    CauseRule(EndCause.RUN_LIMIT, RunCause.RUN_LIMIT, CauseKind.UNPLANNED, Outcome.STOPPED),
    CauseRule(EndCause.HEALTH, RunCause.HEALTH, CauseKind.UNPLANNED, Outcome.FAILED, keeps=True),
    CauseRule(EndCause.START_LATE, RunCause.START_LATE, CauseKind.UNPLANNED, Outcome.FAILED, keeps=True),
    CauseRule(EndCause.PREEMPT, RunCause.PREEMPT, CauseKind.PLANNED, Outcome.PREEMPTED),
    CauseRule(EndCause.REVOKE, RunCause.REVOKED, CauseKind.UNPLANNED, Outcome.REVOKED),
    CauseRule(EndCause.GANG, RunCause.GANG, CauseKind.UNPLANNED, Outcome.WITH_GANG),
    CauseRule(EndCause.EVICT, RunCause.EVICT, CauseKind.UNPLANNED, Outcome.RELOCATED, keeps=True),
    CauseRule(EndCause.DRAIN, RunCause.DRAIN, CauseKind.PLANNED, Outcome.RELOCATED, keeps=True),
    CauseRule(EndCause.UPDATE, RunCause.UPDATE, CauseKind.PLANNED, Outcome.REPLACED, keeps=True),
    CauseRule(EndCause.HOLD, RunCause.HOLD, CauseKind.UNPLANNED, Outcome.STOPPED),
    CauseRule(EndCause.IN_ORDER, RunCause.NONE, CauseKind.HEARD),
)
"""Strongest first: what ends the instance, what counts against it, what moves it. A gang that must leave is preempted,
each member for itself: that the first of them is over comes after that.
"""
FINAL = EndCause.JOB_END | EndCause.RUN_LIMIT
"""The causes that end the task with its run, whatever the user's goal is."""
CAUSE_SETS = 1 << len(CAUSE_RULES)
"""So many sets of causes there are."""


def _of_strongest(value_of: Callable[[CauseRule], int], kind: DTypeLike = np.uint8) -> Lookup:
    """The value of the strongest cause of each set; 0 where it is empty."""
    lookup = np.zeros(CAUSE_SETS, dtype=kind)
    for rule in reversed(CAUSE_RULES):
        lookup[_SETS & int(rule.cause) != 0] = value_of(rule)
    return lookup


def _outcome(rule: CauseRule) -> int:
    return 0 if rule.kind == CauseKind.HEARD else int(rule.outcome or Outcome.STOPPED)


_SETS = np.arange(CAUSE_SETS)
KIND_OF: Lookup = np.max([(_SETS & int(rule.cause) != 0) * np.uint8(rule.kind) for rule in CAUSE_RULES], axis=0)
"""The kind of each set of causes."""
OUTCOME_OF: Lookup = _of_strongest(_outcome, np.int64)
"""The outcome that the strongest cause of each set gives a run; 0 where none ends it."""
CODE_OF: Lookup = _of_strongest(lambda rule: rule.code)
"""The strongest cause of each set, as others read it."""
KEEPS: Lookup = (_SETS & sum(int(rule.cause) for rule in CAUSE_RULES if not rule.keeps) == 0).astype(np.uint8)
"""1 where no cause of a set takes the admission from the next run."""
