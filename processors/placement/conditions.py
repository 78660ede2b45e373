"""Conditions of hosts: which checks say that a host isn't well, and what is to be done for it (decision 091).

A condition lasts from the first bad result until it has passed for `release_after`; a result that is bad again before
that begins no other one, and doubles that time. Rows change by `HostHealthReported`, and by what was decided of their
hosts. Who decides asks `ill` and `to_drain`; a row that is over says nothing any more.
"""

import msgspec
import numpy as np

from events.codes import Code
from events.host_health import Action, action_of, is_broken, release_ms
from events.records.hosts import HostHealthReported
from events.records.placement import HostRemoved, HostTrusted
from processors.placement.hosts import Hosts
from processors.placement.states import TAKES_BOUND
from processors.state.causes import CauseRow, CurrentInput
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

Key = tuple[str, str]
"""A host and the name of a condition."""


class ConditionRow(msgspec.Struct, array_like=True):
    """A condition of a host."""

    bad: bool
    """The last result of its check."""
    code: str
    text: str
    since_ms: int
    """Logical time of the first bad result."""
    by: CauseRow
    """That result."""
    passed_ms: int = 0
    """Logical time at which it passed last; 0: it is bad."""
    flaps: int = 0
    """So often it came back before it was over."""
    dismissed: bool = False
    """An operator says that the host takes tasks: nothing is done for it before it has passed once."""
    is_held: bool = False
    """It was said that the cell avoids no more hosts."""


class Conditions:
    """The conditions of all hosts."""

    def __init__(self, hosts: Hosts, settings: CellSettings, current: CurrentInput) -> None:
        self.table: Table[Key, ConditionRow] = struct_table("conditions", ConditionRow, Key)
        self._hosts = hosts
        self._settings = settings
        self._input = current
        self._times: Deadlines[Key] = Deadlines()
        """When each is over, or its host is to be drained."""
        self._settled = -1
        self._names: dict[str, dict[str, None]] = {}
        """The conditions of each host that has some, in no order that means anything."""

    def restored(self) -> None:
        """Rebuilds what is derived of rows and settings."""
        self._names = {}
        self._times.restore(())
        for key in self.table:
            self._names.setdefault(key[0], {})[key[1]] = None
            self._time(key)
        self.unsettle()

    def reported(self, event: HostHealthReported, now: int) -> None:
        """A check has another result; of a host that was removed it says nothing."""
        key = event.host_id, event.condition
        row = self.table.get(key)
        if event.host_id not in self._hosts.table or (row is None and not event.bad):
            return
        if row is None or (event.bad and self.is_over(row, now)):
            self.table.put(key, ConditionRow(True, event.code, event.text, now, self._input.cause))
            self._names.setdefault(event.host_id, {})[event.condition] = None
            self._time(key)
            self.unsettle()
            return
        row = self._changed(key)
        if event.bad:
            row.flaps += not row.bad
            row.bad, row.code, row.text, row.passed_ms = True, event.code, event.text, 0
        elif row.bad:
            row.bad, row.passed_ms, row.dismissed = False, max(1, now), False
        self._time(key)

    def trusted(self, event: HostTrusted, now: int) -> None:
        """A host takes new tasks: as an operator says, as no more hosts are avoided, or as its conditions are over."""
        for key, row in self.of(event.host_id):
            if event.code == Code.TOO_MANY_UNHEALTHY:
                self._changed(key).is_held = True
            elif self.is_over(row, now):
                self._forget(key)
        if event.code == Code.ASKED:
            self.dismiss(event.host_id)

    def dismiss(self, host_id: str) -> None:
        """An operator has taken a host back that isn't well."""
        for key, row in self.of(host_id):
            if row.bad:
                self._changed(key).dismissed = True
                self._time(key)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten."""
        for key, _ in self.of(event.host_id):
            self._forget(key)

    def hosts(self) -> list[str]:
        """The hosts that have conditions, in the order of their ids."""
        return sorted(self._names)

    def of(self, host_id: str) -> list[tuple[Key, ConditionRow]]:
        """The conditions of a host by name, those that are over included."""
        return [((host_id, name), self.table[host_id, name]) for name in sorted(self._names.get(host_id, ()))]

    def action(self, name: str) -> Action:
        """Finds the measures against a condition."""
        settings = self._settings.now
        return action_of(settings.conditions, settings.drain_after_ms, name)

    def over_ms(self, row: ConditionRow) -> int | None:
        """When a condition is over; None: it is bad."""
        if row.bad:
            return None
        return row.passed_ms + release_ms(self._settings.now.release_after_ms, row.flaps)

    def is_over(self, row: ConditionRow, now: int) -> bool:
        """Whether a condition has passed for long enough."""
        at = self.over_ms(row)
        return at is not None and at <= now

    def lasting(self, host_id: str, now: int) -> list[tuple[str, ConditionRow]]:
        """The conditions for which something is done with a host, by name: some may have passed of late."""
        return [
            (name, row)
            for (_, name), row in self.of(host_id)
            if not row.dismissed and not self.is_over(row, now) and self.action(name).avoid
        ]

    def is_well(self, host_id: str) -> bool:
        """Whether no check of a host is bad that the cell does something for, and it isn't suspected either."""
        row = self._hosts.table.get(host_id)
        if row is None or row.avoided_ms > 0:
            return False
        return not any(row.bad and self.action(name).avoid for (_, name), row in self.of(host_id))

    def heard(self) -> int:
        """The number of hosts that are heard."""
        return int(np.count_nonzero(self._hosts.are(TAKES_BOUND)))

    def broken(self, now: int) -> set[str]:
        """The conditions whose checks are taken for broken."""
        onsets: dict[str, list[int]] = {}
        for host_id in self._names:
            for (_, name), row in self.of(host_id):
                if not self.is_over(row, now):
                    onsets.setdefault(name, []).append(row.since_ms)
        hosts = self.heard()
        return {name for name, since in onsets.items() if is_broken(sorted(since), hosts)}

    def next_ms(self, passed_ms: int) -> int | None:
        """The first time later than one at which something may change though nothing is heard."""
        return self._times.first(passed_ms)

    def settled(self, passed_ms: int, now: int) -> bool:
        """Whether nothing has changed since `settle`, and no time has come. Only saves work."""
        at = self.next_ms(passed_ms)
        return self._settled == self.heard() and (at is None or at > now)

    def settle(self) -> None:
        """Nothing is to be done for the conditions as they are."""
        self._settled = self.heard()

    def unsettle(self) -> None:
        """Something has changed that counts for them."""
        self._settled = -1

    def _changed(self, key: Key) -> ConditionRow:
        """A row, to change in place; `_time` follows."""
        self.unsettle()
        return self.table.change(key)

    def _time(self, key: Key) -> None:
        """Keeps up the time of a row."""
        row = self.table[key]
        at, after_ms = self.over_ms(row), self.action(key[1]).drain_after_ms
        if at is None and after_ms is not None and not row.dismissed:
            at = row.since_ms + after_ms
        self._times.set(key, at)

    def _forget(self, key: Key) -> None:
        self.table.remove(key)
        self._times.clear(key)
        self.unsettle()
        names = self._names[key[0]]
        del names[key[1]]
        if not names:
            del self._names[key[0]]
