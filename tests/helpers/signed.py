"""A key of a cell, as tests know it, the fact that tells of it, and facts that it has signed."""

from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from events.records.base import Event
from events.records.parts import Actor
from events.records.pools import TokenIssued
from events.signatures import CELL, sign

E = TypeVar("E", bound=Event)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def key_told() -> TokenIssued:
    """The fact by which readers of the log know the key."""
    public = KEY.public_key().public_bytes_raw()
    return signed(TokenIssued(command_id="k", token_id="k", subject=CELL, public_key=public, actor=Actor(CELL, CELL)))


def signed(fact: E, cell: int = 0) -> E:
    """The fact, signed for a cell."""
    return sign(fact, cell, KEY)
