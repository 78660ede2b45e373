"""Errors that end a part of the system: what is said of them, and what may be done about them."""

import errno
import logging
from enum import Enum

OWN = frozenset(("events", "processors", "projections", "hostagent", "paceline"))
LOG = logging.getLogger("paceline.process")
SHORT = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE))
"""The system has no more of something for now."""


class ErrorCause(Enum):
    """The kind of an error's cause: whether it may pass, and whether another process would fare better. An error of the
    system's own names it as its class attribute `cause`.
    """

    LOG = "log"
    """The log is unreachable, or another process has the cell: it passes, and every process meets it alike."""
    SHORTAGE = "shortage"
    """This process lacks something, as room on its disk: it may pass, and another process may have it."""
    LOCAL = "local"
    """The data of this process is of no use, or its build is too old: it doesn't pass by itself, and another process
    can go on.
    """
    HISTORY = "history"
    """The log, or a machine's fold of it, is at fault: it doesn't pass, and every process meets it alike."""
    UNKNOWN = "unknown"
    """A bug, or something outside that nobody foresaw: it may pass; it is not handed to others, to end them too."""

    @property
    def passes(self) -> bool:
        """Whether trying again may help."""
        return self in (ErrorCause.LOG, ErrorCause.SHORTAGE, ErrorCause.UNKNOWN)


def cause_of(error: BaseException) -> ErrorCause:
    """The kind of an error's cause."""
    declared = getattr(error, "cause", None)
    if isinstance(declared, ErrorCause):
        return declared
    if isinstance(error, MemoryError):
        return ErrorCause.LOCAL
    if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
        return ErrorCause.SHORTAGE if error.errno in SHORT else ErrorCause.LOCAL
    return ErrorCause.UNKNOWN


def sentence(error: BaseException) -> str:
    """One sentence, never empty: what an error of the system's own says, where a file can't be used its name and why;
    anything else is a bug, named by its kind, and its trace goes to the log at level debug.
    """
    LOG.debug("the trace of what failed", exc_info=error)
    if type(error).__module__.partition(".")[0] in OWN and str(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return f"this should not happen: {error!r}. Report it with the log and what `paceline debug bundle` writes."
