"""Connections of limited readers to views: made once for each set of limits, and kept for the next read.

Beside the temporary views of `limited_tables.py` such a connection knows the hosts of its reader: those on which runs
of jobs are that may be seen, and what these hold there.
"""

import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, Engine

from events.codes import LIVE_TASKS
from events.columns import I32
from projections.access.limits import Limits, Names
from projections.views.blocks import BLOCK, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.limited_tables import statements
from projections.views.rows import to_json
from projections.views.run_needs import need_of_version

KEPT_MAX = 32
"""Connections that are kept while nobody reads."""
_LIVE_JOBS = "SELECT base, slots, need, needs FROM jobs WHERE base >= 0 AND ordered + running + stopping_tasks > 0"
_OWN_NEEDS = "SELECT base, instance, own.need, jobs.need, needs FROM run_needs AS own JOIN jobs USING (job_id)"
_LIVE_BLOCK = "SELECT data FROM main.task_blocks WHERE block = ? AND live > 0"
_STATE, _HOST, _VERSION = map(TASK_COLUMNS.index, ("state", "host", "version"))
_needs = msgspec.json.Decoder(dict[str, dict[str, int]])
_amounts = msgspec.json.Decoder(dict[str, int])
_numbers = msgspec.json.Decoder(dict[str, Any])


class LimitedReads:
    """Opens connections of limited readers over an engine, and keeps those that aren't read from."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: OrderedDict[Limits, list[_Limited]] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def read(self, limits: Limits) -> Iterator[Connection]:
        """A connection whose selects all see the same state of what may be seen."""
        limited = self._take(limits) or _Limited(self._engine, limits)
        try:
            with limited.connection.begin():
                limited.begin()
                yield limited.connection
        finally:
            self._keep(limits, limited)

    def close(self) -> None:
        """Closes what is kept, and from now on what is given back."""
        with self._lock:
            self._closed = True
            idle = [each for some in self._idle.values() for each in some]
            self._idle.clear()
        for each in idle:
            each.connection.close()

    def _take(self, limits: Limits) -> "_Limited | None":
        with self._lock:
            some = self._idle.get(limits)
            limited = some.pop() if some else None
            if some == []:
                del self._idle[limits]
            return limited

    def _keep(self, limits: Limits, limited: "_Limited") -> None:
        with self._lock:
            self._idle.setdefault(limits, []).append(limited)
            self._idle.move_to_end(limits)
            surplus = None
            if self._closed or sum(map(len, self._idle.values())) > KEPT_MAX:
                longest = next(iter(self._idle))
                surplus = self._idle[longest].pop(0)
                if not self._idle[longest]:
                    del self._idle[longest]
        if surplus is not None:
            surplus.connection.close()


class _Limited:
    """A connection of a limited reader."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.connection = engine.connect()
        self.connection.detach()
        raw: sqlite3.Connection = self.connection.connection.dbapi_connection  # type: ignore[assignment]
        self._hosts = _OwnHosts(raw)
        self._names = names = Names(self.connection, limits)
        raw.create_function("own_runs", 1, self._hosts.runs)
        raw.create_function("own_amounts", 1, self._hosts.amounts)
        raw.create_function("named_jobs", 1, lambda text: to_json(names.counts(_amounts.decode(text), names.job)))
        raw.create_function("named_pools", 1, lambda text: to_json(names.counts(_amounts.decode(text), names.pool)))
        raw.create_function("named_numbers", 1, lambda text: to_json(names.told(_numbers.decode(text))))
        for statement in statements(limits):
            raw.execute(statement)

    def begin(self) -> None:
        """Another state of the views is read from now on."""
        self._hosts.forget()
        self._names.forget()


class _OwnHosts:
    """By the number of a host, the live runs there of jobs that may be seen, and what they hold. It is found when a
    query asks for the first host of a state of the views.
    """

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self._found: tuple[Counter[int], dict[int, Counter[str]]] | None = None

    def forget(self) -> None:
        """Another state of the views is read from now on."""
        self._found = None

    def runs(self, number: int | None) -> int:
        """The number of live runs on a host."""
        return self._all()[0].get(number or 0, 0)

    def amounts(self, number: int) -> str:
        """The amounts that these hold, as JSON."""
        return to_json(dict(self._all()[1].get(number, {})))

    def _all(self) -> tuple[Counter[int], dict[int, Counter[str]]]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def _find(self) -> tuple[Counter[int], dict[int, Counter[str]]]:
        runs, amounts_of = Counter[int](), dict[int, Counter[str]]()
        blocks: dict[int, I32] = {}
        for base, slots, need, needs in self._raw.execute(_LIVE_JOBS).fetchall():
            of_version = {int(version): each for version, each in _needs.decode(needs).items()}
            newest = _amounts.decode(need)
            for number in range(base // BLOCK, (base + slots - 1) // BLOCK + 1):
                if number not in blocks:
                    blocks[number] = self._block(number)
                first, last = max(0, base - number * BLOCK), min(BLOCK, base + slots - number * BLOCK)
                columns = blocks[number][:, first:last]
                live = columns[:, np.isin(columns[_STATE], LIVE_TASKS)]
                pairs = Counter(zip(live[_HOST].tolist(), live[_VERSION].tolist(), strict=True))
                for (host, version), count in pairs.items():
                    runs[host] += count
                    amounts = amounts_of.setdefault(host, Counter())
                    for name, amount in of_version.get(version, newest).items():
                        amounts[name] += amount * count
        for host, need, usual in self._others():
            amounts_of[host].update(need)
            amounts_of[host].subtract(usual)
        return runs, amounts_of

    def _others(self) -> Iterator[tuple[int, dict[str, int], dict[str, int]]]:
        """The host of each run that holds something else than its job asks, what it holds, and what its job asks."""
        for base, instance, own, need, needs in self._raw.execute(_OWN_NEEDS).fetchall():
            number, at = divmod(base + instance, BLOCK)
            host, version = self._block(number)[[_HOST, _VERSION], at].tolist()
            yield host, _amounts.decode(own), need_of_version(need, needs, version)

    def _block(self, number: int) -> I32:
        row = self._raw.execute(_LIVE_BLOCK, (number,)).fetchone()
        return unpack(row[0], len(TASK_COLUMNS)) if row else np.zeros((len(TASK_COLUMNS), 0), dtype=np.int32)
