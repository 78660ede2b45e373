"""The hosts that meet what tasks ask of attributes and taints, and how well, kept for each set of conditions.

The rank of a host for a set is one byte: `CLOSED`, or the sum of the weights of preferences that it doesn't meet, and
`SPARED` more where it has devices that the set doesn't ask for, or is to be emptied soon. The least comes first. Where
the set may use several host pools, the first of these come before all that, which counts in fewer steps then.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.columns import I64
from events.conditions import EXCLUSIVE, MEETS, evaluate, exclusive_names, tops
from events.host_pools import SHARED
from processors.placement.attributes import Attribute, Attributes, Mask, first_of
from processors.placement.packing import RANK_SHIFT
from processors.state.record_rows import ConstraintRow

SETS_MAX = 256
"""Sets kept; the oldest goes first. A set takes three bytes per host."""
LOG_MAX = 65_536
"""So many changes of hosts are remembered; a set that is further behind is computed again."""

CLOSED = 255
SPARED = 64
RANKS = 128
"""Ranks of hosts that may be used are below it."""
TIERS = 4
"""So many host pools have a place of their own in the order, those behind them have the last."""


class Request(NamedTuple):
    """The conditions of tasks, the taints that they tolerate, the devices that they ask for, and the host pools that
    they may use, the first choice first; none: any.
    """

    conditions: tuple[ConstraintRow, ...] = ()
    tolerations: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    host_pools: tuple[str, ...] = ()


class ConditionSet:
    """Columns of one set over hosts. `unmet`: the index of the first condition that isn't met, behind them one for
    taints, one for hosts that are exclusive and one for those of other host pools, or `MEETS`; `rank` as above.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.seen = -1
        self.unmet: NDArray[np.int16] = np.zeros(0, dtype=np.int16)
        self.rank: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)

    @property
    def tainted(self) -> int:
        """In place of an index: a taint isn't tolerated."""
        return len(self.request.conditions)

    @property
    def exclusive(self) -> int:
        """In place of an index: the host takes only tasks that name it."""
        return len(self.request.conditions) + 1

    @property
    def outside(self) -> int:
        """In place of an index: the host is in a host pool that the tasks may not use."""
        return len(self.request.conditions) + 2


