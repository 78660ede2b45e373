"""The settings of a cell as a machine knows them: the last CellConfigured that entitlement, their owner, took."""

import msgspec

from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured
from events.resources import Kinds, with_added
from processors.state.record_rows import row_of
from processors.state.table import Table, struct_table


class KindRow(msgspec.Struct, frozen=True, array_like=True):
    """A kind of resource that was added to the cell."""

    name: str
    unit: str
    amount: int | None


class SettingsRow(msgspec.Struct, frozen=True, array_like=True):
    """What a CellConfigured sets."""

    host_lost_after_ms: int
    host_lost_percent_per_minute: int
    host_lost_grace_ms: int
    placement_patience_ms: int
    return_backoff_ms: int
    return_backoff_max_ms: int
    restart_backoff_ms: int
    restart_backoff_max_ms: int
    preemption_delay_ms: int
    forget_after_ms: int
    ended_jobs_max: int
    host_removed_after_ms: int
    resources: tuple[KindRow, ...]
    """Of the fact those that it names; of the cell all that were ever added, in that order."""


DEFAULTS = row_of(SettingsRow, CellConfigured(command_id=""))


class CellSettings:
    """`now` are the settings to decide by; facts wait in `pending`, by offset, until they are answered."""

    def __init__(self) -> None:
        self.pending: Table[int, SettingsRow] = struct_table("pending_settings", SettingsRow, int)
        self.kept: Table[str, SettingsRow] = struct_table("settings", SettingsRow)
        self.now = DEFAULTS
        self.kinds = Kinds()
        """The resources that the cell knows."""

    def restored(self) -> None:
        """Finds `now` and `kinds` again."""
        self.now = self.kept.get("cell") or DEFAULTS
        self.kinds = Kinds(self.now.resources)

    def asked(self, offset: int, event: CellConfigured) -> None:
        """An admin sets the cell."""
        self.pending.put(offset, row_of(SettingsRow, event))

    def answered(self, answer: PoolAnswered) -> None:
        """Entitlement has taken or refused a fact about pools."""
        row = self.pending.get(answer.pools_offset)
        if row is None:
            return
        self.pending.remove(answer.pools_offset)
        if answer.code == Code.DONE:
            resources = with_added(self.now.resources, row.resources)
            self.now = self.kept.put("cell", msgspec.structs.replace(row, resources=resources))
            self.kinds = Kinds(resources)
