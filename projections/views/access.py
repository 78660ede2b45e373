"""Folds who may what: what entitlement answered DONE of bindings, tokens and lockdowns, and what hosts join by.

What ends, ends here when it does in entitlement (`processors/entitlement/access.py`): by a fact, when something takes
its place, when its time is over and entitlement wakes for that, and when its pool is removed. Rows of what has ended
stay for a while, since facts name the binding that allowed them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, select

from events.codec import decode
from events.codes import Code
from events.host_certificates import Given, Invitation, refusal, void_before
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.hosts import HostCertified, HostInvited
from events.records.parts import Actor
from events.records.placement import HostRemoved
from events.records.pools import (
    CellConfigured,
    LockdownSet,
    PoolRemoved,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
    TokenUsed,
)
from events.records.rounds import TimerPassed
from events.signatures import CELL, Keys, PublicKey
from projections.actor_names import kept
from projections.views import tables
from projections.views.access_rows import (
    AccessFactRow,
    AccessTokenRow,
    CertificateRow,
    HostRemovalRow,
    InvitationRow,
    LockdownRow,
    RoleBindingRow,
    TokenUseRow,
)
from projections.views.cache import Cache, Rows
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import ACCESS_META, MetaRow, to_json

Answered = RoleBound | RoleUnbound | TokenIssued | TokenRevoked | LockdownSet
"""The facts that entitlement answers."""
KEPT_MS = 90 * 24 * 3600 * 1000
"""The time for which the row of what has ended is kept, by the time of entitlement."""


def vouching(connection: Connection) -> Keys:
    """The keys that vouch for names now."""
    of = tables.access_tokens.c
    rows = connection.execute(
        select(of.token_id, of.subject, of.public_key, of.until_ms, of.ended_ms).where(of.vouches == 1)
    ).all()
    keys = {row.public_key: PublicKey(*row[:4]) for row in rows if row.ended_ms == 0}
    return Keys(keys, has_root=any(row.subject == CELL for row in rows))


class Live(NamedTuple):
    """A binding or a token that hasn't ended: its row, its end, 0: it has none, and its pool."""

    offset: int
    until_ms: int
    pool: str = ""


class Holder:
    """The bindings or the tokens that haven't ended, by their names, and the rows of all; `but`: a condition in SQL of
    rows that stay.
    """

    def __init__(self, rows: Rows[Any], columns: tuple[Any, ...], but: str = "") -> None:
        self._rows = rows
        self._columns = columns
        self._but = but
        self.live: dict[str, Live] = {}
        self._first_ms = 0
        """No end is earlier; 0: none has one."""

    def restore(self, connection: Connection) -> None:
        """Finds again what hasn't ended."""
        table = self._columns[0].table
        query = select(*self._columns).where(table.c.ended_ms == 0)
        self.live = {key: Live(*values) for key, *values in connection.execute(query)}
        self._find_first()

    def put(self, key: str, live: Live, row: msgspec.Struct, now: int) -> None:
        """Something of this name holds from now on, and no other."""
        self.end((key,), now)
        self._rows.put(row)
        self.live[key] = live
        if live.until_ms:
            self._first_ms = min(self._first_ms or live.until_ms, live.until_ms)

    def end(self, keys: Iterable[str], now: int, **changes: Any) -> bool:
        """They hold no more; returns whether any did. `changes`: what else their rows say then."""
        any_ended = False
        for key in keys:
            live = self.live.pop(key, None)
            row = self._rows.change(live.offset) if live is not None else None
            if live is not None and row is not None:
                row.ended_ms = min(live.until_ms, now) if live.until_ms else now
                for name, value in changes.items():
                    setattr(row, name, value)
                any_ended = True
        if any_ended:
            self._rows.delete(f"ended_ms BETWEEN 1 AND ?{self._but}", [(now - KEPT_MS,)])
        return any_ended

    def end_of_pool(self, path: str, now: int) -> None:
        """Ends all of a pool."""
        self.end([key for key, live in self.live.items() if live.pool == path], now)

    def expire(self, now: int) -> bool:
        """Ends what is over by itself; returns whether anything was."""
        if not 0 < self._first_ms <= now:
            return False
        any_ended = self.end([key for key, live in self.live.items() if 0 < live.until_ms <= now], now)
        self._find_first()
        return any_ended

    def _find_first(self) -> None:
        self._first_ms = min((live.until_ms for live in self.live.values() if live.until_ms), default=0)


