"""The signing keys of a cell: Ed25519, a file each in a folder of the data folder or by path, for its user alone.

`NUMBER.json` is a key; the highest signs. A rotation makes the next one, which the last one endorses, and takes the
private half of the last one away. Its public half stays published until nothing that it signed can be valid; readers of
the log know all of them by `TokenIssued`.
"""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from events.records.parts import Actor
from events.records.pools import TokenIssued
from events.signatures import CELL, key_id, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER = Path("keys") / "signing"
"""Below a data folder, where nobody names another."""
RUN_TOKEN_S = 3600
"""The life of a token of a run; the agent fetches the next one when half of that is over."""
PUBLISHED_S = 2 * RUN_TOKEN_S
"""So long a key that signs no more stays published: longer than anything is valid that it signed."""


class SigningKey(msgspec.Struct, dict=True):
    """A key, as its file has it. `private`: empty once another one signs; `endorsement`: the signature of its
    announcement by the key before it, of the first one by itself.
    """

    public: bytes
    private: bytes = b""
    retired_ms: int = 0
    endorsement: bytes = b""

    @property
    def name(self) -> str:
        """Names it: `kid` of what it signs, and the id of its `TokenIssued`."""
        return f"key-{key_id(self.public).hex()}"

    @cached_property
    def signer(self) -> "Ed25519PrivateKey":
        """The private half."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.private)

    @property
    def published_until_ms(self) -> int:
        """Until when it is published; 0: it signs."""
        return self.retired_ms + PUBLISHED_S * 1000 if self.retired_ms else 0

    @property
    def announcement(self) -> TokenIssued:
        """The fact by which readers of the log know it."""
        actor = Actor(CELL, CELL, signature=self.endorsement)
        return TokenIssued(command_id=self.name, token_id=self.name, subject=CELL, public_key=self.public, actor=actor)


class KeysUnfit(OSError):
    """The keys can't be used; the message says why and what helps."""


class SigningKeys:
    """The keys in a folder, which several processes may share. Makes nothing before something is signed.

    Methods raise `OSError`.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now
        self._seen: tuple[int, ...] = ()
        self._keys: list[SigningKey] = []

    def current(self) -> SigningKey:
        """The key that signs; the first one is made now."""
        keys = self.all()
        if not keys:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make(1, None)
            keys = self.all()
        return keys[-1]

    def published(self) -> list[SigningKey]:
        """The keys by which something is checked now, the oldest first."""
        now_ms = self._now() * 1000
        return [each for each in self.all() if not each.retired_ms or each.published_until_ms > now_ms]

    def rotate(self) -> SigningKey:
        """Makes the next key, which signs from now on; the first one, where there is none."""
        if not self.all():
            return self.current()
        last, number = self.current(), len(self.all())
        self._make(number + 1, last)
        last = msgspec.structs.replace(last, private=b"", retired_ms=int(self._now() * 1000))
        draft = self._draft(last)
        os.replace(draft, self.folder / f"{number}.json")
        return self.current()

    def all(self) -> list[SigningKey]:
        """All keys in their order, read again where a file has changed. The last one signs."""
        numbers = []
        with suppress(FileNotFoundError):
            numbers = sorted(int(each[:-5]) for each in os.listdir(self.folder) if each[:-5].isdecimal())
        paths = [self.folder / f"{number}.json" for number in numbers]
        seen = tuple(path.stat().st_mtime_ns for path in paths)
        if seen != self._seen:
            self._keys = [_read(path) for path in paths]
            self._seen = seen
        return self._keys

    def _make(self, number: int, last: SigningKey | None) -> None:
        """Makes a key, unless another process has."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.generate()
        key = SigningKey(private.public_key().public_bytes_raw(), private.private_bytes_raw())
        endorsed = sign(key.announcement, 0, last.signer if last is not None else private)
        key.endorsement = endorsed.actor.signature if endorsed.actor is not None else b""
        draft = self._draft(key)
        try:
            with suppress(FileExistsError):
                os.link(draft, self.folder / f"{number}.json")
        finally:
            os.unlink(draft)

    def _draft(self, key: SigningKey) -> Path:
        """A file of its own with a key, on disk."""
        path = self.folder / f".{secrets.token_hex(8)}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, msgspec.json.encode(key))
            os.fsync(file)
        finally:
            os.close(file)
        return path


def _read(path: Path) -> SigningKey:
    if path.stat().st_mode & 0o077:
        raise KeysUnfit(f"others may read the signing key of the cell: chmod 600 {path}")
    try:
        return msgspec.json.decode(path.read_bytes(), type=SigningKey)
    except msgspec.MsgspecError as error:
        raise KeysUnfit(f"{path} is no signing key: {error}") from error
