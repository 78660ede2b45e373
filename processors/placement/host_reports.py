"""Reports about hosts: the capacity of the cell, and whether they are heard.

What daemons hold isn't for others, so in a cell with host pools the capacity is said again, with the same version, when
that changes.
"""

from collections.abc import Mapping

import numpy as np

from events.columns import distinct
from events.host_pools import SHARED
from events.records.parts import HostPoolCapacity
from events.records.placement import CapacityChanged, HostHearingChanged
from events.resources import in_order
from processors.placement.hosts import Hosts
from processors.placement.rows import CellRow
from processors.placement.runs import Runs
from processors.state.causes import CauseRow, all_recorded, recorded
from processors.state.table import Table


class HostReports:
    """Reports of what hasn't been told yet."""

    def __init__(self, hosts: Hosts, cell: Table[str, CellRow], runs: Runs) -> None:
        self._hosts = hosts
        self._cell = cell
        self._runs = runs

    def capacity_changed(self, by: CauseRow | None) -> CapacityChanged | None:
        """The answer to changes of hosts, all at once; `by`: what else has changed it."""
        cell, hosts = self._cell["cell"], self._hosts
        causes = cell.changed_by or ([by] if by is not None else [])
        daemons, version = self._daemons(), cell.version + 1
        if not causes and daemons != cell.daemons and cell.last_by is not None:
            causes, version = [cell.last_by], cell.version
        if not causes:
            return None
        offered = hosts.capacity[:-1] * hosts.counts
        return CapacityChanged(
            capacity=self._amounts(hosts.counted.sum(axis=1).tolist()),
            largest=self._amounts(offered.max(axis=1, initial=0).tolist()),
            hosts=int(hosts.counting.sum()),
            host_pools=self._host_pools(daemons),
            version=version,
            causes=all_recorded(causes),
        )

    def capacity_said(self, event: CapacityChanged, now: int) -> None:
        """The cell knows its capacity."""
        row = self._cell.change("cell")
        row.version, row.changed_by = event.version, []
        row.daemons = {each.name: in_order(each.daemons) for each in event.host_pools if each.daemons}

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

    def _daemons(self) -> dict[str, dict[str, int]]:
        """By host pool the amount that daemons hold on hosts that count; of those where they hold any."""
        hosts, pools, arena = self._hosts, self._hosts.pools, self._runs.arena
        jobs = self._runs.index.daemons() if pools.are_used else []
        if not jobs:
            return {}
        names = sorted((SHARED, *pools.table))
        of_host = np.full(len(hosts.ids), names.index(SHARED), dtype=np.int64)
        for host_id, name in pools.of_host.items():
            if host_id in hosts.table:
                of_host[hosts.table[host_id].number] = names.index(name)
        use = np.zeros((len(names), len(hosts.kinds)), dtype=np.int64)
        for _, row in jobs:
            slots = row.base + np.flatnonzero(arena["placed"][row.base : row.base + row.instances])
            for shape in distinct(arena["shape"][slots]).tolist():
                numbers = arena["host"][slots[arena["shape"][slots] == shape]].astype(np.int64) - 1
                tasks = np.bincount(of_host[numbers[hosts.counts[numbers]]], minlength=len(names))
                use += np.outer(tasks, self._runs.shapes[shape].need)
        amounts = {name: hosts.kinds.amounts(row) for name, row in zip(names, use.tolist(), strict=True)}
        return {name: of_daemons for name, of_daemons in amounts.items() if of_daemons}

    def _host_pools(self, daemons: Mapping[str, dict[str, int]]) -> tuple[HostPoolCapacity, ...]:
        """The capacity of each host pool."""
        hosts, pools = self._hosts, self._hosts.pools
        if not pools.are_used:
            return ()
        members: dict[str, list[int]] = {name: [] for name in sorted((SHARED, *pools.table))}
        for host_id, row in hosts.table.items():
            members[pools.of(host_id)].append(row.number)
        counted, kinds = hosts.counted, hosts.kinds
        return tuple(
            HostPoolCapacity(
                name=name,
                kinds=pools.table[name].kinds if name in pools.table else (),
                capacity=kinds.amounts(counted[:, numbers].sum(axis=1).tolist()),
                hosts=int(hosts.counting[numbers].sum()),
                daemons=daemons.get(name, {}),
            )
            for name, numbers in members.items()
        )

    def _amounts(self, offered: list[int]) -> dict[str, int]:
        """Amounts by the names of their kinds; those of licences are what the cell has."""
        kinds = self._hosts.kinds
        return kinds.amounts(
            [kinds.licences.get(name, amount) for name, amount in zip(kinds.names, offered, strict=True)]
        )
