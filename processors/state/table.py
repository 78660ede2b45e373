"""A machine's state: tables of rows that know which rows changed, and an incremental hash over all of them.

The hash is the sum modulo 2^256 of BLAKE2b-256(table, key, row) over all rows: a change subtracts the old row and adds
the new one, so its cost is the cost of what changed. Rows are looked at freely; whoever changes one says so with
`change`, and a test that rehashes everything finds who forgot.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from events.acceptance import Chain
from events.structs import known

Key = str | int | tuple[str, int] | tuple[str, str]
K = TypeVar("K", bound=Key)
R = TypeVar("R")

HASH_MODULUS = 1 << 256
_pack_key = msgspec.msgpack.Encoder().encode


class RowChange(NamedTuple):
    """A changed row as the store takes it; `row` is None where it was removed."""

    table: str
    key: bytes
    row: bytes | None


def row_hashes(prefix: bytes, rows: Iterable[tuple[Any, bytes, bytes]]) -> list[int]:
    """The hashes of rows: (whatever, key, row); `prefix` is the name of their table and a zero byte."""
    contents = [b"%b%b%b%b" % (prefix, len(key).to_bytes(4, "little"), key, row) for _, key, row in rows]
    return [int.from_bytes(blake2b(content, digest_size=32).digest(), "little") for content in contents]


def row_hash(prefix: bytes, key: bytes, row: bytes) -> int:
    """The hash of one row."""
    return row_hashes(prefix, ((None, key, row),))[0]


def hash_rows(rows: Iterable[RowChange]) -> bytes:
    """The state hash of rows as a store holds them, whatever they mean."""
    total = sum(row_hash(table.encode() + b"\0", key, row) for table, key, row in rows if row is not None)
    return (total % HASH_MODULUS).to_bytes(32, "little")


class Table(dict[K, R], Generic[K, R]):
    """Rows by key, in the order in which they came. To be looked at as a dictionary, and changed by its own methods
    alone. `pack` and `unpack` are the format of rows on disk and under the hash: they are deterministic.
    """

    def __init__(
        self,
        name: str,
        pack: Callable[[R], bytes],
        unpack: Callable[[bytes], R],
        key_type: Any = str,
    ) -> None:
        self.name = name
        self.columns: tuple[str, ...] = ()
        """Names of the columns, where rows are matrices."""
        self._pack = pack
        self._unpack = unpack
        self._unpack_key = msgspec.msgpack.Decoder(key_type).decode
        self._prefix = name.encode() + b"\0"
        self._digests: dict[K, int] = {}
        self.changed: dict[K, None] = {}
        """The keys of rows that changed since the last `take_changes`."""

    def put(self, key: K, row: R) -> R:
        """Sets a row and returns it."""
        self[key] = row
        self.changed[key] = None
        return row

    def change(self, key: K) -> R:
        """The row, to change in place."""
        self.changed[key] = None
        return self[key]

    def replace(self, key: K, row: R) -> None:
        """Puts an equal row, held elsewhere in memory, in the place of one that is there."""
        self[key] = row

    def remove(self, key: K) -> None:
        """Removes a row that is there."""
        del self[key]
        self.changed[key] = None

    def clear(self) -> None:
        """Forgets all rows, as if they had never been."""
        super().clear()
        self._digests.clear()
        self.changed.clear()

    def load(self, key: bytes, row: bytes) -> int:
        """Takes a row from the store and returns its hash."""
        typed: K = self._unpack_key(key)
        self[typed] = self._unpack(row)
        self._digests[typed] = row_hash(self._prefix, key, row)
        return self._digests[typed]

    def read(self, key: bytes, row: bytes) -> tuple[K, R]:
        """A key and a row as the store holds them, to look at."""
        return self._unpack_key(key), self._unpack(row)

    def take_changes(self) -> tuple[list[RowChange], int]:
        """The rows changed since the last call, and what they add to the hash (before the modulus)."""
        changes: list[RowChange] = []
        rows: list[tuple[K, bytes, bytes]] = []
        difference = 0
        name, digests, pack = self.name, self._digests, self._pack
        for key in self.changed:
            row = self.get(key)
            if row is not None:
                rows.append((key, _pack_key(key), pack(row)))
            elif key in digests:  # else it came and went in between
                difference -= digests.pop(key)
                changes.append(RowChange(name, _pack_key(key), None))
        for (key, packed_key, packed), digest in zip(rows, row_hashes(self._prefix, rows), strict=True):
            difference += digest - digests.get(key, 0)
            digests[key] = digest
            changes.append(RowChange(name, packed_key, packed))
        self.changed.clear()
        return changes, difference

    def rehash(self) -> int:
        """The hash over all rows as they are now, computed from all of them."""
        return sum(row_hash(self._prefix, _pack_key(key), self._pack(row)) for key, row in self.items())


def struct_table(name: str, row: type[R], key_type: Any = str) -> Table[Any, R]:
    """A table whose rows are msgspec structs, packed as MessagePack."""
    return Table(name, msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(known(row)).decode, key_type)


class State:
    """All tables of a machine under one hash, with the chains of the machines that it reads."""

    def __init__(self, tables: Sequence[Table[Any, Any]], peers: Sequence[str]) -> None:
        self.chains: Table[str, Chain] = struct_table("chains", Chain)
        self._tables = {table.name: table for table in (*tables, self.chains)}
        self._hash = 0
        for peer in peers:
            self.chains.put(peer, Chain())

    @property
    def hash(self) -> bytes:
        """The state hash as of the last `take_changes`."""
        return self._hash.to_bytes(32, "little")

    def load(self, rows: Iterable[RowChange]) -> None:
        """Takes all rows of a store."""
        total = 0
        for table in self._tables.values():
            table.clear()
        for table_name, key, row in rows:
            if row is not None:
                total += self._tables[table_name].load(key, row)
        self._hash = total % HASH_MODULUS

    def take_changes(self) -> list[RowChange]:
        """The rows changed since the last call; the hash is brought up to them."""
        changes: list[RowChange] = []
        for table in self._tables.values():
            if table.changed:
                changed, difference = table.take_changes()
                changes += changed
                self._hash = (self._hash + difference) % HASH_MODULUS
        return changes

    def rehash(self) -> bytes:
        """The hash computed from all rows as they are now; differs from `hash` where a change was not said."""
        total = sum(table.rehash() for table in self._tables.values())
        return (total % HASH_MODULUS).to_bytes(32, "little")