class Constraints:
    """Hosts by what conditions look at, and the sets that were requested."""

    def __init__(self) -> None:
        self._attributes = Attributes()
        self._taints = Attributes()
        self._devices = Attributes()
        self._host_pools = Attribute()
        """The host pools of hosts that aren't in `SHARED`."""
        self._leaving: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._sets: dict[Request, ConditionSet] = {}
        self._changes: list[int] = []
        self._begin = 0
        """Position of the first change in the list."""

    def changed(self, host: int, attributes: dict[str, str], taints: dict[str, str], devices: dict[str, str]) -> None:
        """A host is new (the next number) or has other attributes, taints or devices."""
        new = host == len(self._attributes)
        other = self._attributes.changed(host, attributes)
        other |= self._taints.changed(host, taints)
        other |= self._devices.changed(host, devices)
        if other or new:
            self._changes.append(host)
            if len(self._changes) > LOG_MAX:
                self._begin += len(self._changes)
                self._changes.clear()

    def leaves(self, host: int, is_leaving: bool) -> None:
        """A host is to be emptied soon, or not any more: it is spared meanwhile."""
        if len(self._leaving) <= host:
            if not is_leaving:
                return
            self._leaving = np.resize(self._leaving, max(2 * host, 16))
        if self._leaving[host] != is_leaving:
            self._leaving[host] = is_leaving
            self._changes.append(host)

    def pooled(self, host: int, host_pool: str) -> None:
        """A host is in a host pool."""
        self._host_pools.set(host, None if host_pool == SHARED else host_pool)
        self._changes.append(host)

    def is_leaving(self, host: int) -> bool:
        """Whether a host is to be emptied soon."""
        return host < len(self._leaving) and bool(self._leaving[host])

    def cut(self, hosts: int) -> None:
        """The last hosts have gone, which had nothing any more; so many numbers are left."""
        if hosts < len(self._attributes):
            for columns in (self._attributes, self._taints, self._devices):
                columns.cut(hosts)
            self._host_pools.cut(hosts)
            for each in self._sets.values():
                each.unmet, each.rank = first_of(each.unmet, hosts), first_of(each.rank, hosts)

    def column(self, conditions: tuple[ConstraintRow, ...]) -> NDArray[np.int16]:
        """The index of the first condition that isn't met, or `MEETS`, of each host; to look at. Taints aside."""
        unmet = self.of(Request(conditions)).unmet
        return np.where(unmet >= len(conditions), np.int16(MEETS), unmet)

    def groups(self, name: str) -> I64:
        """The number of the value that each host has of an attribute; 0: it has none."""
        return self._attributes[name].numbers(np.arange(len(self._attributes))).astype(np.int64)

    def group_of(self, name: str, value: str) -> int | None:
        """The number of a value of an attribute; None: no host has it."""
        return self._attributes[name].number_of(value)

    def of(self, request: Request) -> ConditionSet:
        """The columns of a set, to look at, one item per host."""
        own = self._sets.get(request)
        if own is None:
            if len(self._sets) >= SETS_MAX:
                del self._sets[next(iter(self._sets))]
            own = self._sets[request] = ConditionSet(request)
        end, hosts = self._begin + len(self._changes), len(self._attributes)
        if own.seen != end:
            behind = self._changes[max(0, own.seen - self._begin) :]
            anew = own.seen < self._begin or len(behind) * 4 > hosts
            numbers = np.arange(hosts) if anew else np.unique(np.array(behind, dtype=np.int64))
            self._follow(own, numbers[numbers < hosts], hosts)
            own.seen = end
        return own

    def _follow(self, own: ConditionSet, hosts: I64, count: int) -> None:
        """Brings the columns of a set up to some hosts."""
        if len(own.unmet) != count:
            own.unmet, own.rank = np.resize(own.unmet, count), np.resize(own.rank, count)
        own.unmet[hosts], own.rank[hosts] = self._judge(own, hosts)

    def _judge(self, own: ConditionSet, hosts: I64) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
        conditions, unmet = own.request.conditions, np.full(len(hosts), MEETS, dtype=np.int16)
        host_pools = own.request.host_pools
        wished = np.zeros(len(hosts), dtype=np.int64)
        for at in tops(conditions):
            met, _ = evaluate(conditions, at, lambda one: self._attributes.met(one, hosts))
            if conditions[at].weight:
                wished[~met] += conditions[at].weight
            else:
                unmet[~met & (unmet == MEETS)] = at
        if host_pools:
            unmet[~self._in(host_pools, hosts) & (unmet == MEETS)] = own.outside
        unmet[~self._tolerated(own.request.tolerations, hosts) & (unmet == MEETS)] = own.tainted
        unmet[~self._named(conditions, hosts) & (unmet == MEETS)] = own.exclusive
        for name in self._devices.names:
            if name not in own.request.devices:
                wished[(self._devices[name].numbers(hosts) > 0) & (wished < SPARED)] += SPARED
        if len(self._leaving):
            noted = hosts < len(self._leaving)
            leaving = np.zeros(len(hosts), dtype=np.bool_)
            leaving[noted] = self._leaving[hosts[noted]]
            wished[leaving & (wished < SPARED)] += SPARED
        if len(host_pools) > 1:
            wished = self._in_order(host_pools, hosts, wished)
        wished[unmet != MEETS] = CLOSED
        return unmet, wished.astype(np.uint8)

    def _tolerated(self, tolerations: Sequence[str], hosts: I64) -> Mask:
        """The hosts all of whose taints are tolerated."""
        mask: Mask = np.ones(len(hosts), dtype=np.bool_)
        for key in self._taints.names:
            if key not in tolerations:
                allowed = frozenset(each.partition("=")[2] for each in tolerations if each.startswith(f"{key}="))
                mask &= self._taints[key].among(allowed, partial(_is_none_or_in, allowed), hosts)
        return mask

    def _in(self, host_pools: tuple[str, ...], hosts: I64) -> Mask:
        """The hosts that are in one of some host pools."""
        return self._host_pools.among(host_pools, lambda name: (name or SHARED) in host_pools, hosts)

    def _in_order(self, host_pools: tuple[str, ...], hosts: I64, wished: I64) -> I64:
        """The ranks of hosts, those in the first of host pools first."""
        bits = 1 if len(host_pools) == 2 else 2
        steps: I64 = np.minimum(-(-wished >> bits), (RANKS >> bits) - 1)
        tier: I64 = np.zeros(len(hosts), dtype=np.int64)
        for at in range(1, min(len(host_pools), TIERS)):
            tier[self._in(host_pools[at:], hosts)] = at
        ranks: I64 = tier * (RANKS >> bits) + steps
        return ranks

    def _named(self, conditions: Sequence[ConstraintRow], hosts: I64) -> Mask:
        """The hosts that are no one's, or that a condition names."""
        names = exclusive_names(conditions)
        mark = self._attributes[EXCLUSIVE]
        return mark.among(names, partial(_is_none_or_in, names), hosts)


def _is_none_or_in(names: frozenset[str], value: str | None) -> bool:
    return value is None or value in names


def request_of(
    conditions: tuple[ConstraintRow, ...],
    tolerations: Sequence[str] = (),
    devices: Sequence[str] = (),
    host_pools: tuple[str, ...] = (),
) -> Request:
    """A set by its content, each part in one order."""
    return Request(conditions, tuple(sorted({*tolerations})), tuple(devices), host_pools)


def order_of(rank: NDArray[np.uint8]) -> I64 | None:
    """The ranks of hosts as they stand before scores; None where all that may be used have the same."""
    used = rank[rank != CLOSED]
    if not len(used) or (used == used[0]).all():
        return None
    return rank.astype(np.int64) << RANK_SHIFT
