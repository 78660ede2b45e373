"""The secrets of a job: their names, and the environment variables in which a task finds their files."""

from collections.abc import Collection
from typing import Protocol

from events.bounds import INT_MAX, SECRETS_MAX, VOLUME


class _Secret(Protocol):
    """A secret as a job names it."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...


def secret_variable(name: str) -> str:
    """The variable of a secret: the path of `tls-key` stands in PACELINE_SECRET_TLS_KEY."""
    return f"PACELINE_SECRET_{name.upper().replace('-', '_')}"


def name_fault(name: str) -> str:
    """The fault of a name; empty: none."""
    if VOLUME.fullmatch(name):
        return ""
    return f"{name[:80]!r} is no name of a secret: 1 to 64 of a-z, 0-9, dash, underscore, a letter or digit first"


def secrets_fault(secrets: Collection[_Secret], open_versions: bool = False) -> str:
    """The fault of a job's secrets, as the end of a sentence; empty: none. `open_versions`: 0 stands for the newest."""
    if len(secrets) > SECRETS_MAX:
        return f"are {len(secrets)}, at most {SECRETS_MAX} are allowed"
    for fault in filter(None, (name_fault(each.name) for each in secrets)):
        return f"must be names: {fault}"
    if len({secret_variable(each.name) for each in secrets}) < len(secrets):
        return "must have names that differ in more than dash and underscore"
    for each in secrets:
        if not (0 if open_versions else 1) <= each.version <= INT_MAX:
            return f"must have versions from 1 on: {each.name} has {each.version}"
    return ""
