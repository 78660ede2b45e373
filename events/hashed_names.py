"""Keyed hashes in place of names and addresses of people: a log forgets nothing, a key can be destroyed.

Who has the key finds what somebody did; who hasn't sees that the same somebody did several things, and not who.
"""

import hmac
import re
import secrets
from hashlib import sha256

KEY_FILE = "names.key"
"""The file of a data folder that holds the key."""
KEY_BYTES = 32
_HASH_CHARACTERS = 24
_HASHED = re.compile(rf"h-[0-9a-f]{{{_HASH_CHARACTERS}}}")


class NameHashes:
    """Hashes names by a key; without one by a key of its own, which nobody else ever has."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key or secrets.token_bytes(KEY_BYTES)

    def of(self, name: str) -> str:
        """The hash of a name or an address, such as `h-5d41402abc4b2a76b9719d91`; of an empty one empty."""
        if not name:
            return ""
        return f"h-{hmac.digest(self._key, name.encode(), sha256).hex()[:_HASH_CHARACTERS]}"

    def forms(self, name: str) -> tuple[str, str]:
        """A name as facts may have it: as it is, and hashed."""
        return name, self.of(name)


def is_hashed(name: str) -> bool:
    """Whether a name looks like a hash."""
    return _HASHED.fullmatch(name) is not None
