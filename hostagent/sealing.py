"""Seals the value of a secret for one run on one host: HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305.

What a value is for goes into the seal: cell, host, session, run, name and version. So one that is kept from an earlier
session, or is told to be another, can't be opened.
"""

import json
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from hostagent.run_record import RunKey


def new_key() -> bytes:
    """A private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_half(private: bytes) -> bytes:
    """The public half of a private key. Raises `ValueError`."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def purpose(cell: int, host_id: str, session: int, run: RunKey, name: str, version: int) -> bytes:
    """The purpose of a sealed value: nothing else may open it."""
    return json.dumps([cell, host_id, session, *run, name, version]).encode()


def seal(public: bytes, about: bytes, value: bytes) -> bytes:
    """Seals a value for the holder of a key. Raises `ValueError` where it is no key."""
    return _suite().encrypt(value, X25519PublicKey.from_public_bytes(public), about)


def open_sealed(private: bytes, about: bytes, sealed: bytes) -> bytes:
    """The value that was sealed for this key and purpose. Raises `ValueError` for another."""
    try:
        return _suite().decrypt(sealed, X25519PrivateKey.from_private_bytes(private), about)
    except InvalidTag as error:
        raise ValueError("a secret that was sealed for another key or purpose can't be opened") from error


@cache
def _suite() -> Suite:
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
