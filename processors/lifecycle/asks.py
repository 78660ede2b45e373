"""Asks sla for a run by its cause, and says what leaves with it, whole or not at all.

It follows from the causes of the run and from what it is bound to. The column `asked` has what sla was asked last: what
is asked for another cause by now is withdrawn after its verdict, and asked once more (decision 092).
"""

from typing import Any

import numpy as np

from events.codes import RunCause
from events.columns import I32, I64
from processors.lifecycle.causes import CAUSE_RULES, CAUSE_SETS, KIND_OF, CauseKind, EndCause, SlaVerdict
from processors.lifecycle.lookups import Lookup, Mask

UNIT = 32
"""In the column `asked` a cause is below this, and a unit is a multiple of it: none, that of its gang, that of a host,
which is its number and one more.
"""
GANG = 1
_OF_UNITS = RunCause.DRAIN
"""The cause that asks for whole units."""
_ORDER = {rule.cause: int(rule.code) for rule in CAUSE_RULES if rule.kind == CauseKind.PLANNED}
_PREEMPT = int(RunCause.PREEMPT)


def _asked_for() -> Lookup:
    sets, lookup = np.arange(CAUSE_SETS), np.zeros(CAUSE_SETS, dtype=np.int64)
    for cause, code in reversed(({EndCause.IN_ORDER: _PREEMPT} | _ORDER).items()):
        lookup[sets & int(cause) != 0] = code
    return lookup


PLANNED = sum(int(cause) for cause in (*_ORDER, EndCause.IN_ORDER))
"""The causes about which sla is asked."""
ASKED_FOR: Lookup = _asked_for()
"""The cause for which sla is asked about each set of them; an order to preempt comes before all."""
_ASKED_FOR: list[int] = ASKED_FOR.tolist()
_ASKS: list[bool] = [kind in (CauseKind.HEARD, CauseKind.PLANNED) for kind in KIND_OF.tolist()]


def asked_now(causes: I32 | I64, gang: Mask, pin: I32 | I64) -> I64:
    """The present question about tasks with these causes, as the column `asked` has it. `gang`: true for members of
    gangs; `pin`: above 0 the number of the host that a task is bound to.
    """
    why = ASKED_FOR.take(causes)
    unit = np.where(gang, GANG, np.where(pin > 0, pin.astype(np.int64) + 1, 0))
    question: I64 = why + UNIT * np.where(why == _OF_UNITS, unit, 0)
    return question


def units(questions: I64) -> I64:
    """The unit of each: 0 none, -1 its gang, above 0 the number of a host."""
    unit = questions // UNIT
    numbers: I64 = np.where(unit == GANG, -1, np.maximum(unit - 1, 0))
    return numbers


def stale(causes: Any, verdict: Any, question: Any, gang: Mask, pin: Any) -> Mask:
    """True for tasks with a verdict on something else than what would be asked now: what is allowed to go goes for any
    cause, but with its unit. Before 0.4 nobody knew what was asked.
    """
    now = asked_now(causes, gang, pin)
    differs = np.where(verdict == SlaVerdict.DEFERRED, now != question, now // UNIT != question // UNIT)
    mask: Mask = differs & (question > 0) & (now > 0) & (verdict > SlaVerdict.ASKED)
    return mask


def stale_one(causes: int, verdict: int, question: int, gang: bool, pin: int) -> bool:
    """The same for one task."""
    now = why = _ASKED_FOR[causes]
    if not (question and why and verdict > SlaVerdict.ASKED):
        return False
    if why == _OF_UNITS:
        now += UNIT * (GANG if gang else pin + 1 if pin > 0 else 0)
    return now != question if verdict == SlaVerdict.DEFERRED else now // UNIT != question // UNIT
