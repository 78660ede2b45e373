"""Conditions on the attributes of hosts: which hosts meet them, kept per set of conditions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from processors.state.record_rows import ConstraintRow

SETS_MAX = 256
"""Sets of conditions kept; the oldest goes first. A set takes two bytes per host."""

MEETS = -1


def meets(constraint: ConstraintRow, attributes: dict[str, str]) -> bool:
    """Whether attributes meet a condition. An absent attribute is in no set; an unknown operator is never met."""
    value = attributes.get(constraint.attribute)
    match constraint.operator:
        case "in":
            return value in constraint.values
        case "not_in":
            return value not in constraint.values
        case "exists":
            return value is not None
        case "absent":
            return value is None
    return False


def first_unmet(constraints: Sequence[ConstraintRow], attributes: dict[str, str]) -> int:
    """Index of the first condition that isn't met, or `MEETS`."""
    return next((at for at, one in enumerate(constraints) if not meets(one, attributes)), MEETS)


class Constraints:
    """Per set of conditions, a column over hosts: the index of the first condition that isn't met, or `MEETS`."""

    def __init__(self) -> None:
        self._attributes: list[dict[str, str]] = []
        self._columns: dict[tuple[ConstraintRow, ...], NDArray[np.int16]] = {}

    def changed(self, host: int, attributes: dict[str, str]) -> None:
        """A host is new (the next number) or has other attributes."""
        if host == len(self._attributes):
            self._attributes.append(attributes)
            return
        self._attributes[host] = attributes
        for constraints, column in self._columns.items():
            if host < len(column):
                column[host] = first_unmet(constraints, attributes)

    def cut(self, hosts: int) -> None:
        """The last hosts have gone; so many numbers are left."""
        if hosts < len(self._attributes):
            del self._attributes[hosts:]
            self._columns = {constraints: column[:hosts] for constraints, column in self._columns.items()}

    def column(self, constraints: tuple[ConstraintRow, ...]) -> NDArray[np.int16]:
        """The column of a set, to look at, one item per host."""
        column = self._columns.get(constraints)
        if column is None or len(column) < len(self._attributes):
            length = 0 if column is None else len(column)
            more = (first_unmet(constraints, attributes) for attributes in self._attributes[length:])
            added = np.fromiter(more, dtype=np.int16)
            column = added if column is None else np.concatenate([column, added])
            if len(self._columns) >= SETS_MAX and constraints not in self._columns:
                del self._columns[next(iter(self._columns))]
            self._columns[constraints] = column
        return column
