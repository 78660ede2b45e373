"""Series that count things by what they are at the moment: hosts by state, waiting tasks by reason. Each thing has a
state of its own, as its machine knows it (`unread.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.columns import I32, I64, spread
from events.host_offers import offer_fault
from events.reasons import kind_of
from events.records.base import Event
from events.records.entitlement import GangsHeld
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.lifecycle import HostReconciled
from events.records.placement import (
    GangsReturned,
    GangsUnplaced,
    HostAvoided,
    HostLost,
    HostRemoved,
    HostTrusted,
    TasksPlaced,
)
from projections.host_states import conditions, host_state_of
from projections.views import tables
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.ledger import Account, Ledger, account_of
from projections.views.reasons import per_job
from projections.views.record_context import Folds, RecordContext
from projections.views.series_rows import TallyRow
from projections.views.series_steps import TopicSteps

S = TypeVar("S")
Ranges = list[tuple[str, int, int]]
"""Code, first instance and count of tasks that wait."""
Unplaced = dict[int, list[tuple[str, int]]]
"""Codes and numbers of tasks for which placement found no place, what was said last first: by 1 those of the gang of
the job, by 0 others.
"""


class CodedRanges(msgspec.Struct, array_like=True):
    """The tasks of a job that wait, by code."""

    account: Account
    reasons: Ranges


class CodedCounts(msgspec.Struct, array_like=True):
    """The number of the tasks of a job that find no place, by code."""

    account: Account
    reasons: Unplaced


class Tally(Generic[S]):
    """The states of some things by name, counted in a series: `counts` says what one counts for."""

    def __init__(
        self,
        cache: Cache,
        steps: TopicSteps,
        series: str,
        state: Any,
        counts: Callable[[S], Mapping[str, int]],
        kept_as: str = "",
    ) -> None:
        self._rows = cache.tallies
        self._steps = steps
        self._series = series
        self._kept_as = kept_as or series
        self._decode: Callable[[bytes], S] = msgspec.msgpack.Decoder(state).decode
        self._counts = counts
        self.states: dict[str, S] = {}

    def restore(self, connection: Connection) -> None:
        """Finds the states again; what they count for stands in the series."""
        rows = tables.tallies.c
        mine = select(rows.name, rows.state).where(rows.series == self._kept_as)
        self.states = {name: self._decode(state) for name, state in connection.execute(mine)}

    def put(self, name: str, state: S | None) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Sets the state of a thing, or removes it; returns what it counted for, and what it counts for."""
        before = self.states.get(name)
        if state == before:
            return {}, {}
        fewer, more = self._counts(before) if before else {}, self._counts(state) if state else {}
        if fewer != more:
            for key in fewer:
                self._steps.add(f"{self._series}/{key}", -fewer[key])
            for key in more:
                self._steps.add(f"{self._series}/{key}", more[key])
        if state:
            self.states[name] = state
            self._rows.put(TallyRow(self._kept_as, name, msgspec.msgpack.encode(state)))
        elif before:
            del self.states[name]
            self._rows.remove((self._kept_as, name))
        return fewer, more


class TasksByCode:
    """Waiting tasks of jobs, each with the code that was said of it last."""

    def __init__(self, cache: Cache, steps: TopicSteps, ledger: Ledger, series: str, kept_as: str) -> None:
        self._tally = Tally[CodedRanges](
            cache, steps, series, CodedRanges, lambda state: _tasks_by_code(state.reasons), kept_as
        )
        self._jobs = cache.jobs
        self._ledger = ledger
        self.restore = self._tally.restore

    def said(self, moment: RecordContext, event: GangsHeld | GangsReturned) -> None:
        """Tasks wait for a code."""
        for job_id, instances in instances_of(event.job_ids, event.job_array, event.first_array, event.count_array):
            job = self._jobs.get(job_id)
            if job is not None and concerns(job, moment):
                self._put(job_id, account_of(job), instances, event.code, moment.now)

    def admitted(self, job_ids: Sequence[str], job: I32, first: I32, count: I32, at_ms: int) -> None:
        """Tasks are admitted."""
        for job_id, instances in instances_of(job_ids, job, first, count) if self._tally.states else ():
            self.left(job_id, instances, at_ms)

    def left(self, job_id: str, instances: I32 | I64, at_ms: int) -> None:
        """Tasks of a job are no longer in the queue."""
        if state := self._tally.states.get(job_id):
            self._put(job_id, state.account, instances, "", at_ms)

    def _put(self, job_id: str, account: Account, instances: I32 | I64, code: str, at_ms: int) -> None:
        """Tasks of a job wait for a code, or, without one, no longer."""
        state = self._tally.states.get(job_id)
        before = state.reasons if state else []
        codes = list(dict.fromkeys(["", *(each for each, _, _ in before), code]))
        size = max([int(instances.max(initial=-1)) + 1, *(first + count for _, first, count in before)])
        reasons = np.zeros(size, dtype=np.int64)
        for each, first, count in before:
            reasons[first : first + count] = codes.index(each)
        reasons[instances] = codes.index(code)
        edges = [0, *(np.flatnonzero(np.diff(reasons)) + 1).tolist(), size]
        parts = [(codes[reasons[first]], first, end - first) for first, end in pairwise(edges) if end > first]
        waits = [part for part in parts if part[0]]
        counts = self._tally.put(job_id, CodedRanges(account, waits) if waits else None)
        self._ledger.said(job_id, account, *counts, at_ms)


