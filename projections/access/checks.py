"""The one check of the API: whether somebody may do something, by what is granted at one state of the views."""

from collections.abc import Mapping
from typing import NamedTuple

from events.access import Binding, allowing, covers
from events.roles import RUN, Verb
from projections.access.grants import OPEN, Granted, Lockdown
from projections.access.identity import Identity

LOOKS = frozenset((Verb.READ, Verb.EXPORT, Verb.AUDIT))
"""The verbs that change nothing: no lockdown refuses them."""


class Verdict(NamedTuple):
    """Whether somebody may do something. `binding`: what allows it, None where none is needed or none does; `locked`:
    the pool whose lockdown refuses what a binding allows.
    """

    is_allowed: bool
    binding: Binding | None = None
    locked: str = ""


def judge(granted: Granted, who: Identity, verb: Verb, pool: str, own: bool, now_ms: int) -> Verdict:
    """Whether somebody may do something in a pool, or in all of the cell (`/`); `own`: to what is theirs."""
    if who.is_cell or (verb == Verb.READ and granted.access == OPEN):
        return Verdict(True)
    bindings = granted.bindings_of(who.subject, who.groups)
    binding = None
    if who.run is None:
        binding = allowing(bindings, verb, pool, own, now_ms)
    if binding is None and not (who.run is not None and own and verb in RUN.own):
        return Verdict(False)
    locked = lockdown_over(granted.lockdowns, pool) if verb not in LOOKS else ""
    if locked and allowing(bindings, Verb.LOCKDOWN, pool, False, now_ms) is None:
        return Verdict(False, binding, locked)
    return Verdict(True, binding)


def lockdown_over(lockdowns: Mapping[str, Lockdown], pool: str) -> str:
    """The topmost pool that is locked down of a pool and those above it; empty: none is."""
    return min((each for each in lockdowns if covers(each, pool)), key=len, default="")
