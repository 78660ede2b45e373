"""The answer to why something was decided, as it stands on the wire."""

from typing import Any, TypedDict

from paceline.client.json_type import Json
from paceline.client.models import ActorName


class CauseLink(TypedDict):
    """A link to what led to a record. `link`: cause, newest, run or entity, how it is known; without a `position` it is
    a deadline, the time `at`.
    """

    position: str | None
    at: str | None
    link: str
    recorded: bool


class CauseRecord(TypedDict):
    """A fact or a decision, and what led to it; `event` is null where the record can't be read any more."""

    position: str | None
    at: str | None
    event: str | None
    text: str
    actor: ActorName | None
    """The author of a fact; null where it doesn't say, and of decisions."""
    run: Json | None
    causes: list[CauseLink]


class CauseChain(TypedDict):
    """The records that led to those at `starts`; `whole`: nothing was left out."""

    starts: list[str]
    records: list[CauseRecord]
    whole: bool


class Causes(CauseChain):
    """The chain of causes of a position or a job."""

    of: str


class BlamedActor(TypedDict):
    """The writer of the fact behind a record, and the reason."""

    position: str
    at: str | None
    actor: ActorName
    reason: str


class Blame(CauseChain):
    """The mover of a value: `moved` is the position of the fact or decision, one of `records`, null where none is
    known: nobody has ever set it. `by`: the nearest fact behind it that says who wrote it. `followed`: decisions that
    followed from it, in order; `followed_whole`: there are no more of them.
    """

    of: str
    value: Any
    moved: str | None
    by: BlamedActor | None
    followed: list[CauseRecord]
    followed_whole: bool
