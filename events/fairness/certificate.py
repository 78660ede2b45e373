"""Proves that entitlements are fair, from the numbers alone, and says in words how one of them came about.

Pools right below one share what is left beyond reservations up to a level: so much for each unit of share, or all that
a pool wants. The given numbers bound the level; exactly one adds up to all that there is, and each number must be what
it says. Nothing is imported from what is checked.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from events.fairness.levels import Member, Outcome, Unfair, outcome
from events.pool_paths import parent_of, path_to

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SharedPool:
    """A pool when entitlements were said: its definition, what it wants, and what it got, by name of the resource."""

    reservation: Amounts
    limit: Amounts
    """Resources that are left out have no limit."""
    want: Amounts
    """The amounts that run and wait in the pool; ignored for pools that have others below them."""
    entitlement: Amounts
    share: Amounts = field(default_factory=dict)
    share_default: int = 1
    static: Collection[str] = ()
    """The resources whose reservation is kept for it even where it doesn't want it."""
    floor: Amounts = field(default_factory=dict)
    """The least that it gets while a gang of it has its turn."""
    turn: str = ""
    """The owner of the turn, in words: this pool, or one below it."""
    alone: Amounts = field(default_factory=dict)
    """The amounts that it would get if nobody had a turn, if that is known."""


def faults(pools: Mapping[str, SharedPool], capacity: Amounts) -> list[str]:
    """Lists what isn't fair about the entitlements of the pools of a cell, without the root; empty if all is fair."""
    return [
        f"{name}, the pools right below {parent}: {fault}"
        for name in dict.fromkeys(name for pool in pools.values() for name in pool.entitlement)
        for parent, fault in Certificate(pools, capacity, name).faults()
    ]


def explain(
    path: str,
    pools: Mapping[str, SharedPool],
    capacity: Amounts,
    text: Callable[[str, int], str],
    daemons: Amounts | None = None,
) -> dict[str, list[str]]:
    """Explains the entitlement of a pool: for each resource that it wants or may use, a line for each pool from the
    first level down to it. `capacity`: what pools share; `daemons`: what the cell has beside that, for daemons; `text`:
    an amount of a resource as users read it.
    """
    lines: dict[str, list[str]] = {}
    for name, amount in pools[path].entitlement.items():
        certificate = Certificate(pools, capacity, name, (daemons or {}).get(name, 0))
        if amount or certificate.want(path):
            lines[name] = certificate.explain(path, partial(text, name))
    return lines


