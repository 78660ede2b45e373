"""Folds what entitlement decides of pools, and what the cell has. Facts wait until they are answered; only what was
answered DONE shows.
"""

import msgspec
from sqlalchemy import Connection

from events.cell_settings import DEFAULTS, Settings, change_of, changed
from events.codec import decode
from events.codes import Code
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, PoolAnswered, PreemptionsOrdered
from events.records.placement import CapacityChanged
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.resources import in_order
from events.topics import POOLS, rounds_of
from projections.views.answers import add_answer
from projections.views.cache import Cache
from projections.views.reasons import per_job
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import CAPACITY_META, SETTINGS_META, MetaRow, PoolFactRow, PoolRow, to_json
from projections.views.unread import Unread


class PoolFold:
    """The fold of pools and their demand."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._unread = Unread(cache.unread, "pools", rounds_of("lifecycle"))
        """The jobs that lifecycle has forgotten and entitlement hasn't, each with its pool."""
        self._pools_of: dict[str, str] | None = None
        """The pools of these by job, of the submission that entitlement knows; None: to be found again."""
        self.folds: Folds = {
            PoolAnswered: self._answered,
            EntitlementsSet: self._set,
            GangsAdmitted: self._admitted,
            PreemptionsOrdered: self._preempted,
            CapacityChanged: self._capacity,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again what entitlement hasn't read."""
        self._unread.restore(connection)
        self._pools_of = None

    def flush(self) -> None:
        """Writes what isn't read yet."""
        self._unread.flush()

    def forgotten(self, moment: RecordContext, jobs: list[tuple[str, str]]) -> None:
        """Lifecycle has forgotten jobs, each with its pool; entitlement may admit their tasks until it reads that."""
        self._unread.add(moment.offset, jobs)
        self._pools_of = None

    def covered(self, position: int) -> None:
        """Entitlement has read what lifecycle said before a position."""
        if self._unread.read(position):
            self._pools_of = None

    def fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        """Folds a fact of the topic of pools."""
        match event:
            case PoolDefined(path=path) | PoolRemoved(path=path):
                self._cache.pool_facts.put(PoolFactRow(moment.offset, path, value))
            case CellConfigured():
                self._cache.pool_facts.put(PoolFactRow(moment.offset, "/", value))

    def _preempted(self, moment: RecordContext, event: PreemptionsOrdered) -> None:
        for at in event.from_pool_array.tolist():
            if (row := self._cache.pools.change(event.from_pools[at])) is not None:
                row.preempted += 1

    def _capacity(self, moment: RecordContext, event: CapacityChanged) -> None:
        whole = {"amounts": event.capacity, "hosts": event.hosts}
        self._cache.meta.put(MetaRow(CAPACITY_META, to_json(whole)))

    def _admitted(self, moment: RecordContext, event: GangsAdmitted) -> None:
        if self._pools_of is None:
            self._pools_of = {}
            for (jobs,) in reversed(self._unread.items()):
                self._pools_of.update(jobs)
        self._cache.jobs.load(event.job_ids)
        for job_id, tasks in per_job(event, event.count_array):
            job = self._cache.jobs.get(job_id)
            pool = self._pools_of.get(job_id, job.pool if job is not None else None)
            if pool is not None and (row := self._cache.pools.change(pool)) is not None:
                row.admitted += tasks

    def _answered(self, moment: RecordContext, event: PoolAnswered) -> None:
        add_answer(
            self._cache,
            moment,
            POOLS.name,
            event.pools_offset,
            event.path,
            event.code,
            event.message,
            event.command_id,
        )
        pending = self._cache.pool_facts.get(event.pools_offset)
        self._cache.pool_facts.remove(event.pools_offset)
        if pending is None or event.code != Code.DONE:
            return
        fact = decode(pending.value)
        if isinstance(fact, PoolRemoved):
            for rows in (self._cache.pools, self._cache.turns, self._cache.credits):
                rows.remove(fact.path)
        elif isinstance(fact, PoolDefined):
            row = self._cache.pools.change(fact.path) or self._cache.pools.put(PoolRow(fact.path, 0, b""))
            row.offset, row.spec, row.at_ms = event.pools_offset, pending.value, moment.now
        elif isinstance(fact, CellConfigured):
            settings = changed(settings_in(self._cache), change_of(fact))
            self._cache.meta.put(MetaRow(SETTINGS_META, to_json(settings)))

    def _set(self, moment: RecordContext, event: EntitlementsSet) -> None:
        kinds = {
            "entitlement": event.entitlement_array.tolist(),
            "demand": event.demand_array.tolist(),
            "allocation": event.allocation_array.tolist(),
            "placed": event.placed_array.tolist(),
        }
        daemons = event.daemons_array.tolist() if event.daemons else []
        for at, path in enumerate(event.pools):
            row = self._cache.pools.change(path)
            if row is None and path == "/":
                row = self._cache.pools.put(PoolRow(path, 0, b""))
            if row is None:
                continue
            for kind, amounts in kinds.items():
                setattr(row, kind, to_json(in_order(dict(zip(event.resources, amounts[at], strict=True)))))
            columns = [kinds[kind][at] for kind in ("entitlement", "allocation", "placed")]
            columns.append(daemons[at] if daemons else [0] * len(event.resources))
            _note_times(row, moment.now, list(zip(*columns, strict=True)))


def settings_in(cache: Cache) -> Settings:
    """The settings of the cell as entitlement's topic has them so far."""
    stored = cache.meta.get(SETTINGS_META)
    return msgspec.json.decode(stored.value, type=Settings) if stored else DEFAULTS


def _note_times(row: PoolRow, now: int, columns: list[tuple[int, ...]]) -> None:
    """Whether a pool has more on hosts than it may use, or less while admitted work has none; `columns`: what it is
    entitled to, is admitted, has on hosts, and what of that daemons have beside the shares, of each resource.
    """
    over = any(placed - daemons > entitled for entitled, _, placed, daemons in columns)
    short = [placed - daemons < entitled for entitled, admitted, placed, daemons in columns if placed < admitted]
    under = bool(short) and all(short)
    if row.over_since_ms and not over:
        row.over_ms += now - row.over_since_ms
    row.over_since_ms = (row.over_since_ms or now) if over else 0
    row.under_since_ms = (row.under_since_ms or now) if under else 0
