"""The parts that all routes share: the views, the log, positions in headers, waiting, and cursors of lists."""

import asyncio
import base64
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec
import orjson
from fastapi import Depends, Header, Query, Request, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import ALARM_UNREAD_MS, INT_MAX
from events.codec import encode
from events.hashed_names import NameHashes
from events.log.port import Log, NewRecord
from events.records.base import Event
from events.records.parts import Actor
from events.topics import MACHINES, POOLS
from paceline.client.cell_models import ServedCell
from paceline.client.operation_models import ProcessOperations, RoundResult
from paceline.client.output_ask import OutputAsk
from projections.access.grants import now_ms
from projections.access.identity import present
from projections.access.limits import ByLimits
from projections.api.acting import signed
from projections.api.fact_signing import FactSigning
from projections.api.log_loss import Appends
from projections.api.parameters import known_parameters
from projections.api.permits import FREE, Permits
from projections.api.problems import Problem, not_found, wrong_cell
from projections.api.request_limits import ConcurrencyLimit
from projections.api.what_if_questions import WhatIfs
from projections.queries import entities, log_time, pool_tree
from projections.queries.host_map import HostMaps
from projections.queries.job_counts import JobCounts
from projections.queries.job_list import OF_LIMITED_MAX, JobTexts
from projections.views.reader import BadPosition, Views, reached, read_positions, write_positions
from projections.views.rows import AnswerRow

READ_WAIT_S = 5.0
"""Seconds that a read waits for At-Least-Position."""
READS_MAX = 64
"""Reads that wait at once, for positions or for the output of a task."""
FOLLOWERS_MAX, FOLLOWERS_OF_CLIENT_MAX = 256, 64
"""Reads that wait at once until a task writes more."""
WAIT_MAX_S = 60.0
POOL_WAIT_S = 1.0
"""Seconds that a submission waits for unanswered facts about pools before its pool counts as unknown."""
NEWS_S = 0.01
"""Seconds after which a waiting request looks again whether the views have gone on."""
LOOK_S = 0.25
"""Seconds after which it looks into the views themselves, where the projector is another process."""
PAGE_MAX = 1000
LONG_MAX = (1 << 63) - 1
_WAIT = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0}


T = TypeVar("T")
E = TypeVar("E", bound=Event)


def spread(text: str) -> dict[int | None, str]:
    """Positions of several cells by cell, each part without it; None: of parts that name none. `paceline.jobs@1:17`."""
    by_cell: dict[int | None, list[str]] = {}
    for part in text.split(","):
        name, _, offset = part.strip().rpartition(":")
        topic, at, cell = name.partition("@")
        if at and not (cell.isascii() and cell.isdigit() and len(cell) < 10):
            raise Problem(400, "BAD_POSITION", f"{part[:80]!r} is no position; one looks like paceline.jobs@1:17")
        by_cell.setdefault(int(cell) if at else None, []).append(f"{topic}:{offset}")
    return {cell: ",".join(parts) for cell, parts in by_cell.items()}


def of_cell(text: str, cell: int) -> str:
    """The other way: positions of one cell, each with its number."""
    pairs = (part.rpartition(":") for part in text.split(",") if part)
    return ",".join(f"{topic}@{cell}:{offset}" for topic, _, offset in pairs)


class Operations(Protocol):
    """Asks the process that serves a cell for what the views don't have: itself, its stores, readers, snapshots, the
    archive, settings, alarms. Asked for in the background, the first time for up to a second; None: not known yet.
    """

    def __call__(self) -> ProcessOperations | None: ...  # noqa: D102 - the class says it


class RoundReplay(NamedTuple):
    """A replay of a round: `done` of `of` rounds are replayed; `result` or `error` once it is over."""

    done: int = 0
    of: int = 0
    result: RoundResult | None = None
    error: str = ""

    @property
    def over(self) -> bool:
        """Whether it was."""
        return self.result is not None or bool(self.error)


