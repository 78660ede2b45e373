"""Folds the time series of a cell: what each topic says of it, step by step of that topic's log time (decision 047)."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from events.codes import Code
from events.columns import I32, I64, ints, pack_ints
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.lifecycle import GangsQueued, HostReconciled
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined
from events.topics import ALL, HOSTS
from projections.views.cache import Cache
from projections.views.ledger import Ledger
from projections.views.pool_series import PoolNumbers, PoolShares, PoolTasks
from projections.views.record_context import Folds, RecordContext
from projections.views.series_steps import TopicSteps
from projections.views.series_table import ENTITLEMENT, LIFECYCLE, PLACEMENT
from projections.views.tallies import HostStates, TasksByCode, UnplacedTasks, session_event
from projections.views.task_series import TaskSeries
from projections.views.unread import Unread

HostFact = HostConnected | HostOffered | HostSilent | HostBack
READ = {ENTITLEMENT: (LIFECYCLE,), PLACEMENT: (LIFECYCLE, HOSTS.name, ENTITLEMENT)}
"""The topics whose records count for the series of a machine's topic when that machine has read them."""


class SeriesFold:
    """The sources of the series of a cell, see `SERIES`."""

    def __init__(self, cache: Cache, ledger: Ledger) -> None:
        self._numbers = PoolNumbers(cache)
        self._shares, pool_tasks = PoolShares(cache, self._numbers), PoolTasks(cache, self._numbers)
        pools = {ENTITLEMENT: self._shares, LIFECYCLE: pool_tasks}
        self._steps = {topic.name: TopicSteps(cache.series, topic.name, pools.get(topic.name)) for topic in ALL}
        self._held = TasksByCode(cache, self._steps[ENTITLEMENT], ledger, "held", "held")
        self._unplaced = UnplacedTasks(cache, self._steps[PLACEMENT], ledger)
        self._hosts = HostStates(cache, self._steps[PLACEMENT])
        pairs = [(owner, topic) for owner, topics in READ.items() for topic in topics]
        self._unread = {pair: Unread(cache.unread, *pair) for pair in pairs}
        self.tasks = TaskSeries(self._steps[LIFECYCLE], pool_tasks, self._on_leaving)
        self.folds: Folds = {
            **self._unplaced.folds,
            **self._hosts.folds,
            GangsHeld: self._held.said,
            GangsAdmitted: self._admitted,
            GangsQueued: self._queued,
            HostReconciled: self._hear,
            EntitlementsSet: self._shared,
            PoolAnswered: self._answered,
            CapacityChanged: self._capacity,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again what is derived from rows."""
        self._numbers.restore(connection)
        for steps in self._steps.values():
            steps.restore(connection)
        for unread in self._unread.values():
            unread.restore(connection)
        for source in (self._held, self._unplaced, self._hosts, self.tasks):
            source.restore(connection)

    def record(self, topic: str, at_ms: int) -> None:
        """A record of a topic was delivered; what it says is folded after that."""
        steps = self._steps[topic]
        steps.go_to(at_ms)
        steps.count("records")

    def fact(self, moment: RecordContext, event: Event) -> None:
        """Folds a fact."""
        if isinstance(event, PoolDefined):
            self._numbers.define(event.path)
        elif isinstance(event, HostFact):
            self._hear(moment, event)

    def round(self, moment: RecordContext, decisions: int, covered: Mapping[str, int]) -> None:
        """A machine has written a round: so much later than its logical time, that of the newest record it had read.
        `covered`: how far that is, by topic.
        """
        for topic in READ.get(moment.topic, ()):
            for item in self._unread[moment.topic, topic].read(covered.get(topic, 0)):
                self._read(moment.topic, item)
        steps = self._steps[moment.topic]
        steps.count("rounds")
        steps.count("decisions", decisions)
        steps.peak("lag_ms", max(0, moment.at_ms - moment.now))

    def _hear(self, moment: RecordContext, event: HostFact | HostReconciled) -> None:
        item = (event.host_id, event.session, session_event(event))
        self._unread[PLACEMENT, moment.topic].add(moment.offset, *item)

    def _shared(self, moment: RecordContext, event: EntitlementsSet) -> None:
        self._shares.changed.update(event.pools)

    def _answered(self, moment: RecordContext, event: PoolAnswered) -> None:
        if event.code == Code.DONE:
            self._shares.changed.add(event.path)

    def _on_leaving(self, moment: RecordContext, job_id: str, instances: I64) -> None:
        """Lifecycle says that tasks of a job have left the queue for no host; other machines will read it."""
        for owner in (ENTITLEMENT, PLACEMENT):
            self._unread[owner, LIFECYCLE].add(moment.offset, job_id, pack_ints(instances), moment.now)

    def _admitted(self, moment: RecordContext, event: GangsAdmitted) -> None:
        columns = event.job_array, event.first_array, event.count_array
        self._held.admitted(event.job_ids, *columns, moment.now)
        self._coming(moment, event.job_ids, (*columns, event.gang_array))

    def _queued(self, moment: RecordContext, event: GangsQueued) -> None:
        keeps = event.admitted_array == 1
        if keeps.any():
            columns = event.job_array, event.first_array, event.count_array, event.gang_array
            self._coming(moment, event.job_ids, [column[keeps] for column in columns])

    def _coming(self, moment: RecordContext, job_ids: tuple[str, ...], columns: Sequence[I32]) -> None:
        """Tasks are admitted; placement will read it."""
        self._unread[PLACEMENT, moment.topic].add(moment.offset, job_ids, *map(pack_ints, columns), moment.now)

    def _read(self, owner: str, item: Sequence[Any]) -> None:
        """A machine has read what another topic says."""
        match item:
            case [job_ids, job, first, count, gang, at_ms]:
                self._unplaced.admitted(job_ids, [ints(column) for column in (job, first, count, gang)], at_ms)
            case [host_id, session, dict() as fields]:
                self._hosts.read(host_id, session, fields)
            case [job_id, instances, at_ms] if owner == ENTITLEMENT:
                self._held.left(job_id, ints(instances), at_ms)
            case [job_id, instances, at_ms]:
                self._unplaced.left(job_id, ints(instances), at_ms)

    def _capacity(self, moment: RecordContext, event: CapacityChanged) -> None:
        steps = self._steps[PLACEMENT]
        for name in [*steps.names("capacity"), *event.capacity]:
            steps.set(f"capacity/{name}", event.capacity.get(name, 0))

    def flush(self) -> None:
        """Writes the open steps."""
        for steps in self._steps.values():
            steps.flush()
        for unread in self._unread.values():
            unread.flush()
