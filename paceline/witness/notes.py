"""Signed notes, in the form of C2SP (c2sp.org/signed-note): a text, an empty line, and a line for each signature.

Keys are written as the tools of Go's checksum database write them: `NAME+ID+KEY`, private ones behind `PRIVATE+KEY+`.
The only algorithm is Ed25519.
"""

import base64
import binascii
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from paceline.client.errors import PacelineError

ED25519 = b"\1"
KEY_BYTES, ID_BYTES, SIGNATURE_BYTES = 32, 4, 64
NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}")
PRIVATE = "PRIVATE+KEY+"
DASH = "\u2014 "
"""A line of a signature begins so."""


class NoteFault(ValueError):
    """Bytes are no signed note, or a text no key. Its text shows nothing of a key."""


class PublicKey(NamedTuple):
    """The key by which signatures of a name are checked."""

    name: str
    key: bytes

    @property
    def id(self) -> bytes:
        """The bytes that name the key in a signature."""
        return _id(self.name, self.key)

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(ED25519 + self.key)}"

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """The key that a text writes. Raises `NoteFault`."""
        if PRIVATE in text:
            raise NoteFault("it is a private key, which stays secret; name the public one, NAME.pub beside it")
        return cls(*_parsed(text.strip()))


class PrivateKey(NamedTuple):
    """The key by which a name signs: the seed of Ed25519."""

    name: str
    seed: bytes

    @property
    def public(self) -> PublicKey:
        """The other half."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return PublicKey(self.name, key.public_bytes_raw())

    def sign(self, text: str) -> "Signature":
        """Its signature of a text."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(text.encode())
        return Signature(self.name, self.public.id, signature)


class Signature(NamedTuple):
    """A signature as a note has it. `id` names the key."""

    name: str
    id: bytes
    signature: bytes


class Note(NamedTuple):
    """A text, which ends with a line feed, and its signatures."""

    text: str
    signatures: tuple[Signature, ...]

    def pack(self) -> bytes:
        """The note as it is published."""
        lines = (f"{DASH}{each.name} {_base64(each.id + each.signature)}\n" for each in self.signatures)
        return f"{self.text}\n{''.join(lines)}".encode()

    @classmethod
    def parse(cls, data: bytes) -> "Note":
        """The note in some bytes. Raises `NoteFault`."""
        try:
            text, empty, lines = data.decode().rpartition("\n\n")
        except UnicodeDecodeError as error:
            raise NoteFault("it is no text in UTF-8") from error
        if not empty or not lines.endswith("\n"):
            raise NoteFault("it has no signatures")
        return cls(f"{text}\n", tuple(map(_signature, lines.splitlines())))

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether the holder of a key has signed the text."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        public = Ed25519PublicKey.from_public_bytes(key.key)
        for each in self.signatures:
            if (each.name, each.id) == (key.name, key.id):
                try:
                    public.verify(each.signature, self.text.encode())
                except InvalidSignature:
                    return False
                return True
        return False


def signed(text: str, *keys: PrivateKey) -> Note:
    """A note with the signatures of some keys."""
    return Note(text, tuple(key.sign(text) for key in keys))


def make_key(name: str, file: Path) -> PublicKey:
    """Makes a key in a file that its user alone can read. Raises `PacelineError`."""
    if not NAME.fullmatch(name):
        raise PacelineError(f"{name!r} can't name a key: use up to 100 letters, digits and . _ / -")
    key = PrivateKey(name, os.urandom(KEY_BYTES))
    text = f"{PRIVATE}{name}+{key.public.id.hex()}+{_base64(ED25519 + key.seed)}\n"
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise PacelineError(f"{file} is there already. A key is never overwritten: name another file.") from error
    with os.fdopen(handle, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(handle)
    return key.public


def read_key(file: Path) -> PrivateKey:
    """The key in a file. Raises `PacelineError` where it is none, or others may read it: a group may read that of root,
    as it does a secret of Kubernetes.
    """
    try:
        text = file.read_text(errors="replace").strip()
        status = file.stat()
        if PRIVATE in text and status.st_mode & (0o037 if status.st_uid == 0 != os.geteuid() else 0o077):
            raise PacelineError(f"Others may read the key of the witness: chmod 600 {file}")
    except OSError as error:
        raise PacelineError(f"{file}: {error.strerror or error}. `paceline witness key NAME` makes a key.") from error
    try:
        if _is_public(text):
            raise NoteFault("it is a public one; the private one, NAME.key, was put beside it")
        if not text.startswith(PRIVATE):
            raise NoteFault("it doesn't begin with " + PRIVATE)
        name, seed = _parsed(text.removeprefix(PRIVATE), private=True)
    except NoteFault as fault:
        raise PacelineError(
            f"{file} holds no key of a witness: {fault}. `paceline witness key NAME` makes one."
        ) from fault
    return PrivateKey(name, seed)


def _is_public(text: str) -> bool:
    try:
        PublicKey.parse(text)
    except NoteFault:
        return False
    return True


def _parsed(text: str, private: bool = False) -> tuple[str, bytes]:
    parts = text.split("+", 2)
    if len(parts) != 3 or not NAME.fullmatch(parts[0]):
        raise NoteFault("a key is written NAME+ID+KEY")
    data = _bytes(parts[2])
    if data[:1] != ED25519 or len(data) != 1 + KEY_BYTES:
        raise NoteFault("it is no key of Ed25519")
    key = data[1:]
    public = PrivateKey(parts[0], key).public.key if private else key
    if _id(parts[0], public).hex() != parts[1]:
        raise NoteFault("its id is that of another key")
    return parts[0], key


def _signature(line: str) -> Signature:
    name, space, text = line.removeprefix(DASH).partition(" ")
    data = _bytes(text)
    if not line.startswith(DASH) or not space or len(data) < ID_BYTES:
        raise NoteFault(f"{line[:60]!r} is no signature")
    return Signature(name, data[:ID_BYTES], data[ID_BYTES:])


def _id(name: str, key: bytes) -> bytes:
    return sha256(f"{name}\n".encode() + ED25519 + key).digest()[:ID_BYTES]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteFault("it is not base64") from error
