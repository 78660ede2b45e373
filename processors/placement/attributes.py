"""The attributes and taints of hosts as columns: for each name the number of its value per host.

Operators look at strings once for each value of an attribute; what they say of values becomes a mask over hosts by the
column of numbers. The number of a value that no host has any more is given to another.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from events.columns import I64
from events.conditions import Condition, meets

Mask = NDArray[np.bool_]
Says = Callable[[str | None], bool]

COPY_FROM, SPARE = 64, 4
TABLES_MAX = 512
"""Tables kept of one attribute; all go when there are more."""


def first_of(column: NDArray[Any], count: int) -> NDArray[Any]:
    """The first items of a column; their memory is their own once most of it would be of others."""
    first = column[:count]
    whole = column if column.base is None else column.base
    return first.copy() if whole.size > max(COPY_FROM, SPARE * count) else first


class Attribute:
    """One name: its values, of which 0 is that there is none, and the number of each host's value."""

    def __init__(self) -> None:
        self.of_host: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._values: list[str | None] = [None]
        self._hosts: list[int] = [0]
        """The number of hosts with each value."""
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        self._tables: dict[object, tuple[Says, bytearray]] = {}
        """The functions over values, by key, with their answers for each number."""

    def cut(self, hosts: int) -> None:
        """So many numbers of hosts are left."""
        if len(self.of_host) > max(COPY_FROM, SPARE * hosts):
            self.of_host = self.of_host[:hosts].copy()

    def set(self, host: int, value: str | None) -> None:
        """A host has another value now."""
        if host >= len(self.of_host):
            if value is None:
                return
            more = np.zeros(max(16, host + 1, 2 * len(self.of_host)) - len(self.of_host), dtype=np.int32)
            self.of_host = np.concatenate([self.of_host, more])
        before, number = int(self.of_host[host]), 0 if value is None else self._number(value)
        self.of_host[host] = number
        self._hosts[number] += 1
        self._hosts[before] -= 1
        if before and not self._hosts[before]:
            del self._numbers[self._values[before] or ""]
            self._free.append(before)

    @property
    def is_unused(self) -> bool:
        """Whether no host has it."""
        return not self._numbers

    def number_of(self, value: str) -> int | None:
        """The number of a value; None: no host has it."""
        return self._numbers.get(value)

    def numbers(self, hosts: I64) -> NDArray[np.int32]:
        """The number of the value of each of some hosts."""
        if len(hosts) and hosts[-1] < len(self.of_host):  # they ascend
            return self.of_host[hosts]
        numbers = np.zeros(len(hosts), dtype=np.int32)
        within = hosts < len(self.of_host)
        numbers[within] = self.of_host[hosts[within]]
        return numbers

    def among(self, key: object, says: Says, hosts: I64) -> Mask:
        """Whether `says` holds for the value of each of some hosts; `key` stands for `says`."""
        if key not in self._tables:
            if len(self._tables) >= TABLES_MAX:
                self._tables.clear()
            self._tables[key] = says, bytearray(map(says, self._values))
        table = self._tables[key][1]
        numbers = self.numbers(hosts)
        if len(numbers) <= 8:  # a column of all values costs more than these
            return np.array([table[number] for number in numbers.tolist()], dtype=np.bool_)
        mask: Mask = np.frombuffer(table, dtype=np.bool_)[numbers]
        return mask

    def _number(self, value: str) -> int:
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._hosts.append(0)
            for says, table in self._tables.values():
                table[number : number + 1] = (says(value),)
            self._numbers[value] = number
        return number


class Attributes:
    """All names that hosts have, taken by name when first needed."""

    def __init__(self) -> None:
        self._by_name: dict[str, Attribute] = {}
        self._of_host: list[dict[str, str]] = []

    def __len__(self) -> int:
        return len(self._of_host)

    @property
    def names(self) -> Iterable[str]:
        """The names that some host has."""
        return self._by_name

    def __getitem__(self, name: str) -> Attribute:
        """The column of a name, which no host needs to have."""
        return self._by_name.get(name) or _NONE

    def changed(self, host: int, values: dict[str, str]) -> bool:
        """A host is new (the next number) or may have other values; returns whether it does."""
        if host == len(self._of_host):
            self._of_host.append({})
        before = self._of_host[host]
        if values == before:
            return False
        for name in before | values:
            if before.get(name) != values.get(name):
                attribute = self._by_name.get(name)
                if attribute is None:
                    attribute = self._by_name[name] = Attribute()
                attribute.set(host, values.get(name))
                if attribute.is_unused:
                    del self._by_name[name]
        beside = self._of_host[host - 1] if host else None  # hosts that come one after another are often alike
        self._of_host[host] = beside if beside == values else dict(values)
        return True

    def cut(self, hosts: int) -> None:
        """The last hosts have gone; so many numbers are left. What they had must have been taken off before."""
        del self._of_host[hosts:]
        for name in self.names:
            self[name].cut(hosts)

    def met(self, condition: Condition, hosts: I64) -> Mask:
        """Whether each of some hosts meets a single condition."""
        key = condition.operator, condition.values
        return self[condition.attribute].among(key, lambda value: meets(condition, value), hosts)


_NONE = Attribute()
"""That of a name that no host has; never set."""
