"""Folds the time series of a cell: what each topic says of it, step by step of that topic's log time."""

from sqlalchemy import Connection

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined
from events.topics import ALL, RANK, rounds_of
from projections.views.cache import Cache
from projections.views.pool_series import PoolNumbers, PoolTaskSeries, ShareSeries
from projections.views.record_context import RecordContext
from projections.views.series_columns import Columns
from projections.views.task_series import TaskSeries

LIFECYCLE, ENTITLEMENT, PLACEMENT = map(rounds_of, ("lifecycle", "entitlement", "placement"))
CAPACITY = "capacity/"
"""Before the names of the levels that are what the cell has of a resource."""


class SeriesFold:
    """See above."""

    def __init__(self, cache: Cache) -> None:
        self._columns = {topic.name: Columns(cache.series, RANK[topic.name]) for topic in ALL}
        self._numbers = PoolNumbers(cache)
        self._shares = ShareSeries(cache, RANK[ENTITLEMENT], self._numbers)
        pool_tasks = PoolTaskSeries(cache, RANK[LIFECYCLE], self._numbers)
        self._pools = {ENTITLEMENT: self._shares, LIFECYCLE: pool_tasks}
        self.tasks = TaskSeries(self._columns[LIFECYCLE], pool_tasks)

    def restore(self, connection: Connection) -> None:
        """Finds again what is derived from rows."""
        for columns in self._columns.values():
            columns.restore(connection)
        self._numbers.restore(connection)
        for topic, pools in self._pools.items():
            pools.restore(connection, self._columns[topic].second)
        self.tasks.restore(connection)

    def record(self, topic: str, at_ms: int) -> None:
        """A record of a topic was delivered; what it says is folded after that."""
        columns = self._columns[topic]
        columns.go_to(at_ms)
        columns.count("records")
        if topic in self._pools:
            self._pools[topic].go_to(at_ms)

    def fact(self, event: Event) -> None:
        """Folds a fact."""
        if isinstance(event, PoolDefined):
            self._numbers.define(event.path)

    def round(self, moment: RecordContext, decisions: int) -> None:
        """A machine has written a round: so much later than its logical time, that of the newest record it had read."""
        columns = self._columns[moment.topic]
        columns.count("rounds")
        columns.count("decisions", decisions)
        columns.peak("lag_ms", max(0, moment.at_ms - moment.now))

    def decision(self, event: Event) -> None:
        """Folds a decision of any machine."""
        match event:
            case EntitlementsSet():
                self._shares.changed(event.pools)
            case PoolAnswered(code=Code.DONE):
                self._shares.changed([event.path])
            case CapacityChanged():
                self._capacity(event)

    def _capacity(self, event: CapacityChanged) -> None:
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
