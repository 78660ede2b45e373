"""All hosts of a cell as columns: what maps, histograms and sums over tens of thousands of them are made of.

Most hosts say what many others say, in the same words: what stands in a column is decoded once for each text.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import OperationalError

from events.natural_order import natural_key
from events.resources import Kinds, is_gpu
from paceline.client.json_type import Json
from projections.host_states import HostState, conditions
from projections.queries.resources import kinds_of
from projections.views import tables
from projections.views.reader import Views, ViewsAway, folded, rows_as_text, write_positions

STATES = tuple(HostState)
"""By their numbers in columns."""
UP = STATES.index(HostState.UP)
NONE = 255
"""In a column of shares: the host has nothing of it."""
STEPS = 10
REST = 20
"""A map is renewed at most after so many times as long as that took,"""
AT_ONCE_S = 0.02
"""but one that is made so fast is always renewed."""
STALE_S = 15.0
"""No map is shown that is older, unless nothing has changed."""
GROUPS_MAX = 5000
OF_AGENTS = "paceline/"
NO_DEVICES = "[]"
NO_VALUE = ""
"""The group of hosts without an attribute."""

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
FLAGS = NDArray[np.bool_]
_hosts = tables.hosts.c
_ROWS = str(
    select(
        _hosts.host_id, _hosts.session, _hosts.silent_ms, _hosts.offered, _hosts.lost_session, _hosts.lost_code,
        _hosts.avoided_ms, _hosts.reconciled_session, _hosts.runs, _hosts.capacity, _hosts.sizes, _hosts.allocated,
        func.length(_hosts.devices), _hosts.attributes,
    ).order_by(_hosts.place, _hosts.host_id)
)  # fmt: skip
_amounts = msgspec.json.Decoder(dict[str, int])


@dataclass(slots=True)
class HostMap:
    """In the natural order of ids. `capacity` and `allocated`: of each kind, an amount for each host."""

    ids: list[str]
    state: U8
    runs: I64
    capacity: dict[str, I64]
    allocated: dict[str, I64]
    has_cards: FLAGS
    """Hosts that name devices, or offer an amount of GPUs."""
    _texts: list[str]
    """The texts of attributes, each once, and which of them each host has."""
    _attributes: I64
    version: str = ""
    """The version of the views that it was made of."""
    rest_ms: int = 0
    """So long it pays to wait before asking for the next one."""
    _read: list[Json] | None = None

    def share(self, name: str) -> U8:
        """Percent of a kind that runs hold, of each host; `NONE`: it has nothing of it."""
        have, held = self.capacity[name], self.allocated[name]
        percent = np.minimum(100, 100 * held // np.maximum(have, 1))
        return np.where(have > 0, percent, NONE).astype(np.uint8)

    def free(self, name: str) -> I64:
        """The free amount of a kind on hosts that take tasks; 0 on others."""
        return np.where(self.state == UP, np.maximum(0, self.capacity[name] - self.allocated[name]), 0)

    def steps(self, name: str) -> list[int]:
        """The number of hosts that are up and have given away 0 to under 10 percent of a kind, and so on; the last step
        has all of 90 and more.
        """
        share = self.share(name)[self.state == UP]
        counts: list[int] = np.bincount(step_of(share[share != NONE]), minlength=STEPS).tolist()
        return counts

    def counts(self) -> dict[str, int]:
        """The number of hosts in each state."""
        return dict(zip(STATES, np.bincount(self.state, minlength=len(STATES)).tolist(), strict=True))

    def attributes(self) -> list[str]:
        """The attributes of users that groups can be made by: those that several hosts have alike, and not all."""
        few = min(max(2, len(self.ids) // 2), GROUPS_MAX)
        return sorted(name for name, values in self._values().items() if 2 <= len(values) <= few)

    def telling(self) -> set[str]:
        """The attributes of users that aren't another for each host."""
        alone = max(2, len(self.ids))
        return {name for name, values in self._values().items() if len(values - {NO_VALUE}) < alone}

    def groups(self, attribute: str) -> tuple[list[str], NDArray[np.uint16]]:
        """The values of an attribute, in order, and which of them each host has."""
        told = [_text(each.get(attribute)) for each in self._told()]
        values = sorted(set(told))
        places = {value: place for place, value in enumerate(values)}
        numbers = np.array([places[value] for value in told] or [0], dtype=np.uint16)
        return values, numbers[self._attributes]

    def named(self, text: str) -> FLAGS:
        """The hosts whose id has a text in it; of `name=value` those with that attribute."""
        name, is_, value = text.partition("=")
        if not is_:
            return np.fromiter((text in each for each in self.ids), np.bool_, len(self.ids))
        fits = np.array([_text(each.get(name.strip())) == value.strip() for each in self._told()] or [False])
        return fits[self._attributes]

    def beyond(self, host_id: str) -> FLAGS:
        """The hosts after one in their order."""
        behind = bisect_right(self.ids, (natural_key(host_id), host_id), key=lambda each: (natural_key(each), each))
        return np.arange(len(self.ids)) >= (behind if host_id else 0)

    def _told(self) -> list[Json]:
        if self._read is None:
            self._read = [msgspec.json.decode(text) for text in self._texts]
        return self._read

    def _values(self) -> dict[str, set[str]]:
        """The values of each attribute of users; those of agents, `paceline/…`, say only what they can do."""
        told = self._told()
        names = {name for each in told for name in each if not name.startswith(OF_AGENTS)}
        return {name: {_text(each.get(name)) for each in told} for name in names}


