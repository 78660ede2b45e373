"""The stream of the pages: what somebody looks at is loaded again when the views have changed, its parts are rendered
once for all who look at it, and those that have changed are sent.

A slow reader skips versions: only the newest of each part is kept. Each message is compressed once, too: as a piece of
a deflate stream that refers to nothing before it, so that pieces make a stream in whatever order they are sent.

Decision 051.
"""

import asyncio
import logging
import struct
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import orjson
from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import OperationalError

from events.log.port import LogError
from projections.access.limits import Limits, limits
from projections.api.problems import Problem
from projections.api.standing import Lasts
from projections.views.reader import ViewsAway

OF_STREAM_MAX = 32
"""The most pages that one stream may watch: all tabs of a browser share one."""
WATCHES_MAX = 1000
OF_CLIENT_MAX = 64
"""Different pages that all browsers of one address watch together."""
LOOK_S = 0.2
"""So often the hub looks whether the views have changed."""
EVERY_S = 1.0
"""A page is loaded at most so often,"""
AGES_S = 10.0
"""and at least so often, since pages show how long things last."""
REST = 4
"""After each load the hub rests so many times as long: it takes a fifth of a core at most."""
PING_S = 5.0
TELL_S = 60.0
"""So often one mistake is logged."""
RETRY = b"retry: 1000\n\n"
GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"

Load = Callable[[], Iterable[tuple[str, str]]]
"""Renders the parts of a page: id and HTML of each. Raises a problem where there is nothing to show any more."""
AWAY = (LogError, ViewsAway, OperationalError)
"""Exceptions that are raised while there is nothing to read."""
T = TypeVar("T")


def event(name: str, data: Any) -> bytes:
    """A message of the stream."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))


def deflated(text: bytes) -> bytes:
    """A piece of a deflate stream, compressed."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)


def stored(text: bytes) -> bytes:
    """A piece of a deflate stream, as it is: of less than 64 KiB."""
    return struct.pack("<BHH", 0, len(text), len(text) ^ 0xFFFF) + text


class Part(NamedTuple):
    """A part of a page: when it has changed, counted in changes, its HTML, and the message that brings it."""

    version: int
    html: str
    plain: bytes
    packed: bytes


@dataclass(eq=False)
class Watch:
    """A page that is looked at."""

    name: str
    load: Load
    limits: Limits | None = None
    """Those of its readers: with others the page shows something else."""
    readers: set["Reader"] = field(default_factory=set)
    parts: Mapping[str, Part] = field(default_factory=dict)
    loaded_at: float = float("-inf")
    changed_at: float | None = None
    """Since when the views have something that isn't loaded yet."""

    def clients(self) -> set[str]:
        """The addresses of those who look."""
        return {reader.client for reader in self.readers}

    def due(self, now: float) -> bool:
        """Whether it shall be loaded."""
        age = now - self.loaded_at
        return age >= AGES_S or (self.changed_at is not None and age >= EVERY_S)


