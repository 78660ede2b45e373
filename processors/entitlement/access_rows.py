"""The rows of who may what: bindings, tokens and lockdowns, and the facts about them that wait for an answer."""

import msgspec

from events.records.pools import LockdownSet, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from processors.state.record_rows import row_of


class BoundRow(msgspec.Struct, frozen=True, array_like=True, tag="bound"):
    """A RoleBound."""

    command_id: str
    binding_id: str
    subject: str
    group: str
    role: str
    pool: str
    from_ms: int
    until_ms: int


class UnboundRow(msgspec.Struct, frozen=True, array_like=True, tag="unbound"):
    """A RoleUnbound."""

    command_id: str
    binding_id: str


class IssuedRow(msgspec.Struct, frozen=True, array_like=True, tag="issued"):
    """A TokenIssued."""

    command_id: str
    token_id: str
    subject: str
    groups: tuple[str, ...]
    token_hash: bytes
    public_key: bytes
    until_ms: int


class RevokedRow(msgspec.Struct, frozen=True, array_like=True, tag="revoked"):
    """A TokenRevoked."""

    command_id: str
    token_id: str


class LockedRow(msgspec.Struct, frozen=True, array_like=True, tag="locked"):
    """A LockdownSet."""

    command_id: str
    pool: str
    locked: bool
    reason: str


AccessFact = BoundRow | UnboundRow | IssuedRow | RevokedRow | LockedRow
AccessEvent = RoleBound | RoleUnbound | TokenIssued | TokenRevoked | LockdownSet
KINDS: dict[type[AccessEvent], type[AccessFact]] = {
    RoleBound: BoundRow,
    RoleUnbound: UnboundRow,
    TokenIssued: IssuedRow,
    TokenRevoked: RevokedRow,
    LockdownSet: LockedRow,
}


def access_fact(event: AccessEvent) -> AccessFact:
    """The row of a fact."""
    return row_of(KINDS[type(event)], event)


class BindingRow(msgspec.Struct, frozen=True, array_like=True):
    """A role that a subject or a group has over a pool and all below it; `offset`: that of its fact."""

    offset: int
    subject: str
    group: str
    role: str
    pool: str
    from_ms: int
    until_ms: int


class TokenRow(msgspec.Struct, frozen=True, array_like=True):
    """A token or a public key of a subject; `offset`: that of its fact."""

    offset: int
    subject: str
    groups: tuple[str, ...]
    token_hash: bytes
    public_key: bytes
    until_ms: int


class LockdownRow(msgspec.Struct, frozen=True, array_like=True):
    """The lockdown of a pool and all below it; `offset`: that of its fact."""

    offset: int
    reason: str


def binding_row(offset: int, fact: BoundRow) -> BindingRow:
    """The row of a binding by its fact."""
    return BindingRow(offset, fact.subject, fact.group, fact.role, fact.pool, fact.from_ms, fact.until_ms)


def token_row(offset: int, fact: IssuedRow) -> TokenRow:
    """The row of a token by its fact."""
    return TokenRow(offset, fact.subject, fact.groups, fact.token_hash, fact.public_key, fact.until_ms)
