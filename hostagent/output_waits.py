"""Answers those who ask for output that a run has yet to write, as soon as it has: the kernel tells of each write
(decision 070).
"""

import asyncio
import ctypes
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

from hostagent.messages import LogLine, LogPage
from hostagent.run_record import RunKey
from hostagent.runs import Runs

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100
EVENT = struct.Struct("iIII")
EVENTS_BYTES = 65_536
GATHER_S = 0.02
"""So long more is gathered into an answer once there is something: one who writes a line each millisecond would cost an
answer each.
"""
WAITS_MAX = 1000
"""Those who wait beyond this many are answered at once."""
BLIND_S = 0.25
"""So often it is looked where the kernel tells nothing, as it has no watches left."""


class OutputWaits:
    """All who wait. `send` takes the answer to a request. For one event loop, and within `async with`."""

    def __init__(self, runs: Runs, send: Callable[[LogLine, LogPage | None], Awaitable[None]]) -> None:
        self._runs = runs
        self._send = send
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = -1
        self._waiting: dict[int, list[asyncio.Event]] = {}
        """Those who wait, by the watch of the folder of their run; without one below 0."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file >= 0:
            asyncio.get_running_loop().add_reader(self._file, self._told)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.drop_all()
        if self._file >= 0:
            asyncio.get_running_loop().remove_reader(self._file)
            os.close(self._file)

    def answer(self, ask: LogLine) -> None:
        """Takes a question, and sends the answer in time."""
        task = asyncio.create_task(self._answer(ask))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def look(self) -> None:
        """A run may have ended."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    def drop_all(self) -> None:
        """Nobody waits for answers any more."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, ask: LogLine) -> None:
        page, run = self._page(ask), self._runs.get(_key(ask))
        if ask.wait_ms and run is not None and not _says_something(ask, page) and len(self._tasks) <= WAITS_MAX:
            page = await self._page_in_time(ask, run.folder)
        with suppress(httpx2.HTTPError):  # who follows the orders meets it too
            await self._send(ask, page)

    async def _page_in_time(self, ask: LogLine, folder: Path) -> LogPage | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + ask.wait_ms / 1000
        with self._watching(folder) as (event, pause_s):
            while True:
                event.clear()
                page, rest_s = self._page(ask), until - loop.time()
                if rest_s <= 0 or _says_something(ask, page):
                    return page
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(rest_s, pause_s)):
                        await event.wait()
                    await asyncio.sleep(GATHER_S)

    def _page(self, ask: LogLine) -> LogPage | None:
        return self._runs.read(_key(ask), ask.stream, ask.offset, ask.limit)

    @contextmanager
    def _watching(self, folder: Path) -> Iterator[tuple[asyncio.Event, float]]:
        """An event that is set whenever something is written there, and after how many seconds to look all the same."""
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE
        watch = self._libc.inotify_add_watch(self._file, os.fsencode(folder), mask) if self._file >= 0 else -1
        event = asyncio.Event()
        events = self._waiting.setdefault(watch, [])
        events.append(event)
        try:
            yield event, inf if watch >= 0 else BLIND_S
        finally:
            events.remove(event)
            if not events:
                del self._waiting[watch]
                if watch >= 0:
                    self._libc.inotify_rm_watch(self._file, watch)

    def _told(self) -> None:
        """The kernel says what was written where."""
        with suppress(BlockingIOError):
            text, at = os.read(self._file, EVENTS_BYTES), 0
            while at < len(text):
                watch, _, _, length = EVENT.unpack_from(text, at)
                at += EVENT.size + length
                for event in self._waiting.get(watch, ()):
                    event.set()


def _key(ask: LogLine) -> RunKey:
    return RunKey(ask.job_id, ask.instance, ask.run)


def _says_something(ask: LogLine, page: LogPage | None) -> bool:
    return page is None or bool(page.data) or page.ended or 0 <= ask.other_offset < page.other_end
