"""The parts of entitlement that look at pools again when something has changed for these."""

from enum import Enum, auto


class Consumer(Enum):
    """One that looks at pools. All but the last two look at each change."""

    ADMISSION = auto()
    """Admits what is entitled; it keeps the mark of a pool until it found nothing to do there."""
    DEMOTION = auto()
    """Takes the entitlement from claims beyond it."""
    SHARES = auto()
    """Tells the share tree how much pools want."""
    LENDING = auto()
    """Keeps the order in which pools are lent to."""
    TAKERS = auto()
    """Compares the rights of claims with those that were said."""
    GIVERS = auto()
    """Compares what pools may give with what was said."""
    RIGHT_TIMES = auto()
    """Knows when time alone changes the rights of a pool."""
    HEADS = auto()
    """Looks at what blocks the first of a pool: it may be blocked by another bound."""
    REASONS = auto()
    """Says why the queue of a pool waits, once admission has looked at it."""


EACH_CHANGE = tuple(consumer for consumer in Consumer if consumer not in (Consumer.HEADS, Consumer.REASONS))
