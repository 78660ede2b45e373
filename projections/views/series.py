"""Folds the time series of a cell: what each topic says of it, step by step of that topic's log time (decision 047)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from events.codes import Code
from events.columns import I64, ints, pack_ints
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.lifecycle import HostReconciled
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined
from events.topics import ALL, HOSTS, RANK, rounds_of
from projections.views.cache import Cache
from projections.views.host_series import RECONCILED, HostSeries, heard
from projections.views.pool_series import PoolNumbers, PoolTaskSeries, ShareSeries
from projections.views.record_context import Folds, RecordContext
from projections.views.series_columns import Columns
from projections.views.task_series import TaskSeries
from projections.views.unread import Unread
from projections.views.waiting_series import HeldTasks, UnplacedTasks

HostFact = HostConnected | HostOffered | HostSilent | HostBack
LEFT = -1
"""Beside what is heard of hosts: tasks have left the queue."""
LIFECYCLE, ENTITLEMENT, PLACEMENT = map(rounds_of, ("lifecycle", "entitlement", "placement"))
READ = {ENTITLEMENT: (LIFECYCLE,), PLACEMENT: (LIFECYCLE, HOSTS.name)}
"""The topics whose records count for the series of a machine's topic when that machine has read them."""
CAPACITY = "capacity/"
"""Before the names of the levels that are what the cell has of a resource."""


class SeriesFold:
    """The fold of the series of a cell."""

    def __init__(self, cache: Cache) -> None:
        self._columns = {topic.name: Columns(cache.series, RANK[topic.name]) for topic in ALL}
        self._numbers = PoolNumbers(cache)
        self._shares = ShareSeries(cache, RANK[ENTITLEMENT], self._numbers)
        pool_tasks = PoolTaskSeries(cache, RANK[LIFECYCLE], self._numbers)
        self._pools = {ENTITLEMENT: self._shares, LIFECYCLE: pool_tasks}
        self._held = HeldTasks(cache, self._columns[ENTITLEMENT])
        self._unplaced = UnplacedTasks(cache, self._columns[PLACEMENT])
        self._hosts = HostSeries(cache, self._columns[PLACEMENT])
        pairs = [(owner, topic) for owner, topics in READ.items() for topic in topics]
        self._unread = {pair: Unread(cache.unread, *pair) for pair in pairs}
        self.tasks = TaskSeries(self._columns[LIFECYCLE], pool_tasks, self._left)
        self.folds: Folds = {
            **self._unplaced.folds,
            **self._hosts.folds,
            **self._held.folds,
            HostReconciled: self._reconciled,
            EntitlementsSet: self._shared,
            PoolAnswered: self._answered,
            CapacityChanged: self._capacity,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again what is derived from rows."""
        for columns in self._columns.values():
            columns.restore(connection)
        self._numbers.restore(connection)
        for topic, pools in self._pools.items():
            pools.restore(connection, self._columns[topic].second)
        for unread in self._unread.values():
            unread.restore(connection)
        self._held.restore(connection)
        self._unplaced.restore(connection)
        self._hosts.restore(connection)
        self.tasks.restore(connection)

    def record(self, topic: str, at_ms: int) -> None:
        """A record of a topic was delivered; what it says is folded after that."""
        columns = self._columns[topic]
        columns.go_to(at_ms)
        columns.count("records")
        if topic in self._pools:
            self._pools[topic].go_to(at_ms)

    def fact(self, moment: RecordContext, event: Event) -> None:
        """Folds a fact."""
        if isinstance(event, PoolDefined):
            self._numbers.define(event.path)
        elif isinstance(event, HostFact) and (what := heard(event)) is not None:
            self._unread[PLACEMENT, HOSTS.name].add(moment.offset, what, event.host_id, event.session)

    def round(self, moment: RecordContext, decisions: int, covered: Mapping[str, int]) -> None:
        """A machine has written a round: so much later than its logical time, that of the newest record it had read.
        `covered`: how far that is, by topic.
        """
        for topic in READ.get(moment.topic, ()):
            for item in self._unread[moment.topic, topic].read(covered.get(topic, 0)):
                self._read(moment.topic, *item)
        columns = self._columns[moment.topic]
        columns.count("rounds")
        columns.count("decisions", decisions)
        columns.peak("lag_ms", max(0, moment.at_ms - moment.now))

    def _reconciled(self, moment: RecordContext, event: HostReconciled) -> None:
        self._unread[PLACEMENT, LIFECYCLE].add(moment.offset, RECONCILED, event.host_id, event.session)

    def _shared(self, moment: RecordContext, event: EntitlementsSet) -> None:
        self._shares.changed(event.pools)

    def _answered(self, moment: RecordContext, event: PoolAnswered) -> None:
        if event.code == Code.DONE:
            self._shares.changed([event.path])

    def _left(self, moment: RecordContext, job_id: str, instances: I64) -> None:
        """Lifecycle says that tasks of a job have left the queue for no host; other machines will read it."""
        for owner in (ENTITLEMENT, PLACEMENT):
            self._unread[owner, LIFECYCLE].add(moment.offset, LEFT, job_id, pack_ints(instances))

    def _read(self, owner: str, what: int, name: str, value: Any) -> None:
        """A machine has read what another topic says."""
        if what != LEFT:
            self._hosts.hear(what, name, value)
        elif owner == ENTITLEMENT:
            self._held.left(name, ints(value))
        else:
            self._unplaced.left(name, len(ints(value)))

    def _capacity(self, moment: RecordContext, event: CapacityChanged) -> None:
        columns = self._columns[PLACEMENT]
        for name in columns.names(CAPACITY):
            columns.set(CAPACITY + name, event.capacity.get(name, 0))
        for name, amount in event.capacity.items():
            columns.set(CAPACITY + name, amount)

    def flush(self) -> None:
        """Writes the open steps."""
        for columns in self._columns.values():
            columns.flush()
        for pools in self._pools.values():
            pools.flush()
        for unread in self._unread.values():
            unread.flush()
