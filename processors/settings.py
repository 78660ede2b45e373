"""The settings of a cell as a machine knows them: the last CellConfigured that entitlement, their owner, took."""

import msgspec

from events.codec import decode, encode
from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured
from processors.table import Table, struct_table


class Kept(msgspec.Struct, array_like=True):
    """An encoded CellConfigured."""

    value: bytes


class CellSettings:
    """`now` are the settings to decide by; facts wait in `pending`, by offset, until they are answered."""

    def __init__(self) -> None:
        self.pending: Table[int, Kept] = struct_table("pending_settings", Kept, int)
        self.kept: Table[str, Kept] = struct_table("settings", Kept)
        self.now = CellConfigured(command_id="")

    def restored(self) -> None:
        """Finds `now` again."""
        kept = self.kept.get("cell")
        if kept is not None:
            self._take(kept)

    def asked(self, offset: int, event: CellConfigured) -> None:
        """An admin sets the cell."""
        self.pending.put(offset, Kept(encode(event)))

    def answered(self, answer: PoolAnswered) -> None:
        """Entitlement has taken or refused a fact about pools."""
        kept = self.pending.get(answer.pools_offset)
        if kept is None:
            return
        self.pending.remove(answer.pools_offset)
        if answer.code == Code.DONE:
            self.kept.put("cell", kept)
            self._take(kept)

    def _take(self, kept: Kept) -> None:
        event = decode(kept.value)
        assert isinstance(event, CellConfigured)
        self.now = event