class Replays(Protocol):
    """Replays rounds, one at a time. Thread-safe."""

    def start(self, machine: str, number: int) -> RoundReplay:
        """Begins with a round, unless it is at work with that. Raises a problem while it is with another."""
        ...

    def last(self, machine: str, number: int) -> RoundReplay | None:
        """The last replay of a round; None: there was none, or it was forgotten."""
        ...

    def at_work(self) -> tuple[str, int] | None:
        """The round that is replayed now."""
        ...


class Plans(Protocol):
    """Has facts planned that nobody has written: the machines decide them on a copy of their state. Thread-safe."""

    def plan(self, jobs: Mapping[str, Sequence[Event]]) -> Any:
        """The plans of jobs, by id the facts that submit or update each, in their order, as JSON. Raises a problem
        where there are none.
        """
        ...

    def prepare(self) -> None:
        """Somebody may ask for a plan soon. Returns at once."""
        ...

    def plan_pools(self, facts: Sequence[Event]) -> Any:
        """The plan of facts that define pools, as JSON. Raises a problem where there is none."""
        ...

    def plan_drain(self, fact: Event) -> Any:
        """The plan of a fact that drains or moves hosts, as JSON. Raises a problem where there is none."""
        ...


class Placements(Protocol):
    """Derives again among which hosts a task was placed. Thread-safe."""

    def derive(self, round_: int, index: int, job_id: str, instance: int) -> Any:
        """The candidates of a decision of placement, see `paceline.moments.order.PlacementResult`. Raises a problem
        while another one is derived.
        """
        ...


