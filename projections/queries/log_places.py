"""Positions as people write them: `paceline.jobs:17`, `placement/round/812`, and `/3` after either for the fourth
decision of a round; before either the cell and a slash, where it is named.
"""

import re
from typing import NamedTuple

from events.records.parts import Cause
from events.topics import BY_NAME, MACHINES

_NUMBER = r"(\d{1,18})"
_RECORD = re.compile(rf"(?:(\d{{1,9}})/)?(paceline\.[a-z]+):{_NUMBER}(?:/(\d{{1,9}}))?")
_ROUND = re.compile(rf"(?:(\d{{1,9}})/)?([a-z]+)/round/{_NUMBER}(?:/(\d{{1,9}}))?")


class Place(NamedTuple):
    """A record by topic and offset, or a round by machine and number; `decision`: one of it, from 0."""

    cell: int | None
    topic: str
    machine: str
    number: int
    """The offset, or the number of the round."""
    decision: int | None


def read_place(text: str) -> Place | None:
    """The position that a text names; None: it names none."""
    if (found := _RECORD.fullmatch(text)) and found[2] in BY_NAME:
        return Place(_int(found[1]), found[2], BY_NAME[found[2]].machine or "", int(found[3]), _int(found[4]))
    if (found := _ROUND.fullmatch(text)) and found[2] in MACHINES:
        return Place(_int(found[1]), "", found[2], int(found[3]), _int(found[4]))
    return None


def write_place(cause: Cause) -> str:
    """The position of a fact or a decision; empty: of a deadline."""
    if cause.topic:
        return f"{cause.topic}:{cause.offset}"
    return f"{cause.machine}/round/{cause.round}/{cause.index}" if cause.machine else ""


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)
