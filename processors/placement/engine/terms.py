"""Counters of labels: how many tasks carry one, or shun it, within each value of an attribute.

Each label is counted by host, whatever attribute a term names: so a new term finds its counts, and a host that gets
another value takes its tasks along.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from processors.placement.engine.columns import ADDS_MAX, TERMS_MAX, Columns
from processors.placement.engine.shapes import Shape

T = TypeVar("T")


class Term(NamedTuple):
    """Counted: tasks that carry a label, or (`shuns`: within that attribute) that shun it; by value of `attribute`."""

    label: str
    shuns: str | None
    attribute: str


class Terms:
    """The numbers of counters, and which ones a shape looks at and adds to."""

    def __init__(self, group: Callable[[str], int], count: Callable[[int, int, int], None]) -> None:
        self.numbers: dict[Term, int] = {}
        self._group = group
        self._count = count
        """Makes a counter of a number, over an attribute, of what another has by host."""
        self._by_label: dict[str, list[Term]] = {}
        self.version = 0
        """Grows when there are more counters, so that shapes with labels have others."""

    def know(self, shape: Shape) -> None:
        """Makes the counters that a shape looks at and adds to."""
        for label in shape.carries:
            self._number(Term(label, None, ""))
        for label, attribute in shape.shuns:
            self._number(Term(label, attribute, attribute))
            self._number(Term(label, None, attribute))
        for label, attribute in shape.wants:
            self._number(Term(label, None, attribute))

    def zeros(self, shape: Shape) -> list[int]:
        """The counters that must be 0 at a host."""
        shunned = [self.numbers[Term(label, None, attribute)] for label, attribute in shape.shuns]
        shunning = [
            self.numbers[term]
            for label in shape.carries
            for term in self._by_label.get(label, ())
            if term.shuns == term.attribute
        ]
        return _at_most(list(dict.fromkeys(shunned + shunning)), TERMS_MAX)

    def wants(self, shape: Shape) -> list[tuple[int, bool]]:
        """The counters that must not be 0, and whether the shape adds to it."""
        wishes = [(self.numbers[Term(label, None, where)], label in shape.carries) for label, where in shape.wants]
        return _at_most(wishes, TERMS_MAX)

    def adds(self, shape: Shape) -> list[int]:
        """The counters to which a task adds."""
        numbers = [
            self.numbers[term] for label in shape.carries for term in self._by_label[label] if term.shuns is None
        ]
        for label, attribute in shape.shuns:
            numbers += [self.numbers[term] for term in self._by_label[label] if term.shuns == attribute]
        return _at_most(list(dict.fromkeys(numbers)), ADDS_MAX)

    def over(self, attribute: str) -> list[tuple[int, int]]:
        """The counters over an attribute, each with the one that counts the same by host."""
        return [
            (number, self.numbers[term._replace(attribute="")])
            for term, number in self.numbers.items()
            if term.attribute == attribute != ""
        ]

    def _number(self, term: Term) -> int:
        number = self.numbers.get(term)
        if number is None:
            by_host = self._number(term._replace(attribute="")) if term.attribute else -1
            number = self.numbers[term] = len(self.numbers)
            self._by_label.setdefault(term.label, []).append(term)
            self._count(number, self._group(term.attribute), by_host)
            self.version += 1
        return number


def recount(c: Columns, counter: int, by_host: int) -> None:
    """Counts by value what another counter has by host."""
    groups = c.groups[c.attribute[counter]]
    c.counts[counter] = 0
    np.add.at(c.counts[counter], groups, c.counts[by_host])
    c.totals[counter] = c.totals[by_host]


def _at_most(terms: list[T], most: int) -> list[T]:
    assert len(terms) <= most, f"a shape has {len(terms)} terms, and may have {most}"
    return terms
