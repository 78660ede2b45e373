"""The jobs of a batch, checked one after the other on one state of the views: what all of them ask is asked once."""

import json
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from events.answers import other_specification
from events.codec import encode
from events.codes import ENDED_JOBS, Code
from events.log.port import NewRecord
from events.records.jobs import JobSubmitted
from events.roles import Verb
from events.spec.job import JobSpec
from projections.access.limits import limits
from projections.api.context import Context
from projections.api.image_tags import pinned
from projections.api.job_specs import checked_spec, invalid_spec, must_know_resources
from projections.api.permits import Permit, taken
from projections.api.problems import Problem
from projections.api.secrets import Pins
from projections.api.submissions import must_be_free, must_have_room, warnings_of
from projections.queries.pool_room import PoolRoom, room_of
from projections.queries.versions import submission
from projections.views.job_states import REJECTED
from projections.views.reader import rows_as_text

SHAPES_MAX = 16
"""So many kinds of jobs are remembered with the warnings that they got."""
_KNOWN = "SELECT job_id, state, offset FROM jobs WHERE job_id IN (SELECT value FROM json_each(?))"


class BatchItem(NamedTuple):
    """A job of a batch as its client sent it, the digest of its image where that is a tag, and the versions of its
    secrets.
    """

    body: Any
    digest: str = ""
    pins: Pins = Pins()


class Accepted(NamedTuple):
    """A job that nothing is known against, with the records that submit it. `state`: that of the job where it was
    submitted before; None: it is new.
    """

    event: JobSubmitted
    records: Sequence[NewRecord]
    warnings: list[str]
    state: str | None = None


def check_batch(context: Context, connection: Connection, items: Sequence[BatchItem]) -> list[Accepted | Problem]:
    """Checks jobs in their order, each as if those before it were there."""
    checks = _Checks(context, connection, [job_id for each in items if (job_id := id_of(each.body))])
    return [checks.outcome(each) for each in items]


def states_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """The states of those jobs that are there."""
    return {job_id: state for job_id, state, _ in _known(connection, job_ids)}


def id_of(body: Any) -> str | None:
    """The id in the JSON of a job; None: it has none that is whole text."""
    job_id = body.get("job_id") if isinstance(body, dict) else None
    return job_id if isinstance(job_id, str) and (job_id.isascii() or is_whole(job_id)) else None


def is_whole(value: Any) -> bool:
    """Whether the text in some JSON has no half of a character: nothing can store one."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def half_characters(jobs: Sequence[Any]) -> dict[int, Problem]:
    """The jobs of a request whose text has halves of characters, by number, and what is wrong with them."""
    try:
        msgspec.json.encode(jobs)
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
        return {number: _half(body) for number, body in enumerate(jobs) if not is_whole(body)}
    return {}


def _half(body: Any) -> Problem:
    fields = body.items() if isinstance(body, dict) else ()
    names = [f"/{name}" for name, value in fields if is_whole(name) and not is_whole(value)] or [""]
    return invalid_spec([(name, "has half of a character (a lone surrogate, such as \\ud800)") for name in names])


def _known(connection: Connection, job_ids: Sequence[str]) -> Sequence[tuple[str, str, int]]:
    return rows_as_text(connection, _KNOWN, (msgspec.json.encode(job_ids).decode(),)).fetchall()


class _Checks:
    """The checks of a batch, and what they have found so far."""

    def __init__(self, context: Context, connection: Connection, job_ids: Sequence[str]) -> None:
        self._context, self._connection = context, connection
        self._known = {row[0]: row for row in _known(connection, job_ids) if row[1] != REJECTED}
        self._elsewhere = {job_id: other.cell for other in context.beside for job_id in _present(other, job_ids)}
        self._hashes: dict[str, bytes] = {}
        self._rooms: dict[str, PoolRoom | None] = {}
        self._permits: dict[str, Permit] = {}
        self._jobs, self._tasks = Counter[str](), Counter[str]()
        self._warned = deque[tuple[JobSubmitted, list[str]]](maxlen=SHAPES_MAX)

    def outcome(self, item: BatchItem) -> Accepted | Problem:
        """The job, or the problem with it."""
        try:
            spec = checked_spec(self._context, item.body)
            event = pinned(spec.to_event(), item.digest)
            must_know_resources(self._connection, spec)
            state = self._state(event)
            if state is not None:
                return Accepted(event, (), [], state)
            event = item.pins.pinned(event)
            permit = self._permit(event.pool)
            must_have_room(self._connection, event, self._room(event.pool), self._context.cell)
            warnings = self._warnings(event, spec)
        except Problem as problem:
            return problem
        if event.job_id not in self._hashes:
            self._jobs[event.pool] += 1
            self._tasks[event.pool] += event.instances
        self._hashes[event.job_id] = event.spec_hash
        key = event.job_id.encode()
        by_whom = self._context.by_whom(event, *permit)
        value = spec.encoded if by_whom is spec.to_event() else encode(by_whom)
        chunks = [NewRecord(each.topic, key, encode(self._context.by_whom(each, *permit))) for each in spec.chunks]
        return Accepted(event, [*chunks, NewRecord(event.topic, key, value)], warnings)

    def _state(self, event: JobSubmitted) -> str | None:
        """The state of the job that was submitted like this before. Raises a problem where another one has its id."""
        job_id = event.job_id
        if (cell := self._elsewhere.get(job_id)) is not None:
            raise Problem(409, Code.ID_TAKEN, taken(job_id, f" to cell {cell}"))
        if job_id in self._hashes and self._hashes[job_id] != event.spec_hash:
            detail = f"another job of the request has the id {job_id}"
            raise Problem(409, Code.ID_TAKEN, detail, [("/job_id", detail)])
        if job_id not in self._known:
            if limits() is not None:
                must_be_free(self._context, job_id)
            return None
        _, state, offset = self._known[job_id]
        if submission(self._connection, offset).spec_hash == event.spec_hash:
            return state
        way_out = other_specification(job_id, state in ENDED_JOBS)
        raise Problem(409, Code.ID_TAKEN, self._context.permits.taken(job_id, way_out))

    def _permit(self, pool: str) -> Permit:
        """The permit to submit jobs to a pool."""
        if pool not in self._permits:
            self._permits[pool] = self._context.permits.pool(Verb.SUBMIT, pool)
        return self._permits[pool]

    def _room(self, path: str) -> PoolRoom | None:
        """The room that a pool has beside the jobs before."""
        if path not in self._rooms:
            self._rooms[path] = room_of(self._connection, path)
        room = self._rooms[path]
        if room is None or not self._jobs[path]:
            return room
        return room._replace(
            open_jobs=room.open_jobs + self._jobs[path], open_tasks=room.open_tasks + self._tasks[path]
        )

    def _warnings(self, event: JobSubmitted, spec: JobSpec) -> list[str]:
        """The warnings of a job; those that ask the same of hosts have the same."""
        asks = msgspec.structs.replace(event, job_id="", spec_hash=b"", command=(), env={}, description="", owner="")
        for other, warnings in self._warned:
            if other == asks:
                return warnings
        warnings = warnings_of(self._connection, event, spec.chunks).get("warnings", [])
        self._warned.appendleft((asks, warnings))
        return warnings


def _present(other: Context, job_ids: Sequence[str]) -> list[str]:
    """Those of some jobs that another cell has."""
    with other.views.read_all() as connection:
        return [job_id for job_id, state, _ in _known(connection, job_ids) if state != REJECTED]
