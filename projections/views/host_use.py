"""Amounts that runs hold on hosts, as lifecycle has ordered them, and the numbers that hosts have in the task
columns.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from events.columns import indexed
from events.resources import in_order
from projections.views import tables
from projections.views.cache import Cache
from projections.views.named_tasks import NamedTasks
from projections.views.rows import HostNameRow, HostRow, amounts_in, to_json
from projections.views.run_needs import RunNeeds, need_of_version

NEEDS_KEPT = 1000
SPAN = 1 << 32
"""More than there are versions."""


class HostUse:
    """The use of hosts by runs."""

    def __init__(self, cache: Cache, needs: RunNeeds) -> None:
        self._cache = cache
        self._needs = needs
        self._host_ids: list[str] = []

    def restore(self, connection: Connection) -> None:
        """Finds the numbers again."""
        names = tables.host_names.c
        self._host_ids = list(connection.scalars(select(names.host_id).order_by(names.number)))

    def host(self, host_id: str) -> HostRow:
        """The row of a host that something is ordered on; it gets its number here."""
        row = self._cache.hosts.change(host_id) or self._cache.hosts.put(HostRow(host_id))
        if not row.number:
            self._host_ids.append(host_id)
            row.number = len(self._host_ids)
            self._cache.host_names.put(HostNameRow(row.number, host_id))
        return row

    def hosts(self, host_ids: Sequence[str]) -> list[HostRow]:
        """The rows of hosts, those that aren't in memory read at once."""
        self._cache.hosts.load(host_ids)
        return list(map(self.host, host_ids))

    def release(self, selection: NamedTasks) -> None:
        """Runs are over."""
        numbers, index = indexed(self._cache.tasks["host"][selection.places])
        hosts = self.hosts([self._host_ids[number - 1] for number in numbers.tolist()])
        self.allocate(selection, hosts, index, -1)

    def allocate(self, selection: NamedTasks, hosts: list[HostRow], index: NDArray[Any], sign: int) -> None:
        """Runs begin (1) or cease (-1) to hold what their tasks need, each on the host of its index."""
        rest = np.ones(len(index), dtype=np.bool_)
        for amounts, mask in self._needs.own(selection):
            self._add(hosts, index[mask], [amounts], np.zeros(int(mask.sum()), dtype=np.int64), sign)
            rest &= ~mask
        if not rest.all():
            selection, index = selection.some(rest), index[rest]
        if not len(index):
            return
        versions = self._cache.tasks["version"][selection.places]
        which, of = indexed(selection.job * SPAN + versions)
        asks = [
            (selection.jobs[key // SPAN].need, selection.jobs[key // SPAN].needs, key % SPAN) for key in which.tolist()
        ]
        kinds = {each: number for number, each in enumerate(dict.fromkeys(asks))}
        kind = np.array([kinds[each] for each in asks], dtype=np.int64)
        self._add(hosts, index, [need_of(*each) for each in kinds], kind[of], sign)

    @staticmethod
    def _add(
        hosts: list[HostRow], index: NDArray[Any], needs: Sequence[Mapping[str, int]], kind: NDArray[Any], sign: int
    ) -> None:
        """Adds needs to what hosts have allocated: `kind` says for each run which of them, `index` on which host."""
        names = list(dict.fromkeys(name for need in needs for name in need))
        amounts = np.array([[1, *(need.get(name, 0) for name in names)] for need in needs], dtype=np.int64)
        sums = np.zeros((len(hosts), 1 + len(names)), dtype=np.int64)
        each_needs = amounts.reshape(-1, 1 + len(names))[kind]
        if len(hosts) == 1:
            sums[0] = each_needs.sum(axis=0)
        else:
            np.add.at(sums, index, each_needs)
        for host, (runs, *more) in zip(hosts, (sign * sums).tolist(), strict=True):
            host.runs += runs
            sums_of_host = amounts_in(host.allocated)
            for name, amount in zip(names, more, strict=True):
                sums_of_host[name] = sums_of_host.get(name, 0) + amount
            host.allocated = to_json(in_order(sums_of_host))


@lru_cache(NEEDS_KEPT)
def need_of(need: str, needs: str, version: int) -> Mapping[str, int]:
    """The needs of a task of a version of a job, by these columns of its row: many jobs are alike in them."""
    return need_of_version(need, needs, version)
