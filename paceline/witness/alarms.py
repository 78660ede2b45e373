"""The alarms of a witness: what can be wrong with a log, and with heads of it."""

from enum import StrEnum
from typing import NamedTuple

from processors.runtime.replay import Difference, Mismatch


class Alarm(StrEnum):
    """The kind of an alarm."""

    TAMPERED = "TAMPERED"
    """A record isn't the one that a round was decided on, or that a head has seen."""
    CUT = "CUT"
    """Records are missing: the log ends, or begins, where it went on."""
    FORKED = "FORKED"
    """The log goes on from another history than the one that was witnessed."""
    OTHER_CODE = "OTHER_CODE"
    """A round was decided otherwise, under the same logic number."""
    OTHER_LOGIC = "OTHER_LOGIC"
    """A round was decided by a build that this one can't stand in for."""
    FORKED_HEADS = "FORKED_HEADS"
    """The published heads are no chain of this witness."""


class Finding(NamedTuple):
    """An alarm, the difference that it is about, and the number of the head that shows it; 0: no head."""

    alarm: Alarm
    difference: Difference
    head: int = 0

    def __str__(self) -> str:
        differs = self.difference
        where = f" at {differs.machine} round {differs.round}" if differs.machine else ""
        reason = differs.reason.removeprefix(f"{differs.machine} round {differs.round}: ")
        return f"{self.alarm}{where}: {reason}"


class Alarmed(Exception):
    """The witness can't go on: somebody must look. `finding` says at what."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


ALARM_OF = {
    Mismatch.DECIDED: Alarm.OTHER_CODE,
    Mismatch.STATE: Alarm.OTHER_CODE,
    Mismatch.INPUTS: Alarm.TAMPERED,
    Mismatch.MISSING: Alarm.CUT,
    Mismatch.CHAIN: Alarm.FORKED,
    Mismatch.LOGIC: Alarm.OTHER_LOGIC,
    Mismatch.UNREADABLE: Alarm.OTHER_LOGIC,
    Mismatch.LOG: Alarm.TAMPERED,
}
"""By the kind of a difference that a replay finds."""


def found(difference: Difference) -> Finding:
    """Makes an alarm of what a replay has found."""
    return Finding(ALARM_OF[difference.kind], difference)
