"""Whether who makes a request may write what it is about to write (decision 104).

Each fact that the API writes goes through `Context.append`, or the same of batches; there it gets the actor, with the
binding that allowed it, or is refused. So no route can be forgotten. Dry runs and what is no fact ask by themselves.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from events.access import readable
from events.codec import decode
from events.hashed_names import NameHashes
from events.pool_paths import ROOT, parent_of
from events.records.base import Event
from events.records.jobs import ImagePrefetchRequested, JobSubmitted, JobUpdateRequested
from events.roles import Verb, roles_with
from projections.access.checks import judge
from projections.access.grants import OPEN, Grants, now_ms
from projections.access.identity import Identity, present
from projections.access.needs import NEEDS, Over
from projections.api.job_rows import find_job
from projections.api.problems import Problem
from projections.queries import entities
from projections.queries.access import is_own as is_own_job
from projections.queries.versions import submission
from projections.views.reader import Views
from projections.views.rows import JobRow

WORDS: dict[Verb, str] = {
    Verb.READ: "read",
    Verb.SUBMIT: "submit jobs",
    Verb.CHANGE: "change jobs",
    Verb.EXEC: "enter runs",
    Verb.COPY: "copy files of runs",
    Verb.FORWARD: "forward ports of runs",
    Verb.SECRETS: "put or delete secrets",
    Verb.VOLUMES: "remove volumes",
    Verb.POOLS: "define, change or remove pools",
    Verb.HOSTS: "manage hosts",
    Verb.SETTINGS: "change settings",
    Verb.LOCKDOWN: "set or end lockdowns",
    Verb.SNAPSHOTS: "make snapshots",
    Verb.EXPORT: "export the log",
    Verb.AUDIT: "audit",
    Verb.ACCESS: "bind roles and make tokens",
    Verb.GROW: "add instances",
}
"""The words for what a verb lets somebody do, over a pool."""

OF_THE_CELL = frozenset(
    (
        *("/v1/log", "/v1/log/quarantine", "/v1/cell/operations"),
        *("/v1/rounds/{machine}/{number}", "/v1/rounds/{machine}/{number}/replays"),
        *("/v1/what-ifs", "/v1/what-ifs/{what_if_id}"),
    )
)
"""Routes that show all of a cell, or nothing: who may read some pools alone may not read them."""


class Permit(NamedTuple):
    """The reason why something is allowed: the offset of the binding in the topic of pools, and how far the server had
    read that topic; None: none was needed.
    """

    binding: int | None = None
    read_to: int | None = None


FREE = Permit()


class Permits:
    """Permits what the present actor may, and raises a problem for anything else. Its methods may read the views."""

    def __init__(self, views: Views, grants: Grants, names: NameHashes) -> None:
        self._views = views
        self._grants = grants
        self._names = names

    def fact(self, event: Any, key: str = "") -> Permit:
        """The permit to write a fact; `key`: the job that it belongs to, where it doesn't say so itself."""
        who, need = present(), NEEDS[type(event)]
        if who.is_cell and not self._grants.now().lockdowns:
            return FREE
        if need.over is Over.JOB:
            job_id = getattr(event, "job_id", key)
            if who.run is not None:
                return self._of_run(event, job_id)
            if isinstance(event, ImagePrefetchRequested) and not self._is_there(job_id):
                return self.pool(need.verb, ROOT)  # of a job that is still to be submitted
            return self.job(need.verb, job_id)
        pool = ROOT if need.over is Over.CELL else getattr(event, "pool", "") or event.path
        return self.pool(need.verb, parent_of(pool) if need.over is Over.ABOVE else pool)

    def pool(self, verb: Verb, pool: str, own: bool = False) -> Permit:
        """The permit for a verb over a pool; `own`: on what is the actor's own there."""
        who, granted = present(), self._grants.now()
        verdict = judge(granted, who, verb, pool, own, now_ms())
        if verdict.locked:
            raise _locked_down(verdict.locked, granted.lockdowns[verdict.locked].reason)
        if not verdict.is_allowed:
            raise not_allowed(who, verb, pool)
        if who.is_cell:
            return FREE
        return Permit(verdict.binding.offset if verdict.binding else None, granted.read_to)

    @property
    def streams_max(self) -> int:
        """The number of streams that the present actor may have open; 0: as many as it likes."""
        return 0 if present().is_cell else self._grants.now().streams_per_actor

    def read(self, route: str) -> None:
        """Raises a problem where the present actor may not read what a route shows of all of the cell."""
        if not self.may_read(route):
            raise not_allowed(present(), Verb.READ, ROOT)

    def may_read(self, route: str) -> bool:
        """Whether the present actor may read what a route shows of all of the cell."""
        return not (present().is_limited and route in OF_THE_CELL)

    def audited(self) -> tuple[str, ...] | None:
        """The topmost pools that the present actor may audit; None: all of the cell. Raises a problem for none."""
        who, granted = present(), self._grants.now()
        if who.is_cell or (granted.access == OPEN and not who.is_limited):
            return None
        pools = readable(granted.bindings_of(who.subject, who.groups), now_ms(), Verb.AUDIT)
        if pools == ():
            raise not_allowed(who, Verb.AUDIT, ROOT)
        return pools

    def job(self, verb: Verb, job_id: str) -> Permit:
        """The permit for a verb on a job. Raises the problem that there is none where it may not be read."""
        with self._views.read() as connection:
            job = find_job(connection, job_id)
        who = present()
        is_own = who.run[0] == job_id if who.run is not None else self.is_own(job, who.subject)
        return self.pool(verb, job.pool, is_own)

    def is_own(self, job: JobRow, subject: str) -> bool:
        """Whether a subject has submitted a job, which gives it more rights there."""
        return is_own_job(job, subject, self._names, self._grants.now().keys)

    def taken(self, job_id: str, way_out: str) -> str:
        """The answer to a submission under the id of another job: who may change that job is told a way out."""
        try:
            self.job(Verb.CHANGE, job_id)
        except Problem:
            return taken(job_id)
        return way_out

    def _is_there(self, job_id: str) -> bool:
        with self._views.read() as connection:
            return entities.job_row(connection, job_id) is not None

    def _of_run(self, event: Event, job_id: str) -> Permit:
        """The permit of the token of a run: to add instances to its own job."""
        with self._views.read() as connection:
            grows = _grows(connection, event, find_job(connection, job_id).offset)
        return self.job(Verb.GROW if grows else Verb.CHANGE, job_id)


