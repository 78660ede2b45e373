"""The page of access: roles by whom they are held, tokens, lockdowns, and what of it has ended."""

from collections.abc import Sequence
from typing import TypeVar

from events.access import EVERYBODY
from events.topics import POOLS
from projections.access.limits import limits
from projections.queries import access
from projections.queries.access import BindingRow, TokenRow
from projections.queries.resources import settings_of
from projections.ui.lockdowns import lockdowns_of, said_by
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

SHOWN = 500
ENDED_SHOWN = 50
T = TypeVar("T")


def load(scene: Scene) -> PageValues:
    """Loads what a reader may see of it; limited ones see no tokens."""
    cell = scene.first()
    connection, now_ms = cell.connection, scene.now_ms
    settings = settings_of(connection)
    bindings = [_binding(each) for each in access.bindings(connection)]
    tokens = access.tokens(connection)
    over = [each for each in tokens if _token_state(each, now_ms) != "valid"]
    return {
        "settings": settings,
        "lockdowns": lockdowns_of(scene),
        "bindings": _some(sorted(bindings, key=lambda each: (each["pool"], each["role"], each["who"]))),
        "tokens": _some([_token(each, now_ms) for each in tokens if each not in over]),
        "ended": [_binding(row) | {"ended_ms": at_ms} for row, at_ms in access.ended(connection, ENDED_SHOWN)],
        "over": [_token(each, now_ms) for each in over[-ENDED_SHOWN:]],
        "limited": limits() is not None,
        "now_ms": now_ms,
        "cell_number": cell.context.cell,
    }


def _binding(row: BindingRow) -> PageValues:
    binding = row.binding
    group = "everybody" if binding.group == EVERYBODY else f"group {binding.group}"
    return {
        "binding_id": binding.binding_id,
        "who": binding.subject or group,
        "role": binding.role,
        "pool": binding.pool,
        "from_ms": binding.from_ms,
        "until_ms": binding.until_ms,
        "position": f"{POOLS.name}:{binding.offset}",
        "at_ms": row.at_ms,
        "reason": row.reason,
        "by": said_by(row.actor),
    }


def _token(row: TokenRow, now_ms: int) -> PageValues:
    return {
        "token_id": row.token_id,
        "subject": row.subject,
        "groups": sorted(row.groups),
        "signs": bool(row.public_key),
        "until_ms": row.until_ms,
        "used_ms": row.last_used_ms,
        "state": _token_state(row, now_ms),
        "position": f"{POOLS.name}:{row.offset}",
        "at_ms": row.at_ms,
        "reason": row.reason,
        "by": said_by(row.actor),
    }


def _token_state(row: TokenRow, now_ms: int) -> str:
    if row.is_revoked:
        return "revoked"
    return "expired" if row.until_ms and row.until_ms <= now_ms else "valid"


def _some(rows: Sequence[T]) -> PageValues:
    """The first rows, and how many there are."""
    return {"rows": rows[:SHOWN], "count": len(rows)}


PAGES = (Page("/access", "access.html", load, "Access"),)