class Hub:
    """The pages that are looked at in this process. `standing` tells one state of the views from another."""

    def __init__(self, standing: Callable[[], Any]) -> None:
        self._standing = standing
        self._state: Any = None
        self.looked_at = 0.0
        """When the views could be read last."""
        self._watches: dict[tuple[Limits | None, str], Watch] = {}
        self._version = 0
        self._task: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)
        self._told: dict[tuple[str, int | None], float] = {}
        """When a mistake was logged last, by where it is."""

    @contextmanager
    def reader(self, loads: Mapping[str, Load], packed: bool, client: str = "") -> Iterator["Reader"]:
        """A reader at an address looks at pages, by name, until it is left. Raises a problem where there are too
        many.
        """
        mine = limits()
        keys = {(mine, name) for name in loads}
        if len(loads) > OF_STREAM_MAX:
            raise Problem(400, "BAD_REQUEST", f"a stream watches {OF_STREAM_MAX} pages at most")
        if len(self._watches.keys() | keys) > WATCHES_MAX:
            raise Problem(
                503, "TOO_MANY_PAGES", f"{WATCHES_MAX} pages are watched already", headers={"Retry-After": "5"}
            )
        of_client = {key for key, watch in self._watches.items() if client in watch.clients()}
        if len(of_client | keys) > OF_CLIENT_MAX:
            detail = f"{OF_CLIENT_MAX} pages are watched from this address, no more are allowed"
            raise Problem(429, "TOO_MANY_PAGES", detail, headers={"Retry-After": "5"})
        watches = [self._watches.setdefault((mine, name), Watch(name, load, mine)) for name, load in loads.items()]
        reader = Reader(self, watches, packed, client)
        for watch in watches:
            watch.readers.add(reader)
        if self._task is None or self._task.done():
            self._thread, self.looked_at = CapacityLimiter(1), time.monotonic()
            self._task = asyncio.create_task(self._run())
        try:
            yield reader
        finally:
            for watch in watches:
                watch.readers.discard(reader)
                if not watch.readers:
                    self._watches.pop((watch.limits, watch.name), None)

    async def _run(self) -> None:
        """Loads what is due until nobody looks at anything."""
        while self._watches:
            try:
                await self._look()
            except AWAY:
                pass  # readers see that they are behind
            except Exception as error:
                self._tell("the views", error)
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Loads what is due. Raises what reading the views raises."""
        state = await self._in_thread(self._standing)
        self.looked_at = now = time.monotonic()
        if state != self._state:
            self._state = state
            for watch in self._watches.values():
                watch.changed_at = watch.changed_at or now
        due = [each for each in self._watches.values() if each.due(now)]
        for watch in sorted(due, key=lambda each: (-len(each.clients()), each.loaded_at)):
            await self._load(watch)
            await asyncio.sleep((time.monotonic() - watch.loaded_at) * REST)

    async def _load(self, watch: Watch) -> None:
        watch.loaded_at, changed_at = time.monotonic(), watch.changed_at
        try:
            watch.parts = await self._in_thread(lambda: dict(self._parts(watch)))
        except Problem as problem:
            watch.parts = {"": self._part(watch, "", problem.detail, event("gone", [watch.name, problem.detail]))}
        except AWAY:
            raise
        except Exception as error:  # a page with a mistake must not end the stream of the others
            self._tell(watch.name, error)
            return
        if watch.changed_at == changed_at:
            watch.changed_at = None
        for reader in watch.readers:
            reader.wake.set()

    def _tell(self, what: str, error: Exception) -> None:
        """Logs a mistake, once a minute by where it is: anybody may have it made again and again."""
        frame, now = traceback.extract_tb(error.__traceback__)[-1], time.monotonic()
        place = (frame.filename, frame.lineno)
        if now - self._told.get(place, float("-inf")) >= TELL_S:
            self._told[place] = now
            logging.getLogger(__name__).error("%.200s can't be loaded", what, exc_info=error)

    def _parts(self, watch: Watch) -> Iterator[tuple[str, Part]]:
        for name, html in watch.load():
            yield name, self._part(watch, name, html, event("part", [watch.name, name, html]))

    def _part(self, watch: Watch, name: str, html: str, message: bytes) -> Part:
        before = watch.parts.get(name)
        if before is not None and before.html == html:
            return before
        self._version += 1
        return Part(self._version, html, message, deflated(message))

    async def _in_thread(self, look: Callable[[], T]) -> T:
        return await to_thread.run_sync(look, limiter=self._thread)


class Reader:
    """One open stream."""

    def __init__(self, hub: Hub, watches: list[Watch], packed: bool, client: str) -> None:
        self._hub, self._watches, self._packed, self.client = hub, watches, packed, client
        self.wake = asyncio.Event()
        """Set when there is something new."""

    async def follow(self, lasts: Lasts) -> AsyncIterator[bytes]:
        """The stream: all parts first, then those that change, and each time how far behind they are, in seconds, as
        long as its reader may look.
        """
        seen = 0
        yield GZIP_HEAD + stored(RETRY) if self._packed else RETRY
        while await lasts():
            self.wake.clear()
            news = [part for watch in self._watches for part in watch.parts.values() if part.version > seen]
            seen = max((part.version for part in news), default=seen)
            fresh = event("fresh", round(self._behind_s(), 1))
            if self._packed:
                yield b"".join([*(part.packed for part in news), stored(fresh)])
            else:
                yield b"".join([*(part.plain for part in news), fresh])
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self.wake.wait()

    def _behind_s(self) -> float:
        """The age in seconds that the sent parts may have."""
        changed = [watch.changed_at for watch in self._watches if watch.changed_at is not None]
        return time.monotonic() - min([self._hub.looked_at, *changed])
