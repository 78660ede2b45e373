"""Limits of the files and connections that this process may have open."""

import resource

MOST = 1 << 17
"""More than this is not asked for: some systems allow a billion, and libraries walk through all that are allowed."""

_GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def given() -> int:
    """The soft limit that the process was started with: what it starts for users gets this one."""
    return _GIVEN


def raised() -> int:
    """Raises the soft limit as far as the system allows, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return MOST if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # not allowed here: what there is must do
        return soft
    return most
