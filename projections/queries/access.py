"""Queries of access: bindings, tokens, lockdowns, invitations and certificates at a state of the views."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from events.access import Binding
from events.hashed_names import NameHashes, is_hashed
from events.records.parts import Actor
from events.signatures import CELL, PublicKey
from events.topics import POOLS
from projections.access.grants import Granted, IssuedToken, Lockdown
from projections.actor_names import from_kept
from projections.queries.resources import settings_of
from projections.views import tables
from projections.views.access import vouching
from projections.views.reader import reached
from projections.views.rows import ACCESS_META, JobRow

_parts = msgspec.json.Decoder(list[Any])
NOTHING = Granted()
_groups = msgspec.json.Decoder(list[str])


class BindingRow(NamedTuple):
    """A binding with who bound it, why and when."""

    binding: Binding
    reason: str
    actor: Actor | None
    at_ms: int


class TokenRow(NamedTuple):
    """A token or a public key of a subject, which may be over by itself. `last_used_ms`: within an hour of its last
    use; 0: it wasn't used.
    """

    token_id: str
    offset: int
    subject: str
    groups: frozenset[str]
    until_ms: int
    is_revoked: bool
    last_used_ms: int
    at_ms: int
    reason: str
    actor: Actor | None
    token_hash: bytes
    public_key: bytes
    vouches: bool


class InvitationRow(NamedTuple):
    """An invitation of a host. `serial`: of the certificate that was given for it; empty: none was. `is_void`: the host
    was removed since.
    """

    invite_id: str
    host_id: str
    offset: int
    until_ms: int
    reason: str
    actor: Actor | None
    at_ms: int
    serial: str
    is_void: bool

    def is_open(self, now_ms: int) -> bool:
        """Whether an agent may still join by it."""
        return not self.serial and not self.is_void and now_ms < self.until_ms


class CertificateRow(NamedTuple):
    """A certificate that the CA of the cell gave a host. `renews`: the serial number of that which it renews, empty:
    none; `is_revoked`: the host was removed after the invitation from which it descends.
    """

    host_id: str
    serial: str
    offset: int
    fingerprint: str
    from_ms: int
    until_ms: int
    invite_id: str
    at_ms: int
    renews: str
    is_revoked: bool


def granted(connection: Connection, before: Granted = NOTHING) -> Granted:
    """All by which requests are allowed or refused; `before`: what was found before, which is returned where nothing
    has changed since.
    """
    query = select(tables.meta.c.value).where(tables.meta.c.name == ACCESS_META)
    changed_by: str = connection.execute(query).scalar() or ""
    if changed_by and changed_by == before.changed_by:
        return before
    stored, settings = tokens(connection), settings_of(connection)
    # Of tokens with one hash those that hold come last, and stay.
    hashes = sorted((each for each in stored if each.token_hash), key=lambda each: not each.is_revoked)
    issued = {
        each.token_hash: IssuedToken(each.token_id, each.subject, each.groups, each.until_ms, each.is_revoked)
        for each in hashes
    }
    return Granted(
        bindings=tuple(each.binding for each in bindings(connection)),
        tokens=issued,
        access=settings.access,
        hashes_names=settings.names == "hashed",
        calls_per_s=settings.calls_per_s,
        streams_per_actor=settings.streams_per_actor,
        lockdowns=lockdowns(connection),
        keys=vouching(connection).by_key,
        read_to=reached(connection).get(POOLS.name, -1),
        changed_by=changed_by,
    )


def bindings(connection: Connection) -> list[BindingRow]:
    """The bindings that haven't ended, by their names."""
    of = tables.bindings.c
    columns = (of.binding_id, of.offset, of.subject, of.group, of.role, of.pool, of.from_ms, of.until_ms)
    query = select(of.reason, of.actor, of.at_ms, *columns).where(of.ended_ms == 0).order_by(of.binding_id)
    return [
        BindingRow(Binding(*binding), reason, _actor(actor), at_ms)
        for reason, actor, at_ms, *binding in connection.execute(query)
    ]


