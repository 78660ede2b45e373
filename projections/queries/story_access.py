"""The events of access in sentences: roles, tokens, lockdowns, and how hosts came to their certificates."""

from collections.abc import Callable
from typing import Any

from events.resources import Kinds
from projections.queries.story_parts import Part, because, host, pool
from projections.record_json import at


def _until(event: Any) -> str:
    return f", until {at(event.until_ms)}" if event.until_ms else ""


def _bound(event: Any, _: Kinds) -> list[Part]:
    who = event.subject or f"group {event.group}"
    return [
        f"{who} becomes {event.role} of ",
        pool(event.pool),
        f" ({event.binding_id}{_until(event)}){because(event)}",
    ]


def _locked(event: Any, _: Kinds) -> list[Part]:
    return [pool(event.pool), f" {'locked down' if event.locked else 'open for writes again'}{because(event)}"]


def _issued(event: Any, _: Kinds) -> list[Part]:
    what = "key" if event.public_key else "token"
    return [f"{what} {event.token_id} made for {event.subject}{_until(event)}{because(event)}"]


SENTENCES: dict[str, Callable[[Any, Kinds], list[Part]]] = {
    "RoleBound": _bound,
    "RoleUnbound": lambda event, _: [f"binding {event.binding_id} taken away{because(event)}"],
    "TokenIssued": _issued,
    "TokenRevoked": lambda event, _: [f"token {event.token_id} revoked{because(event)}"],
    "TokenUsed": lambda event, _: [f"token {event.token_id} used"],
    "LockdownSet": _locked,
    "HostInvited": lambda event, _: [host(event.host_id), f" invited to join{_until(event)}{because(event)}"],
    "HostCertified": lambda event, _: [host(event.host_id), f" got certificate {event.serial}{_until(event)}"],
}
