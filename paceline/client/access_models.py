"""Answers about who may what: bindings, tokens, lockdowns, checks."""

from typing import NotRequired, TypedDict

from paceline.client.models import ActorName


class RoleBinding(TypedDict):
    """A role that a subject or a group has over a pool and all below it; `/` is the cell. `position`: of its fact."""

    binding_id: str
    position: str
    subject: str
    group: str
    role: str
    pool: str
    from_at: str | None
    until_at: str | None


class StoredBinding(RoleBinding):
    """The same with who bound it, when and why."""

    reason: str
    actor: ActorName | None
    at: str | None


class BindingsPage(TypedDict):
    """A page of bindings, by id."""

    bindings: list[StoredBinding]
    next_page_token: str


class AccessToken(TypedDict):
    """A token, without its text, or a public key (in base64) that vouches for its subject, which is UNTRUSTED where
    nobody vouches for a key that says to be the cell's. `used_at`: within an hour of its last use.
    """

    token_id: str
    position: str
    subject: str
    groups: list[str]
    public_key: str | None
    state: str
    until_at: str | None
    used_at: str | None
    reason: str
    actor: ActorName | None
    at: str | None


class TokensPage(TypedDict):
    """A page of tokens, by id and age."""

    tokens: list[AccessToken]
    next_page_token: str


class PoolLockdown(TypedDict):
    """A lockdown of a pool and all below it; `/` is the cell."""

    pool: str
    reason: str
    since: str | None
    actor: ActorName | None


class LockdownList(TypedDict):
    """The lockdowns of a cell, by pool."""

    lockdowns: list[PoolLockdown]


class AccessAnswer(TypedDict):
    """The answer to a write about access. `code` is there once it is decided; `token`: the text of a new token, which
    is told this once.
    """

    command_id: str
    position: str
    code: NotRequired[str]
    message: NotRequired[str]
    binding_id: NotRequired[str]
    token_id: NotRequired[str]
    token: NotRequired[str]
    until_at: NotRequired[str | None]


class AccessDryRun(TypedDict):
    """The answer to a dry run that would be written."""

    dry_run: bool
    message: str


class AccessCheck(TypedDict):
    """Whether an actor may do something: the binding that allows it, else the roles that would. `own`: the object is
    the actor's; `lockdown`: what refuses it for now.
    """

    actor: str
    groups: list[str]
    verb: str
    object: str
    pool: str
    own: bool
    allowed: bool
    binding: RoleBinding | None
    lockdown: PoolLockdown | None
    roles: list[str]
    message: str


class WhoAmI(TypedDict):
    """The identity of who asks, how it is known, and its roles. `reads`: the topmost pools that it may read, null: all
    of them.
    """

    subject: str
    how: str
    credential: str
    groups: list[str]
    is_cell: bool
    access: str
    reads: list[str] | None
    bindings: list[RoleBinding]
