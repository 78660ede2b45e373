"""The rule of who may what, from bindings alone: that of the API, of `paceline access check` and of plans.

`paceline audit --verify` has the rule a second time, on purpose (`paceline/audit/`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from events.roles import ROLES, Verb

EVERYBODY = "everybody"
"""A group that all are in, those too who show nothing."""


class Binding(NamedTuple):
    """A role of a subject or a group over a pool and all below it. `offset`: its fact's in paceline.pools."""

    binding_id: str
    offset: int
    subject: str
    group: str
    role: str
    pool: str
    from_ms: int
    until_ms: int

    def holds(self, now_ms: int) -> bool:
        """Whether it holds at a time."""
        return self.from_ms <= now_ms and (not self.until_ms or now_ms < self.until_ms)

    def is_of(self, subject: str, groups: Iterable[str]) -> bool:
        """Whether somebody has it."""
        return (self.subject != "" and self.subject == subject) or (
            self.group != "" and (self.group == EVERYBODY or self.group in groups)
        )


def covers(pool: str, path: str) -> bool:
    """Whether a pool is another one or above it."""
    return pool in ("/", path) or path.startswith(f"{pool}/")


def allowing(bindings: Iterable[Binding], verb: Verb, path: str, own: bool, now_ms: int) -> Binding | None:
    """The first binding, of those of an actor, that allows a verb on something in a pool; `own`: it is the actor's."""
    for each in bindings:
        role = ROLES.get(each.role)
        if role is None or not each.holds(now_ms) or not covers(each.pool, path):
            continue
        if verb in role.verbs or (own and verb in role.own):
            return each
    return None


def readable(bindings: Iterable[Binding], now_ms: int, verb: Verb = Verb.READ) -> tuple[str, ...] | None:
    """The topmost pools that an actor with these bindings may read, or has another `verb` for, by path; None: all of
    the cell.
    """
    pools = {each.pool for each in bindings if each.holds(now_ms) and verb in ROLES[each.role].verbs}
    if "/" in pools:
        return None
    return tuple(sorted(pool for pool in pools if not any(pool != other and covers(other, pool) for other in pools)))
