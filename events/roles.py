"""Roles: what each lets its holder do in a pool and all below it, and in all of the cell where that pool is `/`.

Who has one of them for what is decided by bindings (`events/access.py`).
"""

from enum import StrEnum
from typing import NamedTuple


class Verb(StrEnum):
    """A thing that somebody may do."""

    READ = "read"
    """To see jobs, pools, their history and output; over `/` also hosts, rounds, settings and the log."""
    SUBMIT = "submit"
    CHANGE = "change"
    """Stop, update, restart, delete jobs and change their priority."""
    EXEC = "exec"
    COPY = "copy"
    FORWARD = "port-forward"
    SECRETS = "secrets"
    """Put and delete secrets, and see their names."""
    VOLUMES = "volumes"
    POOLS = "pools"
    """Define and remove pools below it, and give its own share to them."""
    HOSTS = "hosts"
    """Drain, cordon, resume, invite and remove hosts; maintenance and windows."""
    SETTINGS = "settings"
    LOCKDOWN = "lockdown"
    SNAPSHOTS = "snapshots"
    EXPORT = "export"
    AUDIT = "audit"
    ACCESS = "access"
    """Bind roles and make tokens."""
    GROW = "grow"
    """Add instances to one's own job; for runs alone."""


class Role(NamedTuple):
    """The verbs of a role, and those that it has for its holder's own jobs and secrets alone."""

    verbs: frozenset[Verb]
    own: frozenset[Verb] = frozenset()


_CHANGES = frozenset((Verb.CHANGE, Verb.EXEC, Verb.COPY, Verb.FORWARD, Verb.SECRETS, Verb.VOLUMES))
ROLES: dict[str, Role] = {
    "viewer": Role(frozenset((Verb.READ,))),
    "submitter": Role(frozenset((Verb.READ, Verb.SUBMIT)), _CHANGES),
    "pool-admin": Role(frozenset((Verb.READ, Verb.SUBMIT, Verb.POOLS)) | _CHANGES),
    "operator": Role(
        frozenset((Verb.READ, Verb.HOSTS, Verb.SETTINGS, Verb.LOCKDOWN, Verb.SNAPSHOTS, Verb.VOLUMES, Verb.EXPORT))
    ),
    "auditor": Role(frozenset((Verb.READ, Verb.EXPORT, Verb.AUDIT))),
    "admin": Role(frozenset(Verb) - {Verb.GROW}),
}
RUN = Role(frozenset(), frozenset((Verb.READ, Verb.GROW)))
"""The verbs that a token of a run has for the job of that run."""


def roles_with(verb: Verb, own: bool) -> list[str]:
    """The roles that allow a verb, `own`: on what is one's own."""
    return [name for name, role in ROLES.items() if verb in role.verbs or (own and verb in role.own)]
