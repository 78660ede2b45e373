"""Writes about who may what: facts that are checked by the views, answered by entitlement, and told to each cell."""

import secrets
import uuid
from base64 import b64decode
from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.access import EVERYBODY
from events.actors import SUBJECT_MAX
from events.bounds import LABELS_MAX, NAME, TIME_MAX_MS, WORD_MAX
from events.codes import IN_EFFECT, Code
from events.nearest import meant
from events.pool_paths import ROOT
from events.records.pools import LockdownSet, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from events.roles import ROLES
from events.signatures import CELL, KEY_BYTES
from events.time_units import span_s
from events.topics import POOLS
from events.unsafe_text import name_fault
from paceline.client.json_type import Json
from paceline.client.proof import ISSUED
from projections.access.grants import now_ms
from projections.api.commands import Command
from projections.api.context import Context
from projections.api.pools import DECIDED_S
from projections.api.problems import Problem
from projections.asked_values import time_ms
from projections.queries import access, pool_tree
from projections.queries.known_names import nearest_pool

Fact = RoleBound | RoleUnbound | TokenIssued | TokenRevoked | LockdownSet
Subject = Annotated[str, Field(max_length=SUBJECT_MAX)]
Group = Annotated[str, Field(min_length=1, max_length=WORD_MAX)]


def _is_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("must have 1 to 128 letters, digits, dots, underscores and dashes")
    return text


Id = Annotated[str, AfterValidator(_is_name)]


class Bind(Command):
    """A role that is to be bound; times are RFC 3339."""

    binding_id: Id | None = None
    subject: Subject = ""
    group: Annotated[str, Field(max_length=WORD_MAX)] = ""
    role: str
    pool: str
    from_at: str | None = None
    until_at: str | None = None

    def to_fact(self, connection: Connection) -> RoleBound:
        """The fact. Raises a problem."""
        if bool(self.subject) == bool(self.group):
            raise _invalid("/subject", "name either a subject or a group, not both")
        _must_be_seen("/subject", self.subject, SUBJECT_MAX)
        _must_be_seen("/group", self.group, WORD_MAX)
        must_have_role(self.role)
        must_have_pool(connection, self.pool)
        from_ms, until_ms = _time("/from_at", self.from_at), _time("/until_at", self.until_at)
        if until_ms and until_ms <= max(from_ms, now_ms()):
            raise _invalid("/until_at", "must be later than from_at, and not past")
        return RoleBound(
            command_id=self.command_id or uuid.uuid4().hex,
            binding_id=self.binding_id or f"b-{secrets.token_hex(4)}",
            subject=self.subject,
            group=self.group,
            role=self.role,
            pool=self.pool,
            from_ms=from_ms,
            until_ms=until_ms,
            reason=self.reason,
        )


