"""Actors of facts, as answers have them, with what each name is worth (decision 100)."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, overload

from events.actors import API, CERTIFICATE, OF_RUN, RUN, SESSION, TOKEN, binding_of
from events.records.parts import Actor
from events.signatures import PublicKey, signer_of
from paceline.client.models import ActorName

CREDENTIAL_SHOWN = 16
"""Characters of what proves a name that stand beside it."""
_NAMELESS = {SESSION: "a web session", API: "an API call"}
_keys: ContextVar[Callable[[], Mapping[bytes, PublicKey]]] = ContextVar("keys", default=dict)
"""Tells the keys that vouch for names in what this request is answered; where there is no request, none do."""


def vouched_by(keys: Callable[[], Mapping[bytes, PublicKey]]) -> None:
    """Notes who tells the keys that vouch for names, for the rest of the request; asked where a fact is signed."""
    _keys.set(keys)


def is_verified(actor: Actor) -> bool:
    """Whether it is known for sure who it was: a key that counts has signed the fact. Signatures that aren't genuine
    were left out of what is shown (`without_forgery`).
    """
    key = _keys.get()().get(signer_of(actor)) if actor.signature else None
    return key is not None and key.vouches_for(actor)


def named(actor: Actor) -> str:
    """An actor in words, with what the name is worth: `ann (unverified)`, `ci (token t-3f2a)`, `run 3 of job/7`."""
    name = actor.subject or _NAMELESS.get(actor.how, "somebody")
    if not is_verified(actor):
        return f"{name} (unverified)"
    if actor.how == RUN and (run := OF_RUN.fullmatch(actor.subject)):
        return "run {2} of {0}/{1}".format(*run.groups())
    if actor.how == CERTIFICATE:
        return f"{name} (certificate)"
    return f"{name} (token {_short(actor.credential)})" if actor.how == TOKEN and actor.credential else name


def kept(actor: Actor) -> tuple[Any, ...]:
    """An actor as views keep it, which `from_kept` reads: of its signature, which was genuine, whose it is. What the
    name is worth is decided where it is shown.
    """
    parts = (actor.subject, actor.how, actor.address, actor.binding, actor.read_to, actor.credential, actor.reason)
    return (*parts, signer_of(actor).hex()) if actor.signature else parts


def from_kept(parts: Sequence[Any] | None) -> Actor | None:
    """The actor that views have kept."""
    if not parts:
        return None
    subject, how, address, binding, read_to, credential, reason, *signer = parts
    signature = bytes.fromhex("".join(signer))
    return Actor(subject, how, address, binding, read_to, credential, reason, signature)


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


def _short(credential: str) -> str:
    return credential if len(credential) <= CREDENTIAL_SHOWN else f"{credential[:CREDENTIAL_SHOWN]}…"
