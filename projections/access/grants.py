"""The grants of a cell, as its views have them: bindings, tokens and who may read, kept in memory.

No request asks the views for it as long as nothing of it has changed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.access import Binding, readable
from events.records.parts import Actor
from events.signatures import PublicKey
from projections.views.reader import Views, ViewsAway

OPEN = "open"
"""The setting `access`: reading needs no role."""
LOOK_S = 0.25
"""Views that another process keeps don't say when they change: they are looked at so often at most."""
ACTORS_MAX = 4096


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was made for somebody."""

    token_id: str
    subject: str
    groups: frozenset[str]
    until_ms: int = 0
    is_revoked: bool = False


class Lockdown(NamedTuple):
    """The lockdown of a pool and all below it: why, since when, by whom."""

    reason: str
    from_ms: int
    actor: Actor | None = None


@dataclass(frozen=True)
class Granted:
    """All that is granted at one state of the views. `tokens`: by the SHA-256 of each. `lockdowns`: by pool, of the
    cell by `/`. `read_to`: the last offset of the topic of pools that was answered then, as in the record `Actor`.
    """

    bindings: Sequence[Binding] = ()
    tokens: Mapping[bytes, IssuedToken] = field(default_factory=dict)
    access: str = OPEN
    lockdowns: Mapping[str, Lockdown] = field(default_factory=dict)
    keys: Mapping[bytes, PublicKey] = field(default_factory=dict)
    """The keys that vouch for names in facts."""
    read_to: int = -1
    changed_by: str = ""
    """The decision that was the last to change any of it."""
    hashes_names: bool = False
    """Whether facts have hashes of names and addresses."""
    calls_per_s: int = 0
    streams_per_actor: int = 0
    """The quotas of each actor; 0: there is none."""
    _of_actors: dict[tuple[str, frozenset[str]], tuple[Binding, ...]] = field(default_factory=dict)

    def bindings_of(self, subject: str, groups: frozenset[str]) -> tuple[Binding, ...]:
        """The bindings of an actor, whether they hold now or not."""
        key = subject, groups
        bindings = self._of_actors.get(key)
        if bindings is None:
            bindings = tuple(each for each in self.bindings if each.is_of(subject, groups))
            if len(self._of_actors) >= ACTORS_MAX:
                self._of_actors.clear()
            self._of_actors[key] = bindings
        return bindings

    def reads_of(self, subject: str, groups: frozenset[str]) -> tuple[str, ...] | None:
        """The topmost pools that an actor may read; None: all of the cell."""
        return None if self.access == OPEN else readable(self.bindings_of(subject, groups), now_ms())


Load = Callable[[Connection, Granted], Granted]
"""Loads all that is granted; what was loaded before is returned where nothing has changed since."""


class Grants:
    """The present grants of a cell. Thread-safe."""

    def __init__(self, views: Views, load: Load) -> None:
        self._views = views
        self._load = load
        self._held: Granted | None = None
        self._version = -1
        self._look_at = 0.0

    def now(self) -> Granted:
        """The grants; asks the views where they have changed."""
        granted = self._held
        if granted is not None and not self._is_stale():
            return granted
        version = self._views.access_version
        self._look_at = time.monotonic() + LOOK_S
        try:
            with self._views.read_all() as connection:
                self._held = self._load(connection, granted or Granted())
        except ViewsAway:
            # What was known stays so; who knows nothing lets nobody in by a token, and has nothing to show.
            return granted or Granted()
        self._version = version
        return self._held

    async def fresh(self) -> Granted:
        """The same, without holding up others."""
        granted = self._held
        return await run_in_threadpool(self.now) if granted is None or self._is_stale() else granted

    def _is_stale(self) -> bool:
        if self._views.reached is None:
            return time.monotonic() >= self._look_at
        return self._views.access_version != self._version


def now_ms() -> int:
    """The time of this server."""
    return time.time_ns() // 1_000_000