class Issue(Command):
    """A token that is to be made. `ttl`: such as 30d, 0 for a token that holds until it is revoked. `role` and `pool`:
    what is bound to the subject until the token ends. `public_key`: of a producer that signs its facts itself, an
    Ed25519 key in base64; no token is made then.
    """

    token_id: Id | None = None
    subject: Annotated[str, Field(min_length=1, max_length=SUBJECT_MAX)]
    groups: Annotated[list[Group], Field(max_length=LABELS_MAX, default_factory=list)]
    ttl: str = "30d"
    role: str = ""
    pool: str = ""
    public_key: Annotated[str, Field(max_length=64)] = ""

    def to_facts(self, connection: Connection) -> "tuple[RoleBound | None, TokenIssued, str]":
        """The facts and the text of the token. Raises a problem."""
        _must_be_seen("/subject", self.subject, SUBJECT_MAX)
        for number, group in enumerate(self.groups):
            _must_be_seen(f"/groups/{number}", group, WORD_MAX)
        token_id = self.token_id or f"t-{secrets.token_hex(4)}"
        if self.role and token_id in (each.binding.binding_id for each in access.bindings(connection)):
            raise _invalid("/token_id", f"there is a binding {token_id}: choose another id, or unbind it first")
        seconds = 0.0 if self.ttl == "0" else span_s(self.ttl)
        if seconds is None or seconds < 0 or now_ms() + seconds * 1000 > TIME_MAX_MS:
            raise _invalid("/ttl", f"{self.ttl[:40]!r} is no time with a unit, such as 12h or 30d; 0: without end")
        until_ms = int(now_ms() + seconds * 1000) if seconds else 0
        if bool(self.role) != bool(self.pool):
            raise _invalid("/pool", "name both a role and the pool for which it is; / is the whole cell")
        if EVERYBODY in self.groups:
            raise _invalid("/groups", f"all are in {EVERYBODY}; no token is needed for it")
        bound = None
        if self.role:
            must_have_role(self.role)
            must_have_pool(connection, self.pool)
            bound = RoleBound(
                command_id=uuid.uuid4().hex,
                binding_id=token_id,
                subject=self.subject,
                role=self.role,
                pool=self.pool,
                until_ms=until_ms,
                reason=self.reason,
            )
        text = "" if self.public_key else f"{ISSUED}{token_id}_{secrets.token_urlsafe(32)}"
        issued = TokenIssued(
            command_id=self.command_id or uuid.uuid4().hex,
            token_id=token_id,
            subject=self.subject,
            groups=tuple(self.groups),
            token_hash=sha256(text.encode()).digest() if text else b"",
            public_key=self._public_key(),
            until_ms=until_ms,
            reason=self.reason,
        )
        return bound, issued, text

    def _public_key(self) -> bytes:
        """The key of a producer; empty: none is named. Raises a problem."""
        if self.public_key and self.subject == CELL:
            raise _invalid("/subject", f"the keys of {CELL} are its own; name the producer")
        try:
            key = b64decode(self.public_key, validate=True)
        except ValueError:
            key = b"?"
        if len(key) not in (0, KEY_BYTES):
            raise _invalid("/public_key", f"an Ed25519 key has {KEY_BYTES} bytes, in base64")
        return key


def must_have_role(role: str) -> None:
    """Raises a problem where there is no such role."""
    if role not in ROLES:
        near = meant(role, ROLES)
        raise _invalid("/role", f"there is no role {role[:40]}{near}; there are {', '.join(ROLES)}")


def must_have_pool(connection: Connection, path: str) -> None:
    """Raises a problem where there is no such pool."""
    if path != ROOT and not pool_tree.pool_rows(connection, path):
        fault = f"there is no pool {path[:200]}{nearest_pool([connection], path)}"
        raise Problem(422, Code.NO_SUCH_POOL, fault, [("/pool", fault)])


async def written(context: Context, fact: Fact, wait: float) -> Json:
    """Writes a fact and waits for its answer; tells the other cells once it is done, but of lockdowns, which are of one
    cell. Raises a problem where it is refused.
    """
    offset = await run_in_threadpool(context.append, fact, ROOT)
    position = f"{POOLS.name}:{offset}"
    body: Json = {"command_id": fact.command_id, "position": position}
    others = context.others if not isinstance(fact, LockdownSet) else []
    answer = await context.answer(POOLS.name, offset, max(wait, DECIDED_S) if others else wait)
    if answer is None and others:
        detail = f"cell {context.cell} has not answered yet, so no other cell was told; send it again"
        raise Problem(503, "NOT_REACHED", detail, position=position, headers={"Retry-After": "1"})
    if answer is None:
        return body
    if answer.code not in IN_EFFECT:
        status = 404 if answer.code in (Code.NO_SUCH_BINDING, Code.NO_SUCH_TOKEN) else 422
        raise Problem(status, answer.code, answer.message, position=position)
    if others:
        await run_in_threadpool(context.append_to_others, fact, ROOT)
    return body | {"code": answer.code, "message": answer.message}


def _time(pointer: str, text: str | None) -> int:
    ms = time_ms(text) if text else 0
    if ms is None or ms > TIME_MAX_MS:
        raise _invalid(pointer, f"{str(text)[:40]!r} is no time, such as 2026-08-21T10:44:07Z")
    return ms


def _must_be_seen(pointer: str, name: str, most: int) -> None:
    """Raises a problem where a name has characters that nobody sees; none is named by an empty one."""
    if name and (fault := name_fault("it", name, most)):
        raise _invalid(pointer, fault)


def _invalid(pointer: str, fault: str) -> Problem:
    errors: list[Any] = [(pointer, fault)]
    return Problem(422, Code.INVALID_ACCESS, fault, errors)
