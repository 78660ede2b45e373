"""The settings of a cell as a machine knows them: changed by each CellConfigured that entitlement, the owner, took."""

from events.cell_settings import DEFAULTS, Settings, SettingsChange, change_of, changed
from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured
from events.resources import Kinds
from processors.state.table import Table, struct_table


class CellSettings:
    """`now` are the settings to decide by; facts wait in `pending`, by offset, until they are answered."""

    def __init__(self) -> None:
        self.pending: Table[int, SettingsChange] = struct_table("pending_settings", SettingsChange, int)
        self.kept: Table[str, Settings] = struct_table("settings", Settings)
        self.now = DEFAULTS
        self.kinds = Kinds()
        """The resources that the cell knows."""

    def restored(self) -> None:
        """Finds `now` and `kinds` again."""
        self.now = self.kept.get("cell") or DEFAULTS
        self.kinds = Kinds(self.now.resources)

    def asked(self, offset: int, event: CellConfigured) -> None:
        """An admin sets the cell."""
        self.pending.put(offset, change_of(event))

    def answered(self, answer: PoolAnswered, now: int) -> None:
        """Entitlement has taken or refused a fact about pools."""
        change = self.pending.get(answer.pools_offset)
        if change is None:
            return
        self.pending.remove(answer.pools_offset)
        if answer.code == Code.DONE:
            self.now = self.kept.put("cell", changed(self.now, change))
            self.kinds = Kinds(self.now.resources)
