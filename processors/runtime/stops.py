"""Exceptions that end the driver of a machine."""

from events.log.port import LogFault
from events.process.error_text import ErrorCause


class Superseded(Exception):
    """Another process has this machine of this cell now. Whoever meets this stops deciding at once."""

    cause = ErrorCause.LOG


class ForeignRound(LogFault):
    """Somebody else writes rounds in the epoch of this process."""

    cause = ErrorCause.HISTORY


class StuckTimer(AssertionError):
    """A machine asked to be woken and then had nothing to decide: a bug in the machine."""

    cause = ErrorCause.HISTORY


class RoundTooLarge(AssertionError):
    """A round of one unit of work is over the limit of a record: a bug in the machine, which must refuse such work."""

    cause = ErrorCause.HISTORY
