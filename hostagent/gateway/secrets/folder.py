"""A store of secrets in a folder, encrypted under the key of the cell: a file beside the folder, `FOLDER.key`.

`NAME/about` says of which pool a secret is, and whose. `NAME/VERSION` holds a nonce and the value (ChaCha20-Poly1305,
bound to name and version), and is empty once that was deleted, so that no number is given twice. Files are put in place
whole, under a name that nobody has taken: several gateways may share the folder, with its key, by a file system that
they all see.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from events.bounds import SECRET_BYTES_MAX
from events.pool_paths import ROOT
from events.secret_names import name_fault
from hostagent import private_files
from hostagent.gateway.secrets.store import NoSuchSecret, SecretVersion, StoreAway
from hostagent.run_record import NUMBER

ABOUT = "about"
"""The file beside the versions of a secret that says of which pool it is, and whose."""
KEY_BYTES = 32
NONCE_BYTES = 12


class _About(msgspec.Struct, frozen=True):
    pool: str = ROOT
    owner: str = ""


class SecretFolder:
    """Implements `SecretStore`. Makes nothing before the first value is put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key_path = folder.with_name(f"{folder.name}.key")

    def put(self, name: str, value: bytes, pool: str = "", owner: str = "") -> SecretVersion:
        """Implements `SecretStore`. Raises `ValueError` for a name or a value that can't be."""
        if fault := name_fault(name):
            raise ValueError(fault)
        if not 0 < len(value) <= SECRET_BYTES_MAX:
            raise ValueError(f"the value takes {len(value)} bytes, it must be 1 to {SECRET_BYTES_MAX}")
        try:
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (pool not in ("", ROOT) or owner) and not any(self._numbers(name)):
                self._place(folder / ABOUT, msgspec.json.encode(_About(pool or ROOT, owner)))
            about = self._about(name)
            if pool not in ("", about.pool):
                raise ValueError(f"secret {name} is of pool {about.pool}: choose another name for one of {pool}")
            version = max(self._numbers(name), default=0) + 1
            while not self._place(folder / str(version), self._encrypted(name, version, value)):
                version += 1
            return self._version(name, version)
        except OSError as error:
            raise self._away(error) from error

    def versions(self) -> list[SecretVersion]:
        """Implements `SecretStore`."""
        try:
            names = sorted(each for each in os.listdir(self._folder) if not name_fault(each))
            return [self._version(name, number) for name in names for number in self._present(name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._away(error) from error

    def find(self, name: str, version: int = 0) -> SecretVersion:
        """Implements `SecretStore`."""
        try:
            present = self._present(name)
            if not present or version not in (0, *present):
                raise NoSuchSecret(_missing(name, version, present))
            return self._version(name, version or present[-1])
        except OSError as error:
            raise self._away(error) from error

    def read(self, name: str, version: int, digest: str = "") -> bytes:
        """Implements `SecretStore`."""
        if not name_fault(name) and version not in self._numbers(name):
            raise StoreAway(
                f"secret {name} version {version} never was in {self._folder}: do all gateways of the cell share it?"
            )
        present_version = self.find(name, version)
        if digest not in ("", present_version.digest):
            raise NoSuchSecret(f"secret {name} version {version} isn't the one that the job was submitted with")
        try:
            stored = private_files.read_file(self._folder / name / str(version))
        except OSError as error:
            raise self._away(error) from error
        try:
            return self._cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], _bound(name, version))
        except InvalidTag as error:
            raise StoreAway(
                f"secret {name} version {version} can't be decrypted: {self._key_path} is another key than it was "
                "stored with, or its file is damaged"
            ) from error

    def delete(self, name: str, version: int = 0) -> list[int]:
        """Implements `SecretStore`."""
        going = [self.find(name, version).version] if version else self._present(name)
        if not going:
            raise NoSuchSecret(_missing(name, version, []))
        try:
            for number in going:
                private_files.write_durably(str(self._folder / name / str(number)), "")
        except OSError as error:
            raise self._away(error) from error
        return going

    def _numbers(self, name: str) -> Iterator[int]:
        """The versions that there ever were."""
        with suppress(FileNotFoundError):
            yield from (int(each) for each in os.listdir(self._folder / name) if NUMBER.fullmatch(each))

    def _present(self, name: str) -> list[int]:
        """The versions that are there, in order. Raises `NoSuchSecret`."""
        if fault := name_fault(name):
            raise NoSuchSecret(fault)
        folder = self._folder / name
        return sorted(number for number in self._numbers(name) if (folder / str(number)).stat().st_size)

    def _version(self, name: str, version: int) -> SecretVersion:
        path = self._folder / name / str(version)
        digest = blake2b(private_files.read_file(path), digest_size=16).hexdigest()
        about = self._about(name)
        return SecretVersion(name, version, digest, path.stat().st_mtime_ns // 1_000_000, about.pool, about.owner)

    def _about(self, name: str) -> "_About":
        """The pool of a secret and whose it is; of those that were put before there were pools `/`, and nobody's."""
        try:
            return msgspec.json.decode(private_files.read_file(self._folder / name / ABOUT), type=_About)
        except FileNotFoundError:
            return _About()

    def _encrypted(self, name: str, version: int, value: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, _bound(name, version))

    @cached_property
    def _cipher(self) -> ChaCha20Poly1305:
        """By the key of the cell, which is made with the first value."""
        try:
            if not self._key_path.exists() and not any(self._folder.glob("*/[0-9]*")):
                self._place(self._key_path, secrets.token_bytes(KEY_BYTES))
            key = private_files.read_file(self._key_path)
            others = self._key_path.stat().st_mode & 0o077
        except OSError as error:
            raise StoreAway(f"the key of the secrets, {self._key_path}, can't be read: {error.strerror}") from error
        if others:
            raise StoreAway(f"others may read the key of the secrets: chmod 600 {self._key_path}")
        if len(key) != KEY_BYTES:
            raise StoreAway(f"{self._key_path} is no key: it has {len(key)} bytes, not {KEY_BYTES}")
        return ChaCha20Poly1305(key)

    @staticmethod
    def _place(path: Path, content: bytes) -> bool:
        """Puts a file in place whole and on disk; False: somebody has taken the name."""
        part = path.with_name(f".{secrets.token_hex(8)}")
        file = os.open(part, private_files.CREATE | os.O_EXCL, 0o600)
        try:
            os.write(file, content)
            os.fsync(file)
            os.link(part, path)
            private_files.sync(str(path.parent))
        except FileExistsError:
            return False
        finally:
            os.close(file)
            os.unlink(part)
        return True

    def _away(self, error: OSError) -> StoreAway:
        return StoreAway(f"the secrets in {self._folder} can't be reached: {error.strerror or error}")


def _bound(name: str, version: int) -> bytes:
    """The data that a value is bound to."""
    return f"{name}\0{version}".encode()


def _missing(name: str, version: int, present: list[int]) -> str:
    if not present:
        return f"there is no secret {name}: `paceline secret put {name}` makes one"
    return f"secret {name} has no version {version}; there is {', '.join(map(str, present))}"
