"""The name of its user that a client sends with each request. Nobody checks it (docs/security.md)."""

import getpass
import os
from typing import NamedTuple
from urllib.parse import quote

NAME_HEADER = "Paceline-Actor"
HOW_HEADER = "Paceline-Actor-How"
VARIABLE = "PACELINE_ACTOR"
ENVIRONMENT, SYSTEM_USER = "environment", "system-user"
_PLAIN = " !#$&'()*+,/:;=?@[]"


class ActingUser(NamedTuple):
    """A name, and how it is known; empty: it isn't."""

    subject: str
    how: str


def acting_user() -> ActingUser:
    """The user that this process works for: as `PACELINE_ACTOR` says, else the system's user."""
    if name := os.environ.get(VARIABLE, "").strip():
        return ActingUser(name, ENVIRONMENT)
    try:
        return ActingUser(getpass.getuser(), SYSTEM_USER)
    except (KeyError, OSError, ImportError):  # a number without a name, as in many containers
        return ActingUser("", "")


def headers_of(user: ActingUser) -> dict[str, str]:
    """The headers that say a name."""
    if not user.subject:
        return {}
    return {NAME_HEADER: quote(user.subject, safe=_PLAIN, errors="surrogateescape"), HOW_HEADER: user.how}