class LogPage(Protocol):
    """A piece of a run's output, see `hostagent.messages.LogPage`."""

    @property
    def offset(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def data(self) -> bytes: ...  # noqa: D102 - the class says it
    @property
    def next_offset(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def ended(self) -> bool: ...  # noqa: D102 - the class says it
    @property
    def end(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def other_end(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def lost(self) -> int: ...  # noqa: D102 - the class says it


TaskLog = Callable[[OutputAsk, str | None], Awaitable[LogPage]]
"""The host None: the present one. Raises `LookupError` with a sentence."""


AskHost = Callable[[str, str], Awaitable[bytes]]
"""Asks a host what its runs use, those of a job or all: JSON of a `hostagent.messages.HostUsage`. Raises `LookupError`
with a sentence.
"""


class Execs(Protocol):
    """Carries commands to hosts and back. Each method raises `LookupError` with a sentence where that can't be."""

    async def open(self, ask: dict[str, Any]) -> str:
        """Has a command started inside a run, see `hostagent.gateway.exec_relay.ExecAsk`; its id."""
        ...

    async def typed(self, exec_id: str, chunks: AsyncIterator[bytes]) -> None:
        """Hands on what its user types, to the end of it."""
        ...

    async def written(self, exec_id: str) -> AsyncIterator[bytes]:
        """The frames that it writes, to its end."""
        ...


class Secrets(Protocol):
    """Keeps the values of secrets, and tells nothing of them. Each method raises `LookupError` where there is no such
    secret, `ConnectionError` where nobody can be asked, `ValueError` for what can't be; each with a sentence.
    """

    async def versions(self) -> list[dict[str, Any]]:
        """All versions there are."""
        ...

    async def find(self, name: str, version: int = 0) -> dict[str, Any]:
        """A version, 0: the newest."""
        ...

    async def put(self, name: str, value: bytes, actor: Actor | None = None, pool: str = "") -> dict[str, Any]:
        """Stores a value as the next version; the first says the pool whose jobs may name it, empty: `/`."""
        ...

    async def delete(self, name: str, version: int = 0, actor: Actor | None = None) -> list[int]:
        """Deletes a version, 0: all; which those were."""
        ...


@dataclass(frozen=True, slots=True)
class Caches:
    """The parts of answers that are kept, for readers who see the same."""

    texts: JobTexts = field(default_factory=JobTexts)
    host_maps: HostMaps = field(default_factory=HostMaps)

    @classmethod
    def of_limited(cls) -> "Caches":
        """Those of readers with the same limits, of whom there may be many kinds."""
        return cls(JobTexts(OF_LIMITED_MAX))


@dataclass(frozen=True, slots=True)
class Context:
    """The parts that routes work on. `facts`: where writes go; `others`: the same of the other cells, which are told of
    pools; `beside`: the contexts of those that this server has too.
    """

    views: Views
    log: Log
    facts: Appends
    permits: Permits
    cell_info: Callable[[], ServedCell]
    task_log: TaskLog | None
    streams_max: int
    others: list[Appends] = field(default_factory=list)
    operations: Operations | None = None
    replays: Replays | None = None
    plans: Plans | None = None
    placements: Placements | None = None
    what_ifs: WhatIfs | None = None
    alarm_unread_ms: int = ALARM_UNREAD_MS
    execs: Execs | None = None
    secrets: Secrets | None = None
    host_usage: AskHost | None = None
    names: NameHashes = field(default_factory=NameHashes)
    signing: FactSigning | None = None
    is_past: bool = False
    """Whether it shows a moment that is over."""
    has_ended: bool = False
    """Whether it shows a history to which nothing is added."""
    beside: "list[Context]" = field(default_factory=list)
    caches: ByLimits[Caches] = field(default_factory=lambda: ByLimits(Caches(), Caches.of_limited))
    counts: JobCounts = field(default_factory=JobCounts)
    waiting: ConcurrencyLimit = field(default_factory=lambda: ConcurrencyLimit(READS_MAX, "reads", "wait"))
    following: ConcurrencyLimit = field(
        default_factory=lambda: ConcurrencyLimit(FOLLOWERS_MAX, "followers", "wait", FOLLOWERS_OF_CLIENT_MAX)
    )

    @property
    def cell(self) -> int:
        """The number of the cell."""
        return self.log.cell

    def time_of(self, connection: Connection) -> int:
        """The time at which what ends by itself is looked at: the present, that of the moment, or the end of a history
        to which nothing is added.
        """
        over = self.is_past or self.has_ended
        return (over and log_time.newest_ms(connection)) or now_ms()

    @property
    def texts(self) -> JobTexts:
        """The texts of jobs, as who asks sees them."""
        return self.caches.mine().texts

    @property
    def host_maps(self) -> HostMaps:
        """The map of hosts, as who asks sees them."""
        return self.caches.mine().host_maps

    def by_whom(self, event: E, binding: int | None = None, read_to: int | None = None) -> E:
        """The fact with who makes the request and what allows it, signed where that is proven."""
        event = signed(event, binding, read_to)
        return event if self.signing is None else self.signing(event)

    def append(self, event: Event, key: str, before: Sequence[Event] = ()) -> int:
        """Writes a fact, after others of its topic, with who makes the request and what allows it; returns its offset.
        Raises a problem where nothing does.
        """
        permit = self.permits.fact(event, key)
        facts = [self.by_whom(each, *permit) for each in (*before, event)]
        return self.facts.append([NewRecord(each.topic, key.encode(), encode(each)) for each in facts])[-1]

    def append_uploads(self, uploads: Sequence[Event], key: str) -> None:
        """Writes what a fact to come names."""
        if uploads:
            self.append(uploads[-1], key, uploads[:-1])

    def append_to_others(self, event: Event, key: str) -> None:
        """Writes a fact to the other cells."""
        permit = self.permits.fact(event, key) if self.others else FREE
        for facts in self.others:
            facts.append([NewRecord(event.topic, key.encode(), encode(self.by_whom(event, *permit)))])

    def cells_with_pool(self, path: str) -> "list[Context]":
        """The contexts beside this one whose cells take a pool for one of this cell's."""

        def has(other: Context) -> bool:
            with other.views.read() as connection:
                return any(each["cell"] == self.cell for each in pool_tree.pools_json(connection, path))

        return [other for other in self.beside if has(other)]

    def prepare_plans(self) -> None:
        """Somebody may ask for a plan soon: whoever makes plans comes up meanwhile."""
        if self.plans is not None:
            self.plans.prepare()

    async def at_least(self, text: str, client: str) -> None:
        """Waits for positions as At-Least-Position has them, in a place of the client. Raises a problem where they
        can't be read or reached, or there is no place.
        """
        try:
            positions = read_positions(text)
        except BadPosition as error:
            raise Problem(400, "BAD_POSITION", str(error)) from error
        if await self.reach(positions, 0):
            return
        with self.waiting.one(client):
            caught_up = await self.reach(positions, READ_WAIT_S)
        if not caught_up:
            detail = f"the views have not reached {text[:200]} yet"
            position = await run_in_threadpool(self._position)
            raise Problem(503, "NOT_REACHED", detail, position=position, headers={"Retry-After": "1"})

    def _position(self) -> str:
        """The positions that the views have reached."""
        with self.views.read() as connection:
            return write_positions(reached(connection))

    async def settle_pools(self) -> None:
        """Waits until the facts about pools are answered that are in the log now: one may be a moment old."""
        end = await run_in_threadpool(lambda: self.log.ends([POOLS.name])[POOLS.name])
        if end:
            await self.reach({POOLS.name: end - 1}, POOL_WAIT_S)

    async def replay(self, machine: str, number: int, seconds: float) -> RoundReplay:
        """Has a round replayed, and waits so long for the result. Raises a problem."""
        await run_in_threadpool(self._must_have, machine, number)
        if self.replays is None:
            raise Problem(404, "NO_REPLAYS", "this server decides no round again; `paceline log verify` does")
        replays, deadline = self.replays, time.monotonic() + seconds
        progress = await run_in_threadpool(replays.start, machine, number)
        while not progress.over and time.monotonic() < deadline:
            await asyncio.sleep(NEWS_S)
            progress = replays.last(machine, number) or progress
        return progress

    def _must_have(self, machine: str, number: int) -> None:
        with self.views.read() as connection:
            if machine not in MACHINES or entities.round_offset(connection, machine, number) is None:
                raise not_found("round", f"{number} of {machine}")

    async def reach(self, positions: Mapping[str, int], timeout: float) -> bool:
        """Waits until the views have reached these offsets; False where they haven't in time."""
        return bool(await self._until(lambda: self.views.has(positions) or None, timeout, positions))

    async def answer(self, topic: str, offset: int, timeout: float) -> AnswerRow | None:
        """The answer to a fact, None where there is none in time."""

        def look() -> AnswerRow | None:
            with self.views.read() as connection:
                return entities.answer(connection, topic, offset)

        return await self._until(look, timeout, {topic: offset}) if timeout > 0 else None

    async def _until(self, look: Callable[[], T | None], timeout: float, positions: Mapping[str, int]) -> T | None:
        """Looks, in a thread, whenever the views have gone on, until there is something to see or time is up; there is
        nothing before they have reached what is `wanted`.
        """
        deadline = time.monotonic() + timeout
        version = self.views.version
        result = None if self.views.lacks(positions) else await run_in_threadpool(look)
        if result is not None or timeout <= 0:
            return result
        self.views.awaited += 1
        try:
            while result is None and time.monotonic() < deadline:
                look_at = min(deadline, time.monotonic() + LOOK_S)
                while self.views.version == version and time.monotonic() < look_at:
                    await asyncio.sleep(NEWS_S)
                version = self.views.version
                result = None if self.views.lacks(positions) else await run_in_threadpool(look)
        finally:
            self.views.awaited -= 1
        return result


async def wait_seconds(
    wait: Annotated[str | None, Query(description="How long to wait for the answer: 10s.")] = None,
) -> float:
    """The parameter `wait` in seconds."""
    if wait is None:
        return 0.0
    match = _WAIT.fullmatch(wait)
    if match is None:
        raise Problem(422, "INVALID_REQUEST", "wait must be a time such as 10s", [("/query/wait", "no time")])
    return min(WAIT_MAX_S, float(match[1]) * _SECONDS[match[2]])


Wait = Annotated[float, Depends(wait_seconds)]


def context_of(request: Request) -> Context:
    """The context of the app that a request came to."""
    context: Context = request.app.state.context
    return context


def client_of(request: Request) -> str:
    """The address that a request came from, empty where it is not known."""
    return request.client.host if request.client else ""


async def own_cell(
    request: Request,
    cell: Annotated[int | None, Query(ge=0, le=INT_MAX, description="The cell that is asked.")] = None,
) -> None:
    """Refuses what is meant for another cell, parameters that the route doesn't have, and who may not read it."""
    await known_parameters(request)
    if present().is_limited:
        context_of(request).permits.read(request.scope["route"].path_format)
    here = context_of(request).cell
    if cell is not None and cell != here:
        raise wrong_cell("what was asked for", cell, [here])


Look = Callable[[Connection], Any]


class Reader(NamedTuple):
    """Answers from one state of the views, in one thread; its positions stand in the header Log-Position."""

    context: Context

    async def __call__(self, look: Look) -> Response:
        """The JSON of what `look` finds. Raises what it raises."""
        return await run_in_threadpool(self._answer, look)

    def _answer(self, look: Look) -> Response:
        with self.context.views.read() as connection:
            value = look(connection)
            return as_json(value, write_positions(reached(connection)))


def as_json(value: Any, positions: str) -> Response:
    """An answer from the views as they are at these positions; bytes are JSON already."""
    text = value if isinstance(value, bytes) else orjson.dumps(value)
    return Response(text, headers={"Log-Position": positions}, media_type="application/json")


async def reader(
    request: Request, at_least_position: Annotated[str | None, Header(description="topic:offset,...")] = None
) -> Reader:
    """Waits for the positions that a reader has seen already."""
    context = context_of(request)
    if at_least_position:
        await context.at_least(at_least_position, client_of(request))
    return Reader(context)


Reading = Annotated[Reader, Depends(reader)]

Place = Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)]
"""A number in a page token."""


HISTORY_KEY: Any = tuple[Place, Place, Place, Place, Place]
"""Where a page of a history goes on: its order."""


@dataclass(frozen=True, slots=True)
class Paging:
    """The page of a list that a request is for."""

    size: int
    token: str

    def after(self, kind: type[T], *filters: Any) -> T | None:
        """Where the page begins, of the type that the list counts in; None: at the start. Raises a problem for a token
        that no list has given, and for one of another list.
        """
        if not self.token:
            return None
        try:
            text = base64.urlsafe_b64decode(self.token + "=" * (-len(self.token) % 4))
            digest, at = msgspec.json.decode(text, type=tuple[str, msgspec.Raw])
            if digest == _digest(filters):
                return msgspec.json.decode(at, type=kind)
        except (ValueError, msgspec.MsgspecError) as error:
            raise Problem(400, "BAD_PAGE_TOKEN", "the page token can't be read") from error
        told = "the page token belongs to a list with other parameters"
        raise Problem(422, "BAD_PAGE_TOKEN", told, [("/query/page_token", told)])


def next_token(at: Any, *filters: Any) -> str:
    """The cursor of the next page; empty at the end."""
    if at is None:
        return ""
    return base64.urlsafe_b64encode(msgspec.json.encode((_digest(filters), at))).rstrip(b"=").decode()


def _digest(filters: tuple[Any, ...]) -> str:
    """A digest of the parameters that a token holds for, however long they are."""
    return blake2b(msgspec.json.encode(filters), digest_size=12).hexdigest()


async def paging(
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
    page_token: Annotated[str, Query(description="next_page_token of the page before.")] = "",
) -> Paging:
    """The parameters of all lists."""
    return Paging(page_size, page_token)


Pages = Annotated[Paging, Depends(paging)]
