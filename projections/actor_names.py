"""Actors of facts, as answers have them."""

from collections.abc import Sequence
from typing import Any, overload

from events.actors import binding_of, is_verified, named
from events.records.parts import Actor
from paceline.client.models import ActorName


def kept(actor: Actor) -> tuple[Any, ...]:
    """An actor as views keep it, which `from_kept` reads. What its name is worth is decided where it is shown."""
    return (actor.subject, actor.how, actor.address, actor.binding, actor.read_to, actor.credential, actor.reason)


def from_kept(parts: Sequence[Any] | None) -> Actor | None:
    """The actor that views have kept."""
    return Actor(*parts) if parts else None


@overload
def actor_json(actor: Actor) -> ActorName: ...
@overload
def actor_json(actor: Actor | None) -> ActorName | None: ...
def actor_json(actor: Actor | None) -> ActorName | None:
    """An actor as answers have it: `name` is for people, `binding` the position of what allowed the fact."""
    if actor is None:
        return None
    return {
        "name": named(actor),
        "subject": actor.subject,
        "how": actor.how,
        "credential": actor.credential,
        "binding": binding_of(actor) or None,
        "read_to": actor.read_to,
        "address": actor.address,
        "reason": actor.reason,
        "verified": is_verified(actor),
    }
