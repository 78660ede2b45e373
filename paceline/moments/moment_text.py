"""Notations of a moment: a time, a round, or a position in the log."""

import re
from datetime import datetime
from typing import NamedTuple

from events.topics import BY_NAME, MACHINES, rounds_of

HOW = (
    "a moment is a time such as 2026-08-21T10:44:07Z, a round such as 0/placement/round/812, or a position such as "
    "0/paceline.lifecycle:57"
)
END_MS = 253_370_764_800_000
"""When the year 9999 begins."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|z|[+ -]\d\d:\d\d)", re.ASCII)
_ROUND = re.compile(r"(?:(\d{1,9})/)?([a-z]{1,40})/round/(\d{1,18})", re.ASCII)
_POSITION = re.compile(r"(?:(\d{1,9})/)?(?:paceline\.)?([a-z]{1,40}):(\d{1,18})", re.ASCII)


class BadMoment(ValueError):
    """A text that names no moment; the message says how one is written."""


class AtTime(NamedTuple):
    """A time of all cells, in milliseconds since 1970."""

    ms: int


class AtRound(NamedTuple):
    """After a round of a machine. `cell` is None where it was left out."""

    cell: int | None
    machine: str
    number: int


class AtPosition(NamedTuple):
    """After the record at an offset of a topic. `cell` is None where it was left out."""

    cell: int | None
    topic: str
    offset: int


def read_moment(text: str) -> AtTime | AtRound | AtPosition:
    """Parses a moment. Raises `BadMoment`."""
    if match := _TIME.fullmatch(text):
        day, clock, zone = match.groups()
        zone = zone.upper().replace(" ", "+")  # a plus that was not escaped in a query comes as a space
        try:
            ms = int(datetime.fromisoformat(f"{day}T{clock}{zone}").timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise BadMoment(f"{text!r} is no time: {error}") from error
        if not 0 < ms < END_MS:
            raise BadMoment(f"{text!r} is no time of a log: those are of the years 1970 to 9998")
        return AtTime(ms)
    if match := _ROUND.fullmatch(text):
        cell, machine, number = match.groups()
        if machine not in MACHINES:
            raise BadMoment(f"{machine!r} is no machine; there are {', '.join(MACHINES)}")
        return AtRound(_cell(cell), machine, int(number))
    if match := _POSITION.fullmatch(text):
        cell, topic, offset = match.groups()
        if rounds_of(topic) not in BY_NAME:
            raise BadMoment(f"{topic!r} is no topic; there are {', '.join(BY_NAME)}")
        return AtPosition(_cell(cell), rounds_of(topic), int(offset))
    raise BadMoment(f"{text[:100]!r} names no moment; {HOW}")


def _cell(text: str | None) -> int | None:
    return None if text is None else int(text)
