"""Signatures of facts: proof that the actor of a fact is who it says (decision 100).

What is signed is a canonical form of the fact: JSON with sorted keys, without fields that have their defaults, so that
a fact which an earlier or a later schema wrote has the same. `Actor.signature` is the public key and an Ed25519
signature, so that a fact alone shows whether it is genuine. Whether the key counts, the log says:
`TokenIssued.public_key`.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from events.actors import PROVEN
from events.codec import decode
from events.records.base import Event
from events.records.parts import Actor
from events.records.pools import PoolDefined, PoolRemoved, RoleBound, RoleUnbound, TokenIssued, TokenRevoked

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

E = TypeVar("E", bound=Event)

CELL = "cell"
"""The subject of the cell's own keys: they vouch for any actor. Such a key counts if it is the first of the log, or
signed by one that counts.
"""
VERIFIED, UNVERIFIED = "verified", "unverified"
FORM = b"paceline fact 1\n"
ID_BYTES, KEY_BYTES, SIGNATURE_BYTES = 8, 32, 64
OF_ALL_CELLS = (PoolDefined, PoolRemoved, RoleBound, RoleUnbound, TokenIssued, TokenRevoked)
"""Facts that are written to each cell: they are signed once for all."""


class PublicKey(NamedTuple):
    """A key that the log has told of. `until_ms`: until when it vouches, 0: until it is revoked."""

    token_id: str
    subject: str
    key: bytes
    until_ms: int = 0

    def vouches_for(self, actor: Actor) -> bool:
        """Whether a signature by it proves an actor: keys of the cell do of anyone, others of their own subject."""
        if actor.how not in PROVEN:
            return False
        return self.subject == CELL or (self.subject, self.token_id) == (actor.subject, actor.credential)


def key_id(public_key: bytes) -> bytes:
    """The part of a hash of a public key that names it."""
    return sha256(public_key).digest()[:ID_BYTES]


def content(event: Event, cell: int) -> bytes:
    """The bytes that are signed: all of a fact but its signature, with its topic and its cell."""
    value: dict[str, Any] = {"record": type(event).__name__, "topic": event.topic, "fact": _canonical(event)}
    if not isinstance(event, OF_ALL_CELLS):
        value["cell"] = cell
    return FORM + msgspec.json.encode(value, order="sorted")


def sign(event: E, cell: int, key: "Ed25519PrivateKey") -> E:
    """The fact with a signature. Raises `ValueError` where it has no actor, of whom that would be proof."""
    actor: Actor | None = getattr(event, "actor", None)
    if actor is None:
        raise ValueError(f"{type(event).__name__} has no actor to vouch for")
    signature = key.public_key().public_bytes_raw() + key.sign(content(event, cell))
    return msgspec.structs.replace(event, actor=msgspec.structs.replace(actor, signature=signature))


def signer_of(actor: Actor | None) -> bytes:
    """The public key by which a fact of an actor says that it was signed; empty: it isn't signed."""
    return b"" if actor is None else actor.signature[:KEY_BYTES]


def is_genuine(event: Event, cell: int) -> bool:
    """Whether a fact was signed, for a cell, by the owner of the key that it names."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    actor: Actor | None = getattr(event, "actor", None)
    if actor is None or len(actor.signature) != KEY_BYTES + SIGNATURE_BYTES:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(actor.signature[:KEY_BYTES])
        key.verify(actor.signature[KEY_BYTES:], content(event, cell))
    except (InvalidSignature, ValueError):
        return False
    return True


def without_forgery(event: E, cell: int) -> E:
    """The fact; where its signature isn't genuine, without it."""
    actor: Actor | None = getattr(event, "actor", None)
    if actor is None or not actor.signature or is_genuine(event, cell):
        return event
    return msgspec.structs.replace(event, actor=msgspec.structs.replace(actor, signature=b""))


def decode_signed(data: bytes, cell: int) -> Event:
    """The event that `encode` has written; without its signature where that isn't genuine. Raises `CodecError`."""
    return without_forgery(decode(data), cell)


class Keys:
    """The keys that vouch for facts, folded from the facts of paceline.pools in their order."""

    def __init__(self, by_key: Mapping[bytes, PublicKey] | None = None, has_root: bool = False) -> None:
        self.by_key: dict[bytes, PublicKey] = dict(by_key or {})
        self.has_root = has_root or any(each.subject == CELL for each in self.by_key.values())
        """Whether there has been a key of the cell."""

    def take(self, event: Event, at_ms: int) -> None:
        """Learns of a key, or of its end, from a fact that was written at a time."""
        if isinstance(event, TokenIssued) and event.public_key:
            if event.subject == CELL and not self._counts(event, at_ms):
                return
            key = PublicKey(event.token_id, event.subject, event.public_key, event.until_ms)
            self.by_key.setdefault(event.public_key, key)
            self.has_root = self.has_root or event.subject == CELL
        elif isinstance(event, TokenRevoked):
            self.by_key = {at: each for at, each in self.by_key.items() if each.token_id != event.token_id}

    def standing(self, event: Event, cell: int, at_ms: int) -> str:
        """The worth of the actor of a fact that was written at a time: `VERIFIED`, or `UNVERIFIED`."""
        actor: Actor | None = getattr(event, "actor", None)
        if actor is None or not actor.signature or actor.how not in PROVEN:
            return UNVERIFIED
        key = self._signer(event, cell, at_ms)
        return VERIFIED if key is not None and key.vouches_for(actor) else UNVERIFIED

    def _signer(self, event: Event, cell: int, at_ms: int) -> PublicKey | None:
        """The key that has signed a fact."""
        key = self.by_key.get(signer_of(getattr(event, "actor", None)))
        if key is None or (key.until_ms and at_ms >= key.until_ms):
            return None
        return key if is_genuine(event, cell) else None

    def _counts(self, event: TokenIssued, at_ms: int) -> bool:
        """Whether a key of the cell is one: the first has signed itself, each later one is signed by one before it."""
        if not self.has_root:
            return signer_of(event.actor) == event.public_key and is_genuine(event, 0)
        signer = self._signer(event, 0, at_ms)
        return signer is not None and signer.subject == CELL


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields of a kind of records, with their defaults."""
    fields = msgspec.structs.fields(kind)
    return tuple(
        (each.name, each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default)
        for each in fields
    )


def _canonical(value: Any) -> Any:
    if isinstance(value, Actor) and value.signature:
        value = msgspec.structs.replace(value, signature=b"")
    if isinstance(value, msgspec.Struct):
        pairs = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
        return {
            name: _canonical(each) for name, each, default in pairs if default is msgspec.NODEFAULT or each != default
        }
    if isinstance(value, (list, tuple)):
        return [_canonical(each) for each in value]
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    return value
