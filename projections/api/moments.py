"""The past of the cells of a server: what a request with `?at=` is answered from.

A moment is a time, a round or a position in the log. It stands for one set of ends of the topics of each cell, the same
for everybody who names it, so a link shows what the sender saw.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

from anyio import CapacityLimiter, to_thread

from events.log.port import Log
from events.topics import BY_NAME
from paceline.client.cell_models import Machine, ServedCell
from projections.access.limits import ByLimits
from projections.api.context import READS_MAX, Caches, Context, of_cell
from projections.api.log_loss import LossCheckedLog
from projections.api.problems import Problem
from projections.api.request_limits import ConcurrencyLimit
from projections.record_json import at as time_text
from projections.views.reader import Views, chains_of, write_positions

KEPT_MAX = 16
"""Moments whose contexts are kept for the next request."""
NOT_OVER = "MOMENT_NOT_OVER"
"""Code of the problem that a moment is so new that records of it may still come."""
LOOK_S = 0.05
"""Seconds after which a waiting request looks again whether views are made."""
THREADS = 2
"""Moments are looked for in threads of their own: those of other requests stay free."""
DESCRIBED = "As it was at this moment: a time (RFC 3339), CELL/MACHINE/round/N, or CELL/TOPIC:OFFSET."

T = TypeVar("T")


@dataclass(frozen=True)
class Moment:
    """A moment that exists: as it is written, its time in milliseconds since 1970, and where each topic of each cell
    ended.
    """

    text: str
    at_ms: int
    ends: Mapping[int, Mapping[str, int]]

    @property
    def time(self) -> str:
        """The time in RFC 3339."""
        return str(time_text(self.at_ms))

    @property
    def positions(self) -> str:
        """The last records of each topic, as the header Log-Position has them; with cells where there are several."""
        texts = {
            cell: write_positions({topic: ends[topic] - 1 for topic in BY_NAME if ends.get(topic)})
            for cell, ends in self.ends.items()
        }
        if len(texts) == 1:
            return next(iter(texts.values()))
        return ",".join(filter(None, (of_cell(text, cell) for cell, text in texts.items())))


class Asker(NamedTuple):
    """The client that asks for a moment: its address, and whether it has the token; else fewer views are made."""

    client: str
    trusted: bool


class PastCell(NamedTuple):
    """The views of a cell as they were, and its log as it was."""

    views: Views
    log: Log


class Making(NamedTuple):
    """Views of a moment that are being made: `done` of `of` records are in them. Who asks again keeps them wanted."""

    moment: Moment
    done: int
    of: int


@dataclass(frozen=True, eq=False)
class Ready:
    """The cells as they were."""

    moment: Moment
    contexts: Mapping[int, Context]


class MomentSource(Protocol):
    """Finds moments and makes views of them. Any thread may ask; an answer takes some milliseconds."""

    def resolve(self, text: str) -> Moment:
        """The moment that a text names. Raises a problem where there is none."""
        ...

    def look(self, moment: Moment, asker: Asker) -> Mapping[int, PastCell] | Making:
        """The cells at a moment; while their views are made, how far that is. Raises a problem where they can't be
        made.
        """
        ...


class Moments:
    """The past of cells, as contexts like those of the present."""

    def __init__(self, contexts: Mapping[int, Context], source: MomentSource | None) -> None:
        self._contexts = contexts
        self._source = source
        self._kept: dict[str, tuple[Mapping[int, PastCell], Ready]] = {}
        self._waiting = ConcurrencyLimit(READS_MAX, "reads", "wait")
        self._threads: CapacityLimiter | None = None

    async def resolve(self, text: str, client: str) -> Moment:
        """The moment that a text names. Raises a problem."""
        with self._waiting.one(client):
            return await self._once_over(lambda: self._of_source().resolve(text))

    async def wait(self, text: str, asker: Asker, seconds: float) -> Ready | Making:
        """Reads as `look` does, and waits so long for views that are being made."""
        deadline = time.monotonic() + seconds
        with self._waiting.one(asker.client):
            while True:
                found = await self._once_over(lambda: self.look(text, asker))
                if isinstance(found, Ready) or time.monotonic() >= deadline:
                    return found
                await asyncio.sleep(LOOK_S)

    async def _once_over(self, ask: Callable[[], T]) -> T:
        """The resolved moment, once it is over: some seconds after it at most."""
        while True:
            try:
                return await self._in_thread(ask)
            except Problem as problem:
                if problem.code != NOT_OVER:
                    raise
            await asyncio.sleep(LOOK_S)

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        if self._threads is None:
            self._threads = CapacityLimiter(THREADS)
        return await to_thread.run_sync(ask, limiter=self._threads)

    def look(self, text: str, asker: Asker) -> Ready | Making:
        """The cells at the moment that a text names, or how far their making is. Raises a problem."""
        source = self._of_source()
        moment = source.resolve(text)
        found = source.look(moment, asker)
        if isinstance(found, Making):
            return found
        held = self._kept.pop(moment.text, None)
        if held is None or held[0] != found:
            contexts = {cell: past_context(self._contexts[cell], *past) for cell, past in found.items()}
            held = (found, Ready(moment, contexts))
        self._kept[moment.text] = held
        while len(self._kept) > KEPT_MAX:
            self._kept.pop(next(iter(self._kept)), None)
        return held[1]

    def _of_source(self) -> MomentSource:
        if self._source is None:
            raise Problem(404, "NO_PAST", "this server shows the present only")
        return self._source


def past_context(present: Context, views: Views, log: Log) -> Context:
    """The context of a cell with the views and the log of a moment. It takes no facts."""

    def cell_info() -> ServedCell:
        with views.read() as connection:
            machines: dict[str, Machine] = {
                machine: {"epoch": epoch, "round": round_} for machine, epoch, round_ in chains_of(connection)
            }
        return {**present.cell_info(), "machines": machines}

    return replace(
        present,
        views=views,
        log=log,
        is_past=True,
        facts=LossCheckedLog(views, log),
        cell_info=cell_info,
        others=[],
        operations=None,
        replays=None,
        plans=None,
        placements=None,
        what_ifs=None,
        beside=[],
        caches=ByLimits(Caches(), Caches.of_limited),
    )