class Certificate:
    """The entitlements of all pools in one resource."""

    def __init__(self, pools: Mapping[str, SharedPool], capacity: Amounts, name: str, daemons: int = 0) -> None:
        self._pools = pools
        self._capacity = capacity.get(name, 0)
        self._daemons = daemons
        self._name = name
        self._below: dict[str, list[str]] = {}
        for path in sorted(pools):
            if path != "/":
                self._below.setdefault(parent_of(path), []).append(path)
        self._wants: dict[str, int] = {}
        self._floors: dict[str, int] = {}
        for path in sorted(pools, key=lambda each: -each.count("/")):
            self._count(path)

    def want(self, path: str) -> int:
        """The demand of a pool, with all below it, within its limit."""
        return self._wants[path]

    def faults(self) -> Iterator[tuple[str, str]]:
        """Pools, and what isn't fair among those right below them."""
        for parent in self._below:
            try:
                outcome(self._given(parent), self._members(parent))
            except Unfair as fault:
                yield parent, str(fault)

    def explain(self, path: str, text: Callable[[int], str]) -> list[str]:
        """A line for each pool from the first level down to one. Raises `Unfair` where there is no reason."""
        return [self._line(each, text) for each in path_to(path)]

    def _given(self, path: str) -> int:
        return self._capacity if path == "/" else self._pools[path].entitlement.get(self._name, 0)

    def _reservation(self, path: str) -> int:
        return self._pools[path].reservation.get(self._name, 0)

    def _demand(self, path: str) -> int:
        """The demand of a pool and all below it, its limit ignored."""
        if below := self._below.get(path):
            return sum(self._wants[each] for each in below)
        return self._pools[path].want.get(self._name, 0)

    def _count(self, path: str) -> None:
        """Counts what a pool wants, and its floor, after those below it."""
        pool, name, demand = self._pools[path], self._name, self._demand(path)
        want = min(demand, pool.limit.get(name, demand))
        self._wants[path] = want = max(want, self._reservation(path)) if name in pool.static else want
        floors = [self._floors[each] for each in self._below.get(path, ()) if each in self._floors]
        if floor := pool.floor.get(name, 0):
            self._floors[path] = min(floor, want)
        elif floors:
            others = [each for each in self._below[path] if each not in self._floors]
            reserved = sum(min(self._wants[each], self._reservation(each)) for each in others)
            self._floors[path] = min(sum(floors) + reserved, want)
        if path in self._floors:
            self._floors[path] = max(self._floors[path], min(want, self._reservation(path)))

    def _members(self, parent: str) -> list[Member]:
        return [
            Member(
                path,
                self._wants[path],
                self._reservation(path),
                self._pools[path].share.get(self._name, self._pools[path].share_default),
                self._floors.get(path, 0),
                self._given(path),
            )
            for path in self._below[parent]
        ]

    def _line(self, path: str, text: Callable[[int], str]) -> str:
        pool, parent = self._pools[path], parent_of(path)
        result = outcome(self._given(parent), self._members(parent))
        member = next(each for each in self._members(parent) if each.path == path)
        whole = f"the {text(self._given(parent))} of {parent}" if parent != "/" else self._whole(text)
        alone = pool.alone.get(self._name, member.entitlement)
        if pool.turn and alone < member.entitlement:
            why = f"{pool.turn} (share alone: {text(alone)}); it wants {text(member.want)}"
        elif 0 < member.entitlement == member.want == pool.limit.get(self._name):
            why = "its limit"
        else:
            why = _reason(member, result, text)
        words = f"{path} may use {text(member.entitlement)} of {whole}: {why}"
        demand = self._demand(path)
        if member.want < demand:
            words += f"; without its limit of {text(pool.limit[self._name])} it would want {text(demand)}"
        elif member.want > demand:
            words += f"; it wants {text(demand)}, but its reservation is kept for it"
        return words

    def _whole(self, text: Callable[[int], str]) -> str:
        """Tells in words what the pools of the first level share."""
        if not self._daemons:
            return f"the cell's {text(self._capacity)}"
        whole = text(self._capacity + self._daemons)
        return f"{text(self._capacity)}, the cell's {whole} without the {text(self._daemons)} of daemons"


def _reason(member: Member, result: Outcome, text: Callable[[int], str]) -> str:
    """Why one of the pools below another got what it got."""
    want, reserved = member.want, min(member.want, member.reservation)
    if result.rule == "reservation":
        return (
            f"the reservations that are wanted here, {text(result.reserved)}, exceed what there is, so all of it is "
            f"divided by reservation, and its own is {text(member.reservation)}"
        )
    if member.entitlement == want:
        return "all that it wants" if want else "it wants nothing"
    first = f"{text(reserved)} of its reservation first, " if reserved else ""
    level = result.levels[member.weight == 0]
    beyond = member.entitlement - reserved
    if member.low > reserved and beyond > level * member.weight:
        return f"its turn, or that of a pool below it, holds it at {text(member.entitlement)}; it wants {text(want)}"
    if member.weight == 0:
        return f"{first}{text(beyond)} of what the pools with a share leave; its own share is 0, it wants {text(want)}"
    rounded = ", rounded up" if beyond > level * member.weight else ""
    return (
        f"{first}{text(beyond)} for its share of {member.weight}{rounded}, at {text(int(level))} for each unit of "
        f"share; it wants {text(want)}"
    )
