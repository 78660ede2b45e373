"""What all records are: frozen, typed, compared by value."""

from typing import ClassVar

import msgspec


class NestedRecord(msgspec.Struct, frozen=True):
    """A record inside a record."""


class Event(msgspec.Struct, frozen=True):
    """A record with a schema of its own: a fact, a decision, or one of the two records of the round protocol."""

    topic: ClassVar[str] = ""
    """The topic whose facts it belongs to, or the topic of the machine that decides it; empty: any machine."""
