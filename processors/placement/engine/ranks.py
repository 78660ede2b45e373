"""Conditions on attributes of hosts as a column of ranks: -1 where they aren't met, else how much is left unwished.

The strings of an attribute are numbered, and a set of conditions is asked once for each combination of values that it
looks at; a host that changes is a look into a table.
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from processors.placement.engine.columns import I8, I32


class Conditions(Protocol):
    """A set of conditions: hard ones, wishes, tolerations, scarce kinds."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it looks at, each once."""

    def rank(self, values: Mapping[str, str]) -> int:
        """-1 where a hard condition isn't met, else 0 to 126. `values` has those of `attributes` that a host has."""


class Attributes:
    """The values of attributes, numbered; 0 is that of hosts which don't have it."""

    def __init__(self) -> None:
        self.hosts: list[Mapping[str, str]] = []
        self._columns: dict[str, I32] = {}
        self._numbers: dict[str, dict[str | None, int]] = {}
        self.values: dict[str, list[str | None]] = {}
        """By attribute, the value of each number."""

    def change(self, host: int, attributes: Mapping[str, str]) -> None:
        """A host is new (the next number) or has other attributes."""
        if host == len(self.hosts):
            self.hosts.append(attributes)
        else:
            self.hosts[host] = attributes
        for name, column in self._columns.items():
            if host < len(column):
                column[host] = self._number(name, attributes.get(name))

    def cut(self, hosts: int) -> None:
        """The last hosts have gone."""
        del self.hosts[hosts:]
        self._columns = {name: column[:hosts] for name, column in self._columns.items()}

    def column(self, name: str) -> I32:
        """The number of the value of each host; to look at."""
        column = self._columns.get(name)
        done = 0 if column is None else len(column)
        if column is None or done < len(self.hosts):
            self.values.setdefault(name, [None])
            more = [self._number(name, attributes.get(name)) for attributes in self.hosts[done:]]
            added = np.array(more, dtype=np.int32)
            column = self._columns[name] = added if column is None else np.concatenate([column, added])
        return column

    def _number(self, name: str, value: str | None) -> int:
        numbers = self._numbers.setdefault(name, {None: 0})
        number = numbers.get(value)
        if number is None:
            number = numbers[value] = len(numbers)
            self.values[name].append(value)
        return number


class RankColumn:
    """The ranks of one set."""

    def __init__(self, conditions: Conditions) -> None:
        self._names = conditions.attributes
        self._conditions = conditions
        self._known: dict[tuple[str | None, ...], int] = {}

    def of(self, attributes: Mapping[str, str]) -> int:
        """The rank of a host with these attributes."""
        values = tuple([attributes.get(name) for name in self._names])
        rank = self._known.get(values)
        if rank is None:
            rank = self._known[values] = self._conditions.rank(
                {name: value for name, value in zip(self._names, values, strict=True) if value is not None}
            )
        return rank

    def all(self, attributes: Attributes) -> I8:
        """The ranks of all hosts."""
        hosts = len(attributes.hosts)
        code = np.zeros(hosts, dtype=np.int64)
        for name in self._names:
            column = attributes.column(name)
            _, code = np.unique(code * len(attributes.values[name]) + column, return_inverse=True)
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        ranks = [self.of(attributes.hosts[host]) for host in first.tolist()]
        return np.array(ranks, dtype=np.int8)[index]
