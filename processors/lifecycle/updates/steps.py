"""The progress of an update with each instance: the column `step` of its task."""

from events.codes import Number
from events.columns import I64
from processors.lifecycle.causes import EndCause
from processors.lifecycle.lookups import Mask
from processors.state.arena import Arena


class Step(Number):
    """A step of the update in progress. The numbers stand in UpdateProgressed too."""

    NONE = 0
    """It isn't part of the update."""
    PENDING = 1
    FLIGHT = 2
    """Taken: its next run, or the present one, is of the new version."""
    DONE = 3
    BAD = 4
    """Its runs of the new version failed so often that it counts as failed. It may still come up."""
    STUCK = 5
    """It found no place within the progress deadline, and counts as failed too. It may still come up."""
    LEFT = 6
    """Its host, the only one that it may run on, is lost: the update goes on without it."""


FAILED = (Step.BAD, Step.STUCK)
OPEN = (Step.FLIGHT, *FAILED)
"""Taken, and not done."""
TAKEN = (*OPEN, Step.DONE)
STEP = 7
"""The bits of the column in which the step stands; the two flags stand above."""
INHERITED = 8
"""An update that has ended brought it down, and it hasn't been up since for as long as an update asks: it takes a place
of those that may be down.
"""
RESHAPED = 16
"""Its next run asks something else of pool and host than the present one."""
MORE = 32
"""Its next run asks more than the present one: it needs another admission."""


def is_left(arena: Arena, slots: I64) -> Mask:
    """True for tasks on the way to another run while their present run is of the one before: how that ends tells
    nothing about the new one.
    """
    in_between: Mask = (arena["step"][slots] & STEP == Step.FLIGHT) & ~has_come(arena, slots)
    return in_between


def has_come(arena: Arena, slots: I64) -> Mask:
    """True for tasks that have the run that they are to have: of their target, and not to be restarted."""
    come: Mask = (arena["version"][slots] == arena["target"][slots]) & (arena["causes"][slots] & EndCause.UPDATE == 0)
    return come
