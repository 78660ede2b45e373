"""Answers to who may what, and how bindings, tokens and lockdowns are shown."""

from base64 import b64encode
from typing import NamedTuple

from events.access import Binding
from events.roles import Verb, roles_with
from events.topics import POOLS
from paceline.client.access_models import (
    AccessCheck,
    AccessToken,
    PoolLockdown,
    RoleBinding,
    StoredBinding,
)
from projections.access.checks import judge
from projections.access.grants import Granted, Lockdown
from projections.access.identity import Identity
from projections.actor_names import actor_json
from projections.queries.access import BindingRow, TokenRow
from projections.record_json import at


class Target(NamedTuple):
    """The object of a check: its name as it was asked for, its pool, and whether it is the actor's."""

    name: str
    pool: str
    own: bool


def check_json(granted: Granted, who: Identity, verb: Verb, target: Target, now_ms: int) -> AccessCheck:
    """The answer to whether somebody may do something to an object."""
    verdict = judge(granted, who, verb, target.pool, target.own, now_ms)
    locked = lockdown_json(verdict.locked, granted.lockdowns[verdict.locked]) if verdict.locked else None
    roles = [] if verdict.is_allowed else roles_with(verb, target.own)
    if locked is not None:
        roles = roles_with(Verb.LOCKDOWN, False)
    return {
        "actor": who.subject,
        "groups": sorted(who.groups),
        "verb": verb.value,
        "object": target.name,
        "pool": target.pool,
        "own": target.own,
        "allowed": verdict.is_allowed,
        "binding": None if verdict.binding is None else role_binding(verdict.binding),
        "lockdown": locked,
        "roles": roles,
        "message": _message(who, verdict.is_allowed, verdict.binding, locked, roles, target),
    }


def _message(
    who: Identity,
    allowed: bool,
    binding: Binding | None,
    locked: PoolLockdown | None,
    roles: list[str],
    target: Target,
) -> str:
    if allowed and binding is None:
        return "the token of the cell may do everything" if who.is_cell else "reading needs no role in this cell"
    if allowed and binding is not None:
        return f"role {binding.role} over {binding.pool}, binding {binding.binding_id}"
    if locked is not None:
        what = "the cell" if locked["pool"] == "/" else locked["pool"]
        return f"{what} is locked down: {locked['reason'] or 'no reason was given'}"
    over = "/" if target.pool == "/" else f"{target.pool} or a pool above it"
    if not roles:
        return "no role allows it"
    return f"it needs one of these roles over {over}: {', '.join(roles)}"


def role_binding(binding: Binding) -> RoleBinding:
    """A binding as answers have it."""
    return {
        "binding_id": binding.binding_id,
        "position": f"{POOLS.name}:{binding.offset}",
        "subject": binding.subject,
        "group": binding.group,
        "role": binding.role,
        "pool": binding.pool,
        "from_at": at(binding.from_ms),
        "until_at": at(binding.until_ms),
    }


def binding_json(row: BindingRow) -> StoredBinding:
    """A binding with who bound it."""
    binding = role_binding(row.binding)
    return {**binding, "reason": row.reason, "actor": actor_json(row.actor), "at": at(row.at_ms)}


def token_json(row: TokenRow, now_ms: int) -> AccessToken:
    """A token as answers have it, at a time."""
    over = 0 < row.until_ms <= now_ms
    state = "REVOKED" if row.is_revoked else "EXPIRED" if over else "VALID"
    return {
        "token_id": row.token_id,
        "position": f"{POOLS.name}:{row.offset}",
        "subject": row.subject,
        "groups": sorted(row.groups),
        "public_key": b64encode(row.public_key).decode() if row.public_key else None,
        "state": "UNTRUSTED" if row.public_key and not row.vouches and state == "VALID" else state,
        "until_at": at(row.until_ms),
        "used_at": at(row.last_used_ms),
        "reason": row.reason,
        "actor": actor_json(row.actor),
        "at": at(row.at_ms),
    }


def lockdown_json(pool: str, lockdown: Lockdown) -> PoolLockdown:
    """A lockdown as answers have it."""
    return {
        "pool": pool,
        "reason": lockdown.reason,
        "since": at(lockdown.from_ms),
        "actor": actor_json(lockdown.actor),
    }
