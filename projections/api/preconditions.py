"""Conditions of requests (RFC 9110): what is written or read must be of a version, or must not be there yet.

Decision 083. The version of a thing is the position of the fact that it was last changed by; its tag is that in quotes.
"""

from typing import Annotated, NamedTuple

from fastapi import Depends, Header

from events.codes import Code
from projections.api.problems import Problem

ANY = "*"


class Conditions(NamedTuple):
    """The headers If-Match and If-None-Match as they came; empty: there is none."""

    match: str
    none_match: str

    def check(self, what: str, position: str | None, required: bool) -> None:
        """Raises a problem unless a thing may be written that was last changed at `position`, None: there is none.
        Where a condition is `required`, what is there isn't written without one.
        """
        if self.match and not (position and _names(self.match, position)):
            now = f"is of {position} now" if position else "isn't there"
            detail = f"{what} {now}, the request is for {self.match[:100]}: look at what changed, then send it again"
            raise Problem(412, Code.VERSION_CONFLICT, detail, position=position)
        if self.none_match and position and knows(self.none_match, position):
            raise Problem(412, Code.VERSION_CONFLICT, f"{what} is there already", position=position)
        if required and position and not (self.match or self.none_match):
            detail = (
                f"{what} is there already, and what the request leaves out would get its default: send If-Match: "
                f"{tag(position)} to replace it as it is now, If-Match: * however it is, or PATCH to change parts of it"
            )
            raise Problem(428, "PRECONDITION_REQUIRED", detail, position=position)


NoneMatch = Annotated[str, Header(description='A version that it must not be, "POSITION"; *: none at all.')]


async def conditions(
    if_match: Annotated[str, Header(description='The version that must stand, "POSITION"; *: any.')] = "",
    if_none_match: NoneMatch = "",
) -> Conditions:
    """The conditions of a request."""
    return Conditions(if_match.strip(), if_none_match.strip())


Conditional = Annotated[Conditions, Depends(conditions)]


def tag(position: str) -> str:
    """The tag of what was last changed at a position."""
    return f'"{position}"'


def knows(if_none_match: str, position: str) -> bool:
    """Whether a reader, by If-None-Match, has a thing as it was last changed at a position. Caches on the way may have
    marked its tag as weak.
    """
    return _names(", ".join(each.strip().removeprefix("W/") for each in if_none_match.split(",")), position)


def _names(header: str, position: str) -> bool:
    return header == ANY or tag(position) in (each.strip() for each in header.split(","))
