"""Conditions of hosts: what a cell does with a host that isn't well, and when it takes a check for broken.

Placement decides by it, and what is shown of hosts is told by it.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from events.bounds import CONDITION, MS_MAX

SUSPECTED = "suspected"
"""The condition that lifecycle finds by the runs of a host; it ends by time."""
PRESSURE = "memory-pressure"
AVOIDED_PERCENT, DRAINED_PERCENT, BROKEN_PERCENT = 10, 5, 10
"""So many of the hosts are avoided at a time; drained for conditions at a time, and newly in an hour; and have come to
have one condition within `BROKEN_MS` where its check is taken for broken, or more.
"""
HOSTS_MIN = 3
"""A cell with fewer hosts avoids none, and drains none for a condition."""
BROKEN_MS = 600_000
HOUR_MS = 3_600_000
FLAPS_MAX = 3
"""The time for which a condition must have passed doubles each time that it came back meanwhile, so often at most."""
CONDITIONS_MAX = 64
"""The most policies of a cell."""


class Policy(StrEnum):
    """The policies of conditions."""

    AVOID = "avoid"
    """They take no new tasks."""
    DRAIN = "drain"
    """Nor that, and they are drained where it lasts."""
    OFF = "off"
    DEFAULT = "default"
    """Whatever is done for a condition that no operator has named."""


class PolicyLike(Protocol):
    """The policy of one condition; of `drain` after which time, None: that of the cell."""

    @property
    def name(self) -> str:
        """The condition."""
        ...

    @property
    def policy(self) -> str:
        """A `Policy`."""
        ...

    @property
    def drain_after_ms(self) -> int | None:
        """The time for which it lasts until they are drained."""
        ...


class Action(NamedTuple):
    """Measures against a condition. `drain_after_ms`: how long until they are drained; None: never."""

    avoid: bool
    drain_after_ms: int | None


def action_of(policies: Sequence[PolicyLike], drain_after_ms: int, name: str) -> Action:
    """Finds the measures of a cell against a condition; `drain_after_ms`: its own setting, 0: it drains none."""
    row = next((each for each in policies if each.name == name), None)
    policy = Policy(row.policy) if row is not None else Policy.AVOID if name in (SUSPECTED, PRESSURE) else Policy.DRAIN
    after_ms = drain_after_ms if row is None or row.drain_after_ms is None else row.drain_after_ms
    return Action(policy != Policy.OFF, after_ms if policy == Policy.DRAIN and after_ms else None)


def release_ms(release_after_ms: int, flaps: int) -> int:
    """For how long a condition must have passed that came back so often."""
    return release_after_ms << min(flaps, FLAPS_MAX)


def most(hosts: int, percent: int) -> int:
    """So many of the hosts at most, at least one; `hosts`: those that are heard."""
    return max(1, hosts * percent // 100) if hosts >= HOSTS_MIN else 0


def is_broken(onsets: Sequence[int], hosts: int) -> bool:
    """Whether a check is taken for broken; `onsets`: since when hosts have its condition, ascending."""
    beyond = max(1, hosts * BROKEN_PERCENT // 100)
    return any(last - first <= BROKEN_MS for first, last in zip(onsets, onsets[beyond:], strict=False))


def policies_fault(before: Sequence[PolicyLike], changes: Sequence[PolicyLike]) -> str:
    """Why policies can't be changed so; empty: they can."""
    names = [each.name for each in changes]
    for each in changes:
        if not CONDITION.fullmatch(each.name):
            return f"{each.name[:100]!r} is no name of a condition: 1 to 64 of a-z, 0-9, dot, dash, underscore"
        if each.name == SUSPECTED:
            return f"{SUSPECTED} has no policy: such hosts are avoided for ten minutes"
        if names.count(each.name) > 1:
            return f"{each.name} is named twice"
        if each.policy not in [*Policy]:
            return f"{each.name} is {each.policy[:100]!r}, it must be avoid, drain, off or default"
        if each.drain_after_ms is not None and (each.policy != Policy.DRAIN or not 0 < each.drain_after_ms <= MS_MAX):
            return f"{each.name}: only drain has a time, of 1 ms at least"
    count = len({*names, *(each.name for each in before)})
    return f"a cell has {CONDITIONS_MAX} policies at most" if count > CONDITIONS_MAX else ""
