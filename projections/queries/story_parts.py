"""Sentences about records as parts: plain text, and the names that a page can link to."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from events.actors import binding_of
from events.records.parts import Actor
from events.words import plural
from projections.actor_names import named as named_actor

NAMED = 3
"""So many names stand in a sentence; the others are counted."""


class Ref(NamedTuple):
    """A name in a sentence."""

    kind: str
    """job, pool, host, or position of a record."""
    name: str


Part = str | Ref
Line = tuple[Part, ...]
"""A sentence."""


def text_of(line: Line) -> str:
    """The sentence as plain text."""
    return "".join(part if isinstance(part, str) else part.name for part in line)


def job(name: str) -> Ref:
    """A job by its id."""
    return Ref("job", name)


def pool(path: str) -> Ref:
    """A pool by its path."""
    return Ref("pool", path)


def host(name: str) -> Ref:
    """A host by its id."""
    return Ref("host", name)


def named(kind: str, names: Sequence[str], before: str = "") -> list[Part]:
    """The first of some names after a text, and how many others there are; nothing where there are none."""
    out: list[Part] = []
    for name in names[:NAMED]:
        out += [", " if out else before, Ref(kind, name)]
    rest = len(names) - NAMED
    return [*out, f" and {plural(rest, 'other')}"] if rest > 0 else out


def because(event: Any, before: str = ": ") -> str:
    """The reason that a user gave."""
    return before + event.reason if event.reason else ""


def by(actor: Actor) -> list[Part]:
    """The end of a sentence about a fact: who wrote it, by what role, and why where the sentence doesn't say it."""
    allowed: list[Part] = [", allowed by ", Ref("position", binding)] if (binding := binding_of(actor)) else []
    return [f", by {named_actor(actor)}", *allowed, *([f", reason: {actor.reason}"] if actor.reason else [])]


def joined(lines: Iterable[Sequence[Part]], separator: str) -> list[Part]:
    """Several sentences as one."""
    out: list[Part] = []
    for line in lines:
        out += [separator] * bool(out) + list(line)
    return out
