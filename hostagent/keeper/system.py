"""Calls of the system that Python has no names for, and the words of a keeper in trouble."""

import ctypes
import os
import sys
from contextlib import suppress

PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
FILES_MAX = 1 << 17
"""Open files that a keeper asks for at most, seven a run."""

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans() -> None:
    """Makes this process the parent of those below it that lose theirs."""
    if _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def gain_nothing() -> None:
    """From now on no program that this process executes gives it rights, be it setuid or not."""
    if _prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def most_files(hard: int) -> int:
    """The limit of open files to ask for where the system allows `hard`, -1: any number."""
    return FILES_MAX if hard < 0 else min(hard, FILES_MAX)


def say_trouble() -> None:
    """Writes the exception that is being handled, without the import that `traceback` would be."""
    kind, error, trace = sys.exc_info()
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    say(f"{kind.__name__ if kind else ''}: {error} at {' > '.join(places)}")


def say(text: str) -> None:
    """Writes a line to the log of the keepers."""
    with suppress(OSError):  # it may be on a full disk
        os.write(2, f"{os.getpid()}: {text}\n".encode(errors="replace"))
