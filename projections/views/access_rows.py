"""Rows of access: bindings, tokens, lockdowns, invitations and certificates of hosts.

Each column has one owning topic, see `rows.py`: bindings, tokens and lockdowns are entitlement's, the last use of a
token is of the topic of pools; what hosts join by is of the topic of hosts, what ends that before its time placement's.
`offset` is that of the fact, `actor` who wrote it, as `actor_names.kept` has it, in JSON; empty: not said.
"""

import msgspec


class AccessFactRow(msgspec.Struct):
    """A fact about who may what that isn't answered yet; `value` is the encoded record."""

    offset: int
    value: bytes


class RoleBindingRow(msgspec.Struct):
    """A binding. `ended_ms` is when it was unbound, replaced, ended by itself or with its pool; 0: it hasn't."""

    offset: int
    binding_id: str
    subject: str
    group: str
    role: str
    pool: str
    from_ms: int
    until_ms: int
    reason: str
    actor: str
    at_ms: int
    ended_ms: int = 0


class AccessTokenRow(msgspec.Struct):
    """A token, by its hash, or a public key of a subject, which `vouches` for names where it counts. `ended_ms` is when
    it was revoked or ended by itself; 0: it hasn't.
    """

    offset: int
    token_id: str
    subject: str
    groups: str
    token_hash: bytes
    public_key: bytes
    until_ms: int
    reason: str
    actor: str
    at_ms: int
    ended_ms: int = 0
    revoked: int = 0
    vouches: int = 0


class TokenUseRow(msgspec.Struct):
    """The last use of a token, as an API noted it."""

    token_id: str
    used_ms: int


class LockdownRow(msgspec.Struct):
    """The lockdown of a pool and all below it."""

    pool: str
    offset: int
    reason: str
    actor: str
    from_ms: int


class InvitationRow(msgspec.Struct):
    """An invitation of a host; `serial` is that of the certificate that was given for it, `key` the hash of its key,
    empty: none was yet.
    """

    invite_id: str
    host_id: str
    offset: int
    until_ms: int
    reason: str
    actor: str
    at_ms: int
    serial: str = ""
    key: str = ""


class CertificateRow(msgspec.Struct):
    """A certificate of a host by the CA of the cell. `renews`: the serial number of that which it renews, empty: none;
    `began`: the offset of the invitation from which it descends; `next_key`: the hash of the key of that which renews
    it, empty: none does.
    """

    host_id: str
    serial: str
    offset: int
    fingerprint: str
    from_ms: int
    until_ms: int
    invite_id: str
    at_ms: int
    renews: str = ""
    began: int = 0
    next_key: str = ""


class HostRemovalRow(msgspec.Struct):
    """A host was removed by an operator; `offset`: what descends from its invitations before that is void."""

    host_id: str
    offset: int