def ended(connection: Connection, most: int) -> list[tuple[BindingRow, int]]:
    """The bindings that ended last, and when each did."""
    of = tables.bindings.c
    columns = (of.binding_id, of.offset, of.subject, of.group, of.role, of.pool, of.from_ms, of.until_ms)
    query = select(of.reason, of.actor, of.at_ms, of.ended_ms, *columns).where(of.ended_ms != 0)
    rows = connection.execute(query.order_by(of.ended_ms.desc(), of.offset.desc()).limit(most))
    return [
        (BindingRow(Binding(*binding), reason, _actor(actor), at_ms), ended_ms)
        for reason, actor, at_ms, ended_ms, *binding in rows
    ]


def tokens(connection: Connection) -> list[TokenRow]:
    """The tokens and keys, by their names and ages: for a while also those that were revoked or are over."""
    of, use = tables.access_tokens.c, tables.token_uses.c
    joined = tables.access_tokens.outerjoin(tables.token_uses, use.token_id == of.token_id)
    query = select(tables.access_tokens, use.used_ms).select_from(joined).order_by(of.token_id, of.offset)
    return [
        TokenRow(
            *(row.token_id, row.offset, row.subject, frozenset(_groups.decode(row.groups)), row.until_ms),
            *(bool(row.revoked), _last_use(row), row.at_ms, row.reason, _actor(row.actor)),
            *(row.token_hash, row.public_key, bool(row.vouches)),
        )
        for row in connection.execute(query)
    ]


def lockdowns(connection: Connection) -> dict[str, Lockdown]:
    """The lockdowns by their pools, that of the cell as `/`."""
    rows = connection.execute(select(tables.lockdowns))
    return {row.pool: Lockdown(row.reason, row.from_ms, _actor(row.actor)) for row in rows}


def invitations(connection: Connection) -> list[InvitationRow]:
    """The invitations of hosts, by their ages: for a while also those that are over."""
    query = _joined(tables.invitations, tables.invitations.c.offset).order_by(tables.invitations.c.offset)
    return [
        InvitationRow(
            *(row.invite_id, row.host_id, row.offset, row.until_ms, row.reason, _actor(row.actor), row.at_ms),
            *(row.serial, row.is_void),
        )
        for row in connection.execute(query)
    ]


def certificates(connection: Connection, host_id: str = "") -> list[CertificateRow]:
    """The certificates of hosts, or of one, by hosts and ages; of those that are over the last of a host, at least."""
    of = tables.certificates.c
    query = _joined(tables.certificates, of.began).order_by(of.host_id, of.offset)
    query = query.where(of.host_id == host_id) if host_id else query
    return [
        CertificateRow(
            *(row.host_id, row.serial, row.offset, row.fingerprint, row.from_ms, row.until_ms, row.invite_id),
            *(row.at_ms, row.renews, row.is_void),
        )
        for row in connection.execute(query)
    ]


def is_own(job: JobRow, subject: str, names: NameHashes, keys: Mapping[bytes, PublicKey]) -> bool:
    """Whether a subject has submitted a job, which gives it more rights there: names that nobody has proven don't.
    `names`: as the cell hashes them; `keys`: those that vouch for names.
    """
    name = names.of(subject) if is_hashed(job.submitter) else subject
    key = keys.get(job.submitter_key)
    return subject != "" and job.submitter == name and key is not None and key.subject in (CELL, subject)


def _joined(of: Table, began: ColumnElement[int]) -> Select[Any]:
    """The rows of a table of what hosts join by, which `began` by an invitation at an offset; `is_void`: the host was
    removed after that.
    """
    removal = tables.host_removals
    is_void = func.coalesce(began < removal.c.offset, False).label("is_void")
    return select(*of.c, is_void).select_from(of.outerjoin(removal, removal.c.host_id == of.c.host_id))


def _last_use(row: Any) -> int:
    """The last use of a token; names may have belonged to others before and after."""
    used_ms: int = row.used_ms or 0
    return used_ms if used_ms >= row.at_ms and not 0 < row.ended_ms < used_ms else 0


def _actor(stored: str) -> Actor | None:
    return from_kept(_parts.decode(stored)) if stored else None
