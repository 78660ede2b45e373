"""Classes of work: those that bounds of admission tell apart, and that queue apart in each pool.

A class is a sum of `FIRM` and `CONTROLLERS`, or `DAEMONS`, or `REVOCABLES`. In a cell with host pools `POOLED` is added
to all but daemons, and `SERVICES` to services: which host pools a task may use goes by the kind of its job.
"""

from events.bounds import INT_MAX

CONTROLLERS = 1
"""Controllers of jobs, which the share of controllers bounds."""
FIRM = 2
"""Work that isn't preemptible: it stays within reservations."""
DAEMONS = 4
"""Daemons, beside the shares: a task on each host, ahead of other work."""
REVOCABLES = 8
"""Work on slack, beside the shares."""
POOLED = 16
"""Work that hosts in some host pools take, and others don't."""
SERVICES = 32
"""Services, which host pools tell from batch work."""
CLASSES = 64
"""Classes are below it."""
LENT_TO = frozenset(kind + pooled for kind in (0, CONTROLLERS, REVOCABLES) for pooled in (0, POOLED, POOLED + SERVICES))
"""The classes that may be lent to: all that are preemptible, without daemons."""
NAMES = {
    0: "preemptible",
    CONTROLLERS: "controllers",
    FIRM: "non_preemptible",
    FIRM + CONTROLLERS: "non_preemptible_controllers",
    DAEMONS: "daemons",
    REVOCABLES: "revocable",
}
"""The names of classes in answers and metrics."""


def class_of(firm: bool, controllers: bool, daemon: bool, revocable: bool = False) -> int:
    """The class of work."""
    if daemon or revocable:
        return DAEMONS if daemon else REVOCABLES
    return FIRM * firm + CONTROLLERS * controllers


def pooled(kind: int, service: bool) -> int:
    """A class of work in a cell with host pools."""
    return kind if kind == DAEMONS else kind | POOLED | service * SERVICES


def precedence_of(priority: int, daemon: bool) -> int:
    """The priority of a job; that of daemons is above all others."""
    return INT_MAX if daemon else priority
