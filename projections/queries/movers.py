"""The record that moved a field last, found in the histories of the views, or in the newest rounds of the log."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, select

from events.codec import decode
from events.log.port import Log
from events.pool_paths import ROOT
from events.records.base import Event
from events.records.entitlement import CreditsSet, EntitlementsSet, PreemptionsOrdered
from events.records.hosts import HostsLoaded
from events.records.lifecycle import JobChanged, RunsEnded
from events.records.parts import Cause
from events.records.placement import CapacityChanged
from events.records.rounds import RoundCommitted
from events.topics import ALL, HOSTS, JOBS, POOLS, rounds_of
from projections.queries import host_runs, versions, why
from projections.queries.blame_fields import FIELDS, TASKS, Field, Target
from projections.queries.cause_index import ViewIndex
from projections.queries.entities import host_row
from projections.queries.job_entries import newest_first, oldest_first
from projections.queries.log_records import back
from projections.queries.why import Start
from projections.views import tables
from projections.views.cause_ties import FACT
from projections.views.job_history import detail_of
from projections.views.job_records import JobEntry
from projections.views.mentions import Window, mentioned
from projections.views.other_histories import of_host, of_pool
from projections.views.reader import folded
from projections.views.rows import JobRow

LOOKED_AT_MAX = 2000
"""Entries of a history, or records of the log, that are looked at."""
Takes = Callable[[Any], bool]


def _place(entry: JobEntry) -> Cause:
    """Where the record of an entry stands."""
    topic = ALL[entry.topic]
    if topic.machine:
        return Cause(machine=topic.machine, round=entry.round, index=entry.place)
    return Cause(topic=topic.name, offset=entry.offset)


def _last_change(values: Iterable[tuple[Start, Any]]) -> Start | None:
    """The record that made a value what it is: of the newest ones that all say the same, the oldest."""
    newest_value: tuple[Start, Any] | None = None
    for start, value in values:
        if newest_value is not None and value != newest_value[1]:
            break
        newest_value = start, value
    return newest_value[0] if newest_value else None


class Movers:
    """Finds who moved a field of one cell. `connection`: one of who asks; `job`: the row of the job in question."""

    def __init__(self, connection: Connection, log: Log, target: Target, job: JobRow | None = None) -> None:
        self._connection = connection
        self._log = log
        self._target = target
        self._job = job
        self._index = ViewIndex(connection, log)
        self._ways: dict[str, Callable[[Field], Start | None]] = {
            "first": self._first, "last": self._last, "state": self._state, "spec": self._spec,
            "priority": self._priority, "waiting": self._waiting, "tasks": self._tasks,
            "headline": self._headline, "task": self._task, "offer": self._offer, "runs": self._runs,
            "load": self._load, "pool": self._pool, "setting": self._setting, "entitled": self._entitled,
            "capacity": self._capacity, "round": self._round,
        }  # fmt: skip

    def last(self) -> Start | None:
        """The record; None: none is known."""
        field = FIELDS[self._target.kind][self._target.field]
        return self._ways[field.by](field)

    def order(self) -> Start | None:
        """The order of the run that hosts report of, where the target is a job or a task: a report names no cause."""
        if self._job is None:
            return None
        field = Field("", ("RunsOrdered",))
        return self._task(field) if self._target.kind == "task" else self._last(field)

    # Histories.

    def _entries(self, name: str, kinds: tuple[str, ...]) -> Iterator[JobEntry]:
        entries = (entry for entry in newest_first(self._connection, name) if entry.event in kinds)
        return islice(entries, LOOKED_AT_MAX)

    def _event(self, entry: JobEntry) -> Event | None:
        """The record of an entry, of several hosts as that of one."""
        if isinstance(entry.said, bytes):
            return decode(entry.said)
        topic = ALL[entry.topic]
        return self._index.event((topic.name, entry.offset, entry.place if topic.machine else FACT))

    @property
    def _history(self) -> str:
        return of_host(self._target.name) if self._target.kind == "host" else self._target.name

    def _first(self, field: Field) -> Start | None:
        entries = (each for each in oldest_first(self._connection, self._history) if each.event in field.kinds)
        return next((Start(_place(each)) for each in entries), None)

    def _newest(self, kinds: tuple[str, ...], moves: Callable[[JobEntry], bool] = lambda entry: True) -> Start | None:
        return next((Start(_place(each)) for each in self._entries(self._history, kinds) if moves(each)), None)

    def _last(self, field: Field) -> Start | None:
        return self._newest(field.kinds)

    def _waiting(self, field: Field) -> Start | None:
        """The record of the time since which the job waits: others of its tasks may have come or gone meanwhile."""
        since_ms = self._job.waits_ms if self._job else 0
        return self._newest(field.kinds, lambda entry: since_ms in (0, entry.at_ms))

    def _tasks(self, field: Field) -> Start | None:
        part = self._target.part
        if part not in TASKS:
            return self._last(field)
        ends = part in ("succeeded", "failed", "killed")

        def moves(entry: JobEntry) -> bool:
            return not ends or entry.event != RunsEnded.__name__ or part.upper() in self._ended(entry)

        return self._newest((*TASKS[part], "JobAccepted"), moves)

    def _priority(self, field: Field) -> Start | None:
        return self._newest(field.kinds, self._has_priority)

    def _has_priority(self, entry: JobEntry) -> bool:
        """Whether a record has set the priority of the job; an update may have left it as it was."""
        if entry.event != "UpdateStarted":
            return True
        rows = versions.versions(self._connection, self._job) if self._job else []
        number = detail_of(entry.said or {}).get("version", 0)
        values = [versions.spec_of(self._connection, row.offset)["priority"] for row in rows if row.version <= number]
        return len(values) > 1 and values[0] != values[1]

    def _ended(self, entry: JobEntry) -> set[str]:
        """The states that tasks got by the end of their runs."""
        from events.codes import TaskState

        event = self._event(entry)
        return {TaskState(each).name for each in event.next_array.tolist()} if isinstance(event, RunsEnded) else set()

    def _state(self, field: Field) -> Start | None:
        def values() -> Iterator[tuple[Start, str]]:
            for entry in self._entries(self._history, field.kinds):
                event = self._event(entry)
                yield Start(_place(entry)), event.state if isinstance(event, JobChanged) else entry.event

        return _last_change(values())

    def _headline(self, field: Field) -> Start | None:
        return next(iter(why.starts_of(self._connection, self._job)), None) if self._job else None

    def _spec(self, field: Field) -> Start | None:
        """The command, or the submission, with which the specification got this value."""
        job, name = self._job, self._target.field
        if job is None:
            return None

        def value(spec: Any) -> Any:
            for key in filter(None, (name if name != "spec" else "", self._target.part)):
                spec = spec.get(key) if isinstance(spec, dict) else None
            return spec

        def values() -> Iterator[tuple[Start, Any]]:
            for row in versions.versions(self._connection, job):
                spec = versions.spec_of(self._connection, row.offset)
                if row.command < 0 and row.update:
                    started = self._entries(job.job_id, ("UpdateStarted",))
                    entry = next((e for e in started if detail_of(e.said or {}).get("number") == row.update), None)
                    if entry is not None:
                        yield Start(_place(entry)), value(spec)
                        continue
                yield Start(Cause(topic=JOBS.name, offset=max(row.command, row.offset))), value(spec)

        return _last_change(values()) or Start(Cause(topic=JOBS.name, offset=job.offset))

    def _task(self, field: Field) -> Start | None:
        instance = self._target.instance
        window = Window(instance, instance)
        for entry in self._entries(self._target.name, field.kinds):
            if entry.last >= 0 and not entry.first <= instance <= entry.last:
                continue
            event = self._event(entry)
            runs = mentioned(event) if event else None
            rows = [] if runs is None else runs.rows(self._target.name, window).tolist()
            if runs is not None and rows:
                first, last = int(runs.first_run[rows[0]]), int(runs.last_run[rows[0]])
                return Start(_place(entry), (self._target.name, instance, first) if first == last else None)
            if runs is not None and not len(runs.job):  # it is about the job as a whole
                return Start(_place(entry))
        return None

    # Hosts.

    def _offer(self, field: Field) -> Start | None:
        name = {"ignored_resources": "capacity", "offer_refused": "capacity", "shrunk": "capacity"}.get(
            self._target.field, self._target.field
        )

        def values() -> Iterator[tuple[Start, Any]]:
            for entry in self._entries(self._history, field.kinds):
                event: Any = self._event(entry)
                names = ("port_first", "port_last") if name == "ports" else (name,)
                value = [getattr(event, each, None) for each in names]
                if self._target.part and isinstance(value[0], dict):
                    value = [value[0].get(self._target.part)]
                yield Start(_place(entry)), value

        return _last_change(values())

    def _runs(self, field: Field) -> Start | None:
        host = host_row(self._connection, self._target.name)
        runs = host_runs.host_runs(self._connection, host, 0) if host else []
        if not runs:
            return self._last(Field("last", ("HostConnected",)))
        newest = max(runs, key=lambda each: (each.ended_s or each.ordered_s, each.ordered_s))
        run, kind = (newest.job_id, newest.instance, newest.run), "RunsEnded" if newest.ended_s else "RunsOrdered"
        window = Window(newest.instance, newest.instance, newest.run, newest.run)
        for entry in self._entries(newest.job_id, (kind,)):
            event = self._event(entry)
            if event is not None and len(mentioned(event).rows(newest.job_id, window)):
                return Start(_place(entry), run)
        return None

    def _load(self, field: Field) -> Start | None:
        for record in islice(self._back(HOSTS.name), LOOKED_AT_MAX):
            event = decode(record.value)
            if isinstance(event, HostsLoaded) and self._target.name in event.host_ids:
                return Start(Cause(topic=HOSTS.name, offset=record.offset))
        return self._last(Field("last", ("HostConnected",)))

    # Pools and the cell.

    def _pool(self, field: Field) -> Start | None:
        name = {"strategy_in_effect": "strategy", "preemption_delay": "preemption_delay_ms"}.get(
            self._target.field, self._target.field
        )
        return self._set_by(of_pool(self._target.name), name, "PoolDefined") or self._defined()

    def _setting(self, field: Field) -> Start | None:
        name = self._target.field
        return self._set_by(of_pool(ROOT), name, "CellConfigured") or self._set_by(
            of_pool(ROOT), f"{name}_ms", "CellConfigured"
        )

    def _set_by(self, history: str, name: str, kind: str) -> Start | None:
        """The newest fact of a kind that changed a field, and was answered DONE; or that made the pool."""
        for entry in self._entries(history, ("PoolAnswered",)):
            detail = detail_of(entry.said or {})
            if detail.get("fact") != kind or detail.get("code") != "DONE" or f"{of_pool(detail['pool'])}" != history:
                continue
            changed = detail["changes"]
            place = Cause(topic=POOLS.name, offset=int(detail["cause"].rpartition(":")[2]))
            part = self._target.part
            is_named = f"{name}/{part}" in changed if part else any(each.partition("/")[0] == name for each in changed)
            whole = name in changed and (not part or self._names_part(place, name, part))
            shared = name == "share" and "share_default" in changed and self._shares_by_default(place, part)
            if is_named or whole or shared or detail.get("created"):
                return Start(place)
        return None

    def _shares_by_default(self, place: Cause, part: str) -> bool:
        """Whether a definition gives a resource the share that all have that it doesn't name; empty: any resource."""
        return part not in getattr(self._index.event((place.topic, place.offset, FACT)), "share", {})

    def _names_part(self, place: Cause, name: str, part: str) -> bool:
        """Whether a fact names one item of a list, such as a resource by its name."""
        items = getattr(self._index.event((place.topic, place.offset, FACT)), name, ())
        names = [getattr(each, "name", each) for each in items] if isinstance(items, tuple | list) else []
        return part in names

    def _defined(self) -> Start | None:
        """The definition that a pool has: what changed it before is kept no longer."""
        row = self._connection.execute(select(tables.pools.c.offset).where(tables.pools.c.path == self._target.name))
        offset = row.scalar()
        return None if offset is None else Start(Cause(topic=POOLS.name, offset=offset))

    def _entitled(self, field: Field) -> Start | None:
        path = self._target.name or ROOT
        name = {"held": "placed", "over_since": "placed", "under_since": "placed"}.get(
            self._target.field, self._target.field
        )

        def amounts(event: Any, column: str) -> dict[str, int]:
            row = getattr(event, f"{column}_array").tolist()[event.pools.index(path)]
            return dict(zip(event.resources, row, strict=True))

        def values() -> Iterator[tuple[Start, Any]]:
            for start, event in self._decided(EntitlementsSet.topic, lambda each: isinstance(each, EntitlementsSet)):
                if path not in event.pools:
                    continue
                if name == "without_hosts":
                    placed = amounts(event, "placed")
                    value = {key: most - placed[key] for key, most in amounts(event, "allocation").items()}
                else:
                    value = amounts(event, name)
                yield start, value.get(self._target.part, 0) if self._target.part else value

        return _last_change(values()) or (self._defined() if self._target.kind == "pool" else None)

    def _capacity(self, field: Field) -> Start | None:
        def values() -> Iterator[tuple[Start, Any]]:
            for start, event in self._decided(CapacityChanged.topic, lambda each: isinstance(each, CapacityChanged)):
                part = self._target.part
                value = event.hosts if self._target.field == "hosts" else event.capacity
                yield start, value.get(part, 0) if part and isinstance(value, dict) else value

        return _last_change(values())

    def _round(self, field: Field) -> Start | None:
        below = self._target.field.startswith("open_")
        for topic in dict.fromkeys(topic.name for topic in ALL if topic.machine and self._says(topic.machine, field)):
            for start, event in self._decided(topic, lambda each: type(each).__name__ in field.kinds):
                if self._about(event, below):
                    return start
        return self._defined()

    @staticmethod
    def _says(machine: str, field: Field) -> bool:
        from events.records import BY_NAME

        return any(BY_NAME[name].topic == rounds_of(machine) for name in field.kinds)

    def _about(self, event: Any, below: bool) -> bool:
        """Whether a decision is about the pool, or about jobs of it."""
        path = self._target.name
        if isinstance(event, PreemptionsOrdered):
            return path in event.from_pools
        if isinstance(event, CreditsSet):
            return path in event.pools
        if hasattr(event, "pool"):
            return bool(event.pool == path)
        job_ids = event.job_ids if hasattr(event, "job_ids") else (event.job_id,)
        pools = self._connection.scalars(select(tables.jobs.c.pool).where(tables.jobs.c.job_id.in_(job_ids[:500])))
        return any(each == path or (below and each.startswith(f"{path}/")) for each in pools)

    def _decided(self, topic: str, takes: Takes) -> Iterator[tuple[Start, Any]]:
        """Decisions of the newest rounds of a topic, the newest first."""
        for record in islice(self._back(topic), LOOKED_AT_MAX):
            round_ = decode(record.value)
            if not isinstance(round_, RoundCommitted):
                continue
            for index in reversed(range(len(round_.decisions))):
                event = decode(round_.decisions[index])
                if takes(event):
                    yield Start(Cause(machine=round_.machine, round=round_.round, index=index)), event

    def _back(self, topic: str) -> Iterator[Any]:
        ends = {topic: folded(self._connection).get(topic, 0)}
        return back(self._log, (topic,), ends, {topic: self._log.bounds(topic)[0]})