def _tasks_by_code(ranges: Ranges) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for code, _, count in ranges:
        counts[code] = counts.get(code, 0) + count
    return counts


def instances_of(job_ids: Sequence[str], job: I32, first: I32, count: I32) -> Iterable[tuple[str, I64]]:
    """The jobs that columns of ranges name, each with its instances."""
    order = np.argsort(job, kind="stable")
    ends = np.searchsorted(job[order], np.arange(len(job_ids)), side="right").tolist()
    for job_id, start, end in zip(job_ids, [0, *ends], ends, strict=False):
        mine = order[start:end]
        yield job_id, spread(first[mine], count[mine])


class UnplacedTasks:
    """Tasks that placement finds no place for, by reason.

    It says a reason again only where it is another one: tasks that come to wait while others of their job do wait for
    what was said last, and those of which another reason is said are some of them. Tasks that may run on one host alone
    and were returned are held back by nobody: they wait for that host until they are admitted again.
    """

    def __init__(self, cache: Cache, steps: TopicSteps, ledger: Ledger) -> None:
        self._tally = Tally[CodedCounts](
            cache,
            steps,
            "unplaced",
            CodedCounts,
            lambda state: _tasks_by_code(
                [(code, 0, tasks) for reasons in state.reasons.values() for code, tasks in reasons]
            ),
        )
        self._bound = TasksByCode(cache, steps, ledger, "unplaced", "bound")
        self._jobs = cache.jobs
        self._ledger = ledger
        self.folds: Folds = {GangsUnplaced: self._unplaced, GangsReturned: self._returned, TasksPlaced: self._placed}

    def restore(self, connection: Connection) -> None:
        """Finds the states again."""
        self._tally.restore(connection)
        self._bound.restore(connection)

    def _unplaced(self, moment: RecordContext, event: GangsUnplaced) -> None:
        job = self._jobs.get(event.job_id)
        if job is None or not concerns(job, moment):
            return
        state, kind = self._tally.states.get(event.job_id), int(event.size > 1)
        before = state.reasons.get(kind, []) if state else []
        same = sum(tasks for code, tasks in before if code == event.code)
        others = [each for each in before if each[0] != event.code]
        reasons = [(event.code, max(same, event.tasks)), *_without(others, event.tasks - same)]
        self._put(event.job_id, account_of(job), {kind: reasons}, moment.now)

    def _returned(self, moment: RecordContext, event: GangsReturned) -> None:
        gangs = event.gang_array
        for gang in (0, 1):
            for job_id, tasks in per_job(event, np.where(gangs == gang, event.count_array, 0)):
                self._fewer(job_id, tasks, moment.now, (gang,), event.code)
        if kind_of(event.code).bound:
            self._bound.said(moment, event)

    def _placed(self, moment: RecordContext, event: TasksPlaced) -> None:
        for job_id, tasks in per_job(event) if self._tally.states else ():
            self._fewer(job_id, tasks, moment.now)

    def admitted(self, job_ids: Sequence[str], columns: Sequence[I32], at_ms: int) -> None:
        """Tasks are admitted, by their columns `job`, `first`, `count` and `gang`."""
        job, first, count, gang = columns
        self._bound.admitted(job_ids, job, first, count, at_ms)
        for at, job_id in enumerate(job_ids) if self._tally.states else ():
            state = self._tally.states.get(job_id)
            for kind, (last, *others) in state.reasons.items() if state else ():
                more = int(count[(job == at) & (gang == kind)].sum())
                if state and more:
                    self._put(job_id, state.account, {kind: [(last[0], last[1] + more), *others]}, at_ms)

    def left(self, job_id: str, instances: I32 | I64, at_ms: int) -> None:
        """Tasks of a job are no longer in the queue."""
        self._fewer(job_id, len(instances), at_ms)
        self._bound.left(job_id, instances, at_ms)

    def _fewer(self, job_id: str, tasks: int, at_ms: int, kinds: tuple[int, ...] = (0, 1), code: str = "") -> None:
        """So many tasks of a job wait no longer, of those that waited for a code the first."""
        if (state := self._tally.states.get(job_id)) and tasks:
            those = {kind: reasons for kind, reasons in state.reasons.items() if kind in kinds}
            reasons = {kind: sorted(reasons, key=lambda each: each[0] != code) for kind, reasons in those.items()}
            fewer = {kind: _without(each, tasks) for kind, each in reasons.items()}
            self._put(job_id, state.account, fewer, at_ms)

    def _put(self, job_id: str, account: Account, more: Unplaced, at_ms: int) -> None:
        state = self._tally.states.get(job_id)
        all_said = (state.reasons if state else {}) | more
        reasons = {kind: all_said[kind] for kind in sorted(all_said) if all_said[kind]}
        counts = self._tally.put(job_id, CodedCounts(account, reasons) if reasons else None)
        self._ledger.said(job_id, account, *counts, at_ms)


