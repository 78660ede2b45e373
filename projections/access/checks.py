"""The one check of the API: whether somebody may do something, by what is granted at one state of the views."""

from collections.abc import Mapping
from typing import NamedTuple

from events.access import Binding, allowing, covers
from events.roles import RUN, Verb
from projections.access.grants import OPEN, Granted, Lockdown
from projections.access.identity import Identity

UNLOCKED = frozenset(
    (
        *(Verb.READ, Verb.EXPORT, Verb.AUDIT),
        *(Verb.HOSTS, Verb.SETTINGS, Verb.LOCKDOWN, Verb.SNAPSHOTS, Verb.ACCESS),
    )
)
"""The verbs that no lockdown refuses: those that change nothing, and what operators do."""


class Verdict(NamedTuple):
    """Whether somebody may do something. `binding`: what allows it, None where none is needed or none does; `locked`:
    the pool whose lockdown refuses what a binding allows.
    """

    is_allowed: bool
    binding: Binding | None = None
    locked: str = ""


def judge(granted: Granted, who: Identity, verb: Verb, pool: str, own: bool, now_ms: int) -> Verdict:
    """Whether somebody may do something in a pool, or in all of the cell (`/`); `own`: to what is theirs."""
    binding = None
    if who.run is not None:
        is_allowed = own and verb in RUN.own
    elif who.is_cell or (verb == Verb.READ and granted.access == OPEN):
        is_allowed = True
    else:
        binding = allowing(granted.bindings_of(who.subject, who.groups), verb, pool, own, now_ms)
        is_allowed = binding is not None
    locked = lockdown_over(granted.lockdowns, pool) if is_allowed and verb not in UNLOCKED else ""
    return Verdict(is_allowed and not locked, binding, locked)


def lockdown_over(lockdowns: Mapping[str, Lockdown], pool: str) -> str:
    """The topmost pool that is locked down of a pool and those above it; empty: none is."""
    return min((each for each in lockdowns if covers(each, pool)), key=len, default="")