class AccessFold:
    """The fold of who may what. It sees answers before the fold of pools, which drops the facts about these."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        of = tables.bindings.c
        self._bindings = Holder(cache.bindings, (of.binding_id, of.offset, of.until_ms, of.pool))
        of = tables.access_tokens.c
        self._tokens = Holder(cache.access_tokens, (of.token_id, of.offset, of.until_ms), " AND vouches = 0")
        self._keys = Keys()
        self._changed = False
        self.folds: Folds = {PoolAnswered: self._answered, TimerPassed: self._passed, HostRemoved: self._removed}

    def restore(self, connection: Connection) -> None:
        """Finds again what hasn't ended."""
        self._bindings.restore(connection)
        self._tokens.restore(connection)
        self._keys = vouching(connection)

    def fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        """Folds a fact of the topics of pools and of hosts."""
        match event:
            case RoleBound() | RoleUnbound() | TokenIssued() | TokenRevoked() | LockdownSet():
                self._cache.access_facts.put(AccessFactRow(moment.offset, value))
            case TokenUsed():
                self._cache.token_uses.put(TokenUseRow(event.token_id, moment.at_ms))
            case HostInvited():
                self._invited(moment, event)
            case HostCertified():
                self._certified(moment, event)

    def take_changed(self) -> bool:
        """Whether since this was last asked something has changed by which requests are allowed or refused."""
        changed, self._changed = self._changed, False
        return changed

    def _answered(self, moment: RecordContext, event: PoolAnswered) -> None:
        offset, is_done = event.pools_offset, event.code == Code.DONE
        if (pending := self._cache.access_facts.get(offset)) is not None:
            self._cache.access_facts.remove(offset)
            if is_done:
                self._take(moment, offset, decode(pending.value))
        elif is_done and (about_pools := self._cache.pool_facts.get(offset)) is not None:
            fact = decode(about_pools.value)
            if isinstance(fact, PoolRemoved):
                self._pool_removed(moment, fact.path)
            elif isinstance(fact, CellConfigured):
                self._note_change(moment)

    def _take(self, moment: RecordContext, offset: int, fact: Event) -> None:
        now, cache = moment.now, self._cache
        self._note_change(moment)
        match fact:
            case RoleBound(binding_id=key):
                binding = RoleBindingRow(
                    *(offset, key, fact.subject, fact.group, fact.role, fact.pool, fact.from_ms, fact.until_ms),
                    *(fact.reason, _kept(fact.actor), now),
                )
                self._bindings.put(key, Live(offset, fact.until_ms, fact.pool), binding, now)
            case RoleUnbound(binding_id=key):
                self._bindings.end((key,), now)
            case TokenIssued(token_id=key):
                token = AccessTokenRow(
                    *(offset, key, fact.subject, to_json(fact.groups), fact.token_hash, fact.public_key),
                    *(fact.until_ms, fact.reason, _kept(fact.actor), now),
                )
                self._keys.take(fact, now)
                token.vouches = int(fact.public_key in self._keys.by_key)
                self._tokens.put(key, Live(offset, fact.until_ms), token, now)
            case TokenRevoked(token_id=key):
                self._keys.take(fact, now)
                self._tokens.end((key,), now, revoked=1)
            case LockdownSet(pool=pool, locked=True):
                cache.lockdowns.put(LockdownRow(pool, offset, fact.reason, _kept(fact.actor), now))
            case LockdownSet(pool=pool):
                cache.lockdowns.remove(pool)

    def _pool_removed(self, moment: RecordContext, path: str) -> None:
        self._note_change(moment)
        self._bindings.end_of_pool(path, moment.now)
        self._cache.lockdowns.remove(path)

    def _passed(self, moment: RecordContext, event: TimerPassed) -> None:
        if event.machine == "entitlement":
            have_ended = [each.expire(moment.now) for each in (self._bindings, self._tokens)]
            if any(have_ended):
                self._note_change(moment)

    def _note_change(self, moment: RecordContext) -> None:
        self._changed = True
        self._cache.meta.put(MetaRow(ACCESS_META, f"{moment.offset}:{moment.place}"))

    def _invited(self, moment: RecordContext, event: HostInvited) -> None:
        rows, now = self._cache.invitations, moment.at_ms
        rows.delete("until_ms < ?", [(now - KEPT_MS,)])
        who = _kept(event.actor)
        if rows.get(event.invite_id) is not None:  # the first counts
            return
        rows.put(InvitationRow(event.invite_id, event.host_id, moment.offset, event.until_ms, event.reason, who, now))

    def _certified(self, moment: RecordContext, event: HostCertified) -> None:
        """Whether the host was removed in between is told by what a certificate descends from, when it is read."""
        rows, invitations, now = self._cache.certificates, self._cache.invitations, moment.at_ms
        invitation = invitations.change(event.invite_id)
        renewed = rows.change((event.host_id, event.renews))
        if refusal(event, _invited_by(invitation), _given_by(renewed), now) is not None:
            return
        began = 0
        if event.renews and renewed is not None:
            renewed.next_key, began = event.key, renewed.began
        elif invitation is not None:
            invitation.serial, invitation.key, began = event.serial, event.key, invitation.offset
        times = (event.from_ms, event.until_ms)
        row = (event.host_id, event.serial, moment.offset, event.fingerprint, *times, event.invite_id, now)
        rows.put(CertificateRow(*row, event.renews, began))
        rows.delete("host_id = ? AND until_ms < ?", [(event.host_id, now)])

    def _removed(self, moment: RecordContext, event: HostRemoved) -> None:
        if before := void_before(event):
            self._cache.host_removals.put(HostRemovalRow(event.host_id, before))


def _invited_by(row: InvitationRow | None) -> Invitation | None:
    return None if row is None else Invitation(row.host_id, row.offset, row.until_ms, row.key)


def _given_by(row: CertificateRow | None) -> Given | None:
    return None if row is None else Given(row.host_id, row.began, row.until_ms, row.next_key)


def _kept(actor: Actor | None) -> str:
    return "" if actor is None else to_json(kept(actor))
