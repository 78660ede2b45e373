"""The series of hosts by state, as placement knows them (`unread.py`)."""

import msgspec
from sqlalchemy import Connection, select

from events.host_offers import offer_fault
from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.placement import HostAvoided, HostLost, HostRemoved, HostTrusted
from projections.views import tables
from projections.views.cache import Cache
from projections.views.record_context import Folds, RecordContext
from projections.views.series_columns import Columns
from projections.views.series_rows import HostStateRow

HOSTS = "hosts/"
"""Before the states in the names of levels."""
STATES = ("up", "suspected", "silent", "lost", "returning")
CONNECTED, OFFERED, WITHDRAWN, SILENT, BACK, RECONCILED = range(6)
"""Events of a host's session, as placement reads them."""


def heard(event: Event) -> int | None:
    """The event of a host's session in a fact of the topic of hosts; None: none."""
    match event:
        case HostConnected():
            return CONNECTED
        case HostOffered():
            return WITHDRAWN if offer_fault(event) else OFFERED
        case HostSilent():
            return SILENT
        case HostBack():
            return BACK
    return None


class HostSeries:
    """The series of the states of hosts."""

    def __init__(self, cache: Cache, columns: Columns) -> None:
        self._rows = cache.host_states
        self._columns = columns
        self._hosts: dict[str, HostStateRow] = {}
        self.folds: Folds = {
            HostRemoved: self._removed,
            HostLost: self._changed,
            HostAvoided: self._changed,
            HostTrusted: self._changed,
        }

    def restore(self, connection: Connection) -> None:
        """Finds them again."""
        self._hosts = {row[0]: HostStateRow(*row) for row in connection.execute(select(tables.host_states))}

    def hear(self, what: int, host_id: str, session: int) -> None:
        """Placement has read something about a session of a host; of an earlier one it is void."""
        row = msgspec.structs.replace(self._hosts.get(host_id) or HostStateRow(host_id))
        if what == CONNECTED and session > row.session:
            row.session, row.offered, row.silent = session, 0, 0
        elif what == RECONCILED:
            row.reconciled = max(row.reconciled, session)
        elif session != row.session:
            return
        elif what in (OFFERED, WITHDRAWN):
            row.offered = int(what == OFFERED)
        elif what in (SILENT, BACK):
            row.silent = int(what == SILENT)
        self._put(host_id, row)

    def _removed(self, moment: RecordContext, event: HostRemoved) -> None:
        self._put(event.host_id, None)

    def _changed(self, moment: RecordContext, event: HostLost | HostAvoided | HostTrusted) -> None:
        row = msgspec.structs.replace(self._hosts.get(event.host_id) or HostStateRow(event.host_id))
        if isinstance(event, HostLost):
            row.lost_session = event.session
        else:
            row.avoided = int(isinstance(event, HostAvoided))
        self._put(event.host_id, row)

    def _put(self, host_id: str, row: HostStateRow | None) -> None:
        before, after = _state(self._hosts.get(host_id)), _state(row)
        for state, change in ((before, -1), (after, 1)):
            if state and before != after:
                self._columns.set(HOSTS + state, self._columns.level(HOSTS + state) + change)
        if row is not None:
            self._hosts[host_id] = self._rows.put(row)
        elif self._hosts.pop(host_id, None) is not None:
            self._rows.remove(host_id)


def _state(row: HostStateRow | None) -> str:
    """The state of a host, as `entities.host_state` has it; empty: there is none."""
    if row is None:
        return ""
    if row.lost_session >= row.session:
        return "lost"
    if row.silent:
        return "silent"
    if row.offered and row.reconciled >= row.session:
        return "suspected" if row.avoided else "up"
    return "returning"