def _grows(connection: Connection, event: Event, offset: int) -> bool:
    """Whether a fact does no more than to add instances to the job whose present specification stands at an offset."""
    if not isinstance(event, JobUpdateRequested):
        return False
    spec, before = decode(event.spec), submission(connection, offset)
    if not isinstance(spec, JobSubmitted) or spec.instances <= before.instances:
        return False
    same = {"instances": before.instances, "actor": None, "command_id": "", "spec_hash": b""}
    fields = {name: value for name, value in same.items() if name in spec.__struct_fields__}
    return msgspec.structs.replace(spec, **fields) == msgspec.structs.replace(before, **fields)


def _locked_down(path: str, why: str) -> Problem:
    whose = "the cell" if path == ROOT else f"pool {path}"
    detail = f"{whose} is locked down ({why or 'no reason was given'}): operators alone write until that ends"
    return Problem(403, "LOCKED_DOWN", detail)


def not_allowed(who: Identity, verb: Verb, pool: str) -> Problem:
    """The problem of who may read something, and not do what they want to."""
    name = who.subject or ("the token of a run" if who.run else "who shows no token")
    roles = [*roles_with(verb, False), *_own(verb)]
    where = "all of the cell" if pool == ROOT else f"pool {pool}"
    by = f": a binding of {' or '.join(roles)} to {pool}{'' if pool == ROOT else ' or a pool above it'} would allow it"
    what = f"{WORDS[verb]} {where}" if verb is Verb.READ else f"{WORDS[verb]} in {where}"
    return Problem(403, "NOT_ALLOWED", f"{name} may not {what}{by if roles else ''}")


def _own(verb: Verb) -> Iterator[str]:
    for role in roles_with(verb, True):
        if role not in roles_with(verb, False):
            yield f"{role} (own {'secrets' if verb == Verb.SECRETS else 'jobs'})"


def taken(job_id: str, where: str = "") -> str:
    """The answer to a submission under the id of a job that is another's, or in another cell."""
    return f"another job was submitted under the id {job_id}{where}; choose another id"
