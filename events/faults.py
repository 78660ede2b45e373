"""What is said of an error that ends a part of the system."""

import logging

OWN = frozenset(("events", "processors", "projections", "hostagent", "paceline"))
LOG = logging.getLogger("paceline.process")


def sentence(error: BaseException) -> str:
    """One sentence, never empty: what an error of the system's own says, where a file can't be used its name and why;
    anything else is a bug, named by its kind, and its trace goes to the log at level debug.
    """
    LOG.debug("the trace of what failed", exc_info=error)
    if type(error).__module__.partition(".")[0] in OWN and str(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return f"this should not happen: {error!r}. Report it with the log."
