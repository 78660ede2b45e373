"""Series that count things by what they are at the moment: hosts by state, waiting tasks by reason. Each thing has a
state of its own, as its machine knows it (`unread.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.columns import I32, I64, spread
from events.host_offers import offer_fault
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, GangsHeld
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
from projections.views.reasons import per_job
from projections.views.record_context import Folds, RecordContext
from projections.views.series_rows import TallyRow
from projections.views.series_steps import TopicSteps

S = TypeVar("S")
Ranges = list[tuple[str, int, int]]
"""Code, first instance and count of tasks that wait."""
Unplaced = dict[int, tuple[str, int]]
"""Code and number of the tasks of a job for which placement found no place: by 1 those of its gang, by 0 others."""


class Tally(Generic[S]):
    """The states of some things by name, counted in a series: `counts` says what one counts for."""

    def __init__(
        self, cache: Cache, steps: TopicSteps, series: str, state: Any, counts: Callable[[S], Mapping[str, int]]
    ) -> None:
        self._rows = cache.tallies
        self._steps = steps
        self._series = series
        self._decode: Callable[[bytes], S] = msgspec.msgpack.Decoder(state).decode
        self._counts = counts
        self.states: dict[str, S] = {}

    def restore(self, connection: Connection) -> None:
        """Finds the states again; what they count for stands in the series."""
        rows = tables.tallies.c
        mine = select(rows.name, rows.state).where(rows.series == self._series)
        self.states = {name: self._decode(state) for name, state in connection.execute(mine)}

    def put(self, name: str, state: S | None) -> None:
        """Sets the state of a thing, or removes it."""
        before = self.states.get(name)
        if state == before:
            return
        fewer, more = self._counts(before) if before else {}, self._counts(state) if state else {}
        if fewer != more:
            for key in fewer:
                self._steps.add(f"{self._series}/{key}", -fewer[key])
            for key in more:
                self._steps.add(f"{self._series}/{key}", more[key])
        if state:
            self.states[name] = state
            self._rows.put(TallyRow(self._series, name, msgspec.msgpack.encode(state)))
        elif before:
            del self.states[name]
            self._rows.remove((self._series, name))


class HeldTasks:
    """Tasks that entitlement holds back, by reason."""

    def __init__(self, cache: Cache, steps: TopicSteps) -> None:
        self._tally = Tally[Ranges](cache, steps, "held", Ranges, _tasks_by_code)
        self.restore = self._tally.restore
        self.folds: Folds = {GangsHeld: self._held, GangsAdmitted: self._admitted}

    def _held(self, moment: RecordContext, event: GangsHeld) -> None:
        for job_id, instances in _instances(event):
            self._put(job_id, instances, event.code)

    def _admitted(self, moment: RecordContext, event: GangsAdmitted) -> None:
        for job_id, instances in _instances(event) if self._tally.states else ():
            self.left(job_id, instances)

    def left(self, job_id: str, instances: I32 | I64) -> None:
        """Tasks of a job are no longer in the queue."""
        if job_id in self._tally.states:
            self._put(job_id, instances, "")

    def _put(self, job_id: str, instances: I32 | I64, code: str) -> None:
        """Tasks of a job wait for a code, or, without one, no longer."""
        before = self._tally.states.get(job_id, [])
        codes = list(dict.fromkeys(["", *(each for each, _, _ in before), code]))
        size = max([int(instances.max(initial=-1)) + 1, *(first + count for _, first, count in before)])
        reasons = np.zeros(size, dtype=np.int64)
        for each, first, count in before:
            reasons[first : first + count] = codes.index(each)
        reasons[instances] = codes.index(code)
        edges = [0, *(np.flatnonzero(np.diff(reasons)) + 1).tolist(), size]
        parts = [(codes[reasons[first]], first, end - first) for first, end in pairwise(edges) if end > first]
        self._tally.put(job_id, [part for part in parts if part[0]])


def _tasks_by_code(ranges: Ranges) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for code, _, count in ranges:
        counts[code] = counts.get(code, 0) + count
    return counts


def _instances(event: GangsHeld | GangsAdmitted) -> Iterable[tuple[str, I64]]:
    """The jobs that a record names, each with its instances."""
    job, first, count = event.job_array, event.first_array, event.count_array
    order = np.argsort(job, kind="stable")
    ends = np.searchsorted(job[order], np.arange(len(event.job_ids)), side="right").tolist()
    for job_id, start, end in zip(event.job_ids, [0, *ends], ends, strict=False):
        mine = order[start:end]
        yield job_id, spread(first[mine], count[mine])


class UnplacedTasks:
    """Tasks that placement finds no place for, by reason. It says a reason again only where it is another one, so tasks
    that come to wait later for the same one aren't counted.
    """

    def __init__(self, cache: Cache, steps: TopicSteps) -> None:
        self._tally = Tally[Unplaced](
            cache,
            steps,
            "unplaced",
            Unplaced,
            lambda state: _tasks_by_code([(code, 0, tasks) for code, tasks in state.values()]),
        )
        self.restore = self._tally.restore
        self.folds: Folds = {GangsUnplaced: self._unplaced, GangsReturned: self._returned, TasksPlaced: self._placed}

    def _unplaced(self, moment: RecordContext, event: GangsUnplaced) -> None:
        self._put(event.job_id, {int(event.size > 1): (event.code, event.tasks)})

    def _returned(self, moment: RecordContext, event: GangsReturned) -> None:
        gangs = event.gang_array
        for gang in (0, 1):
            for job_id, tasks in per_job(event, np.where(gangs == gang, event.count_array, 0)):
                self.left(job_id, tasks, (gang,))

    def _placed(self, moment: RecordContext, event: TasksPlaced) -> None:
        for job_id, tasks in per_job(event) if self._tally.states else ():
            self.left(job_id, tasks)

    def left(self, job_id: str, tasks: int, gangs: tuple[int, ...] = (0, 1)) -> None:
        """So many tasks of a job are no longer in the queue, or placed."""
        if state := self._tally.states.get(job_id):
            self._put(job_id, {gang: (state[gang][0], state[gang][1] - tasks) for gang in gangs if gang in state})

    def _put(self, job_id: str, more: Unplaced) -> None:
        state = self._tally.states.get(job_id, {}) | more
        self._tally.put(job_id, {gang: state[gang] for gang in sorted(state) if state[gang][1] > 0})


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
            HostRemoved: lambda moment, event: self._tally.put(event.host_id, None),
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

    def _set(self, host_id: str, **fields: Any) -> None:
        state = self._tally.states.get(host_id, KnownHost())
        self._tally.put(host_id, msgspec.structs.replace(state, **fields))