def _text(value: Any) -> str:
    """The value of an attribute; empty: the host doesn't have it."""
    return NO_VALUE if value is None else str(value)


def step_of(share: U8) -> U8:
    """The tenth that a share in percent is in."""
    return np.minimum(share // STEPS, STEPS - 1).astype(np.uint8)


def host_map(connection: Connection) -> HostMap:
    """The hosts as they are in the views."""
    kinds = kinds_of(connection)
    columns: Sequence[Sequence[Any]] = list(zip(*rows_as_text(connection, _ROWS), strict=True)) or [()] * 14
    ids, session, silent, offered, lost_session, lost_code, avoided, reconciled, runs, *texts = columns
    numbers = {
        name: np.array(column, dtype=np.int64)
        for name, column in {
            "session": session,
            "silent": silent,
            "offered": offered,
            "avoided": avoided,
            "reconciled": reconciled,
        }.items()
    }
    lost = np.fromiter(map(bool, lost_code), np.bool_, len(ids))
    lost &= np.array(lost_session, dtype=np.int64) >= numbers["session"]
    capacity, sizes, allocated, devices, attributes = texts
    have = _columns(kinds, list(zip(capacity, sizes, strict=True)), lambda pair: used_of(kinds, *pair))
    allocation = _columns(kinds, allocated, _amounts.decode)
    state = _states(conditions(lost=lost, **numbers))
    index, known = _numbered(attributes)
    has_cards = np.array(devices, dtype=np.int64) > len(NO_DEVICES)
    for name, amount in have.items():
        if is_gpu(name):
            has_cards = has_cards | (amount > 0)
    return HostMap(list(ids), state, np.array(runs, dtype=np.int64), have, allocation, has_cards, known, index)


def _states(conditions_of_hosts: Mapping[HostState, FLAGS]) -> U8:
    """The number of the state of each host."""
    places = [STATES.index(state) for state in conditions_of_hosts]
    return np.select(list(conditions_of_hosts.values()), places, STATES.index(HostState.CONNECTING)).astype(np.uint8)


def _columns(kinds: Kinds, texts: Sequence[Any], read: Callable[[Any], dict[str, int]]) -> dict[str, I64]:
    """Amounts by kind, of each host."""
    index, known = _numbered(texts)
    rows = [read(text) for text in known]
    return {
        name: np.array([row.get(name, 0) for row in rows] or [0], dtype=np.int64)[index]
        for name in kinds.names
        if name not in kinds.licences
    }


def _numbered(texts: Sequence[Any]) -> tuple[I64, list[Any]]:
    """The number of the text that each host has, and the texts."""
    known: dict[Any, int] = {}
    index = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(texts))
    return index, list(known)


def used_of(kinds: Kinds, capacity: str, sizes: str) -> dict[str, int]:
    """The amounts that a host lends to tasks."""
    offered = _amounts.decode(capacity)
    ignored = kinds.ignored(offered, msgspec.json.decode(sizes))
    return {name: amount for name, amount in offered.items() if name not in ignored}


class HostMaps:
    """The newest map of some views, kept while they stand still. One of a large cell is kept a little longer and
    renewed beside its readers: none waits for it, and that takes a bounded part of a core.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._positions: dict[str, int] = {}
        self._map: HostMap | None = None
        self._made_at = self._took_s = 0.0
        self._renewal: threading.Thread | None = None

    def of(self, views: Views, connection: Connection) -> HostMap:
        """The map of the state that a connection of the views sees, or one of some seconds before."""
        positions = folded(connection)
        with self._lock:
            if self._map is not None:
                if positions == self._positions:
                    return self._map
                age = time.monotonic() - self._made_at
                if self._took_s > AT_ONCE_S and age < STALE_S:
                    if age > REST * self._took_s and (self._renewal is None or not self._renewal.is_alive()):
                        renew = partial(copy_context().run, self._renew, views)
                        self._renewal = threading.Thread(target=renew, daemon=True)
                        self._renewal.start()
                    return self._map
            return self._keep(positions, *_timed(connection))

    def _renew(self, views: Views) -> None:
        try:
            with views.read() as connection:
                positions, made = folded(connection), _timed(connection)
        except (ViewsAway, OperationalError):  # readers will say so
            return
        with self._lock:
            self._keep(positions, *made)

    def _keep(self, positions: dict[str, int], made: HostMap, took_s: float) -> HostMap:
        self._map, self._positions, self._took_s, self._made_at = made, positions, took_s, time.monotonic()
        made.version, made.rest_ms = write_positions(positions), int(1000 * REST * took_s)
        return made


def _timed(connection: Connection) -> tuple[HostMap, float]:
    """A new map, and the seconds that it took."""
    begin = time.monotonic()
    return host_map(connection), time.monotonic() - begin
