"""The name of its user that a client sends with each request. Nobody checks it (docs/security.md)."""

import os
import pwd
from typing import NamedTuple
from urllib.parse import quote

from paceline.client.errors import InvalidValue

NAME_HEADER = "Paceline-Actor"
HOW_HEADER = "Paceline-Actor-How"
VARIABLE = "PACELINE_ACTOR"
ENVIRONMENT, SYSTEM_USER = "environment", "system-user"
NAME_MAX = 128
"""As `events.actors.SUBJECT_MAX`, which a client of its own doesn't import."""
_PLAIN = " !#$&'()*+,/:;=?@[]"


class ActingUser(NamedTuple):
    """A name, and how it is known; empty: it isn't."""

    subject: str
    how: str


def acting_user() -> ActingUser:
    """The user that this process works for: as `PACELINE_ACTOR` says, else the system's user, whatever the environment
    says of it. Raises `InvalidValue` for what a server would refuse.
    """
    if name := os.environ.get(VARIABLE, "").strip():
        if not _fits(name):
            raise InvalidValue(f"{VARIABLE} must be 1 to {NAME_MAX} printable characters in UTF-8; nothing was sent")
        return ActingUser(name, ENVIRONMENT)
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a number without a name, as in many containers
        name = ""
    return ActingUser(name, SYSTEM_USER) if name and _fits(name) else ActingUser("", "")


def _fits(name: str) -> bool:
    return len(name) <= NAME_MAX and name.isprintable()


def headers_of(user: ActingUser) -> dict[str, str]:
    """The headers that say a name."""
    if not user.subject:
        return {}
    return {NAME_HEADER: quote(user.subject, safe=_PLAIN), HOW_HEADER: user.how}
