"""The interface of a store of secrets: values by name and version, read by gateways alone."""

from typing import Protocol

import msgspec


class SecretVersion(msgspec.Struct, frozen=True):
    """A version that is there, without its value. `digest` names it over all stores, and tells nothing of the value.
    `pool`: jobs of it, and of pools below it, may name the secret; `owner`: who put its first version, as the log names
    them, where that was proven.
    """

    name: str
    version: int
    digest: str
    put_ms: int
    pool: str = "/"
    owner: str = ""


class NoSuchSecret(LookupError):
    """There is no such secret, or no such version any more; the message says which."""


class StoreAway(Exception):
    """The store can't be read or written now; the message says why."""


class SecretStore(Protocol):
    """Versions of a name count from 1; the number of one that was deleted is never given again. Any thread may call;
    several processes may use one store. All methods raise `StoreAway`.
    """

    def put(self, name: str, value: bytes, pool: str = "", owner: str = "") -> SecretVersion:
        """Stores a value as the next version of a name, on disk when this returns. The first version says of which pool
        the secret is, empty: of `/`, and whose. Raises `ValueError` for another pool later.
        """
        ...

    def versions(self) -> list[SecretVersion]:
        """All there are, by name and version."""
        ...

    def find(self, name: str, version: int = 0) -> SecretVersion:
        """A version, 0: the newest there is. Raises `NoSuchSecret`."""
        ...

    def read(self, name: str, version: int, digest: str = "") -> bytes:
        """The value of a version; of one with this digest, unless that is empty. Raises `NoSuchSecret`, and `StoreAway`
        where the version never was in this store: jobs name what was stored, so it is in another.
        """
        ...

    def delete(self, name: str, version: int = 0) -> list[int]:
        """Deletes a version, 0: all there are, and says which those were. Raises `NoSuchSecret`."""
        ...
