"""Reports about hosts: the capacity of the cell, and whether they are heard."""

from events.records.placement import CapacityChanged, HostHearingChanged
from processors.placement.hosts import Hosts
from processors.placement.rows import CellRow
from processors.state.causes import CauseRow, all_recorded, recorded
from processors.state.table import Table


class HostReports:
    """Reports of what hasn't been told yet."""

    def __init__(self, hosts: Hosts, cell: Table[str, CellRow]) -> None:
        self._hosts = hosts
        self._cell = cell

    def capacity_changed(self, by: CauseRow | None) -> CapacityChanged | None:
        """The answer to changes of hosts, all at once; `by`: what else has changed it."""
        cell, hosts = self._cell["cell"], self._hosts
        causes = cell.changed_by or ([by] if by is not None else [])
        if not causes:
            return None
        offered = hosts.capacity[:-1] * hosts.counts
        return CapacityChanged(
            capacity=self._amounts(hosts.counted.sum(axis=1).tolist()),
            largest=self._amounts(offered.max(axis=1, initial=0).tolist()),
            hosts=int(hosts.counting.sum()),
            version=cell.version + 1,
            causes=all_recorded(causes),
        )

    def capacity_said(self, event: CapacityChanged, now: int) -> None:
        """The cell knows its capacity."""
        row = self._cell.change("cell")
        row.version, row.changed_by = event.version, []

    def hearing_changed(self, limit: int) -> HostHearingChanged | None:
        """Says of at most `limit` hosts that they are heard from now on, silent or lost."""
        host_ids = sorted(self._hosts.untold)[: max(0, limit)]
        if not host_ids:
            return None
        rows = [self._hosts.table[host_id] for host_id in host_ids]
        return HostHearingChanged.pack(
            host_ids=tuple(host_ids),
            host_session=[row.session for row in rows],
            hearing=[row.hearing for row in rows],
            cause=recorded(self._cell["cell"].last_by),
        )

    def _amounts(self, offered: list[int]) -> dict[str, int]:
        """Amounts by the names of their kinds; those of licences are what the cell has."""
        kinds = self._hosts.kinds
        return kinds.amounts(
            [kinds.licences.get(name, amount) for name, amount in zip(kinds.names, offered, strict=True)]
        )