def _without(reasons: Sequence[tuple[str, int]], tasks: int) -> list[tuple[str, int]]:
    """Takes so many tasks off reasons, off the first ones first."""
    rest = []
    for code, count in reasons:
        fewer = min(count, max(0, tasks))
        tasks -= fewer
        if count > fewer:
            rest.append((code, count - fewer))
    return rest


class KnownHost(msgspec.Struct, array_like=True):
    """A host as placement knows it."""

    session: int = 0
    offered: bool = False
    silent: bool = False
    reconciled: int = 0
    lost_session: int = -1
    avoided: bool = False

    def count(self) -> Mapping[str, int]:
        """Counts it as one host in its state."""
        state = host_state_of(
            conditions(
                lost=self.lost_session >= self.session,
                silent=self.silent,
                offered=self.offered,
                avoided=self.avoided,
                session=self.session,
                reconciled=self.reconciled,
            )
        )
        return {state.lower(): 1}


def session_event(event: Event) -> dict[str, Any]:
    """The fields of a host's state that an event of its session sets, in a fact of hosts or by lifecycle."""
    match event:
        case HostConnected():
            return {"session": event.session, "offered": False, "silent": False}
        case HostReconciled():
            return {"reconciled": event.session}
        case HostOffered():
            return {"offered": not offer_fault(event)}
        case HostSilent() | HostBack():
            return {"silent": isinstance(event, HostSilent)}
    return {}


class HostStates:
    """Hosts by state."""

    def __init__(self, cache: Cache, steps: TopicSteps) -> None:
        self._tally = Tally[KnownHost](cache, steps, "hosts", KnownHost, KnownHost.count)
        self.restore = self._tally.restore
        self.folds: Folds = {
            HostRemoved: self._removed,
            HostLost: lambda moment, event: self._set(event.host_id, lost_session=event.session),
            HostAvoided: lambda moment, event: self._set(event.host_id, avoided=True),
            HostTrusted: lambda moment, event: self._set(event.host_id, avoided=False),
        }

    def read(self, host_id: str, session: int, fields: Mapping[str, Any]) -> None:
        """Placement has read an event of a session of a host; of an earlier one it is void."""
        state = self._tally.states.get(host_id, KnownHost())
        if "reconciled" in fields:
            self._tally.put(host_id, msgspec.structs.replace(state, reconciled=max(state.reconciled, session)))
        elif session > state.session if "session" in fields else session == state.session:
            self._tally.put(host_id, msgspec.structs.replace(state, **fields))

    def _removed(self, moment: RecordContext, event: HostRemoved) -> None:
        self._tally.put(event.host_id, None)

    def _set(self, host_id: str, **fields: Any) -> None:
        state = self._tally.states.get(host_id, KnownHost())
        self._tally.put(host_id, msgspec.structs.replace(state, **fields))
