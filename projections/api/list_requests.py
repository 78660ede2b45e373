"""Requests for lists of jobs, hosts, pools and tasks: which of them are asked for, and the words that page tokens hold
for.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query, Request
from sqlalchemy import Connection

from events.actors import SUBJECT_MAX
from events.bounds import INT_MAX, WORD_MAX
from events.codes import Code, TaskState
from events.hashed_names import NameHashes
from events.instance_ranges import PATTERN, read_ranges
from projections.api.context import PAGE_MAX, Paging
from projections.api.problems import Problem
from projections.host_states import STAGES, HostState
from projections.queries.host_list import HostFilter
from projections.queries.known_names import unknown_host, unknown_job, unknown_pool
from projections.queries.tasks import TaskFilter

PAIRS_MAX = 32
"""Labels or attributes that a list may be asked for."""
RANGES_MAX = 1024
States = Annotated[str, Query(description="States, separated by commas.")]
Text = Annotated[str, Query(max_length=WORD_MAX, description="Part of the id.")]


async def actors_asked_for(
    request: Request,
    actor: Annotated[
        str, Query(max_length=SUBJECT_MAX, description="Only what this user wrote, by its `subject`.")
    ] = "",
) -> Sequence[str]:
    """The subjects that facts may name for a user whose facts are asked for; none: those of all are."""
    names: NameHashes = request.app.state.guards.authentication.names
    return names.forms(actor) if actor else ()


Actors = Annotated[Sequence[str], Depends(actors_asked_for)]


class HostsRequest(NamedTuple):
    """The request for a list of hosts."""

    filter: HostFilter
    words: tuple[Any, ...]


async def hosts_request(
    state: States = "",
    attribute: Annotated[list[str] | None, Query(max_length=PAIRS_MAX, description="key:value; all must hold.")] = None,
    text: Text = "",
) -> HostsRequest:
    """The parameters of the list of hosts."""
    states = states_of(state, [*(each.value for each in HostState), *STAGES])
    attributes = [pair_of("attribute", each) for each in attribute or ()]
    return HostsRequest(HostFilter(states, attributes, text), ("hosts", states, attributes, text))


HostsQuery = Annotated[HostsRequest, Depends(hosts_request)]


class PoolsRequest(NamedTuple):
    """The request for a list of pools: those at and below a path whose path has a text in it."""

    pool: str
    text: str


async def pools_request(
    pool: Annotated[str, Query(max_length=WORD_MAX, description="This pool and those below it.")] = "",
    text: Annotated[str, Query(max_length=WORD_MAX, description="Part of the path.")] = "",
) -> PoolsRequest:
    """The parameters of the list of pools."""
    return PoolsRequest(pool, text)


async def pools_paging(
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_MAX,
    page_token: Annotated[str, Query(description="next_page_token of the page before.")] = "",
) -> Paging:
    """The page of a list of pools: most cells have all in one."""
    return Paging(page_size, page_token)


PoolsQuery = Annotated[PoolsRequest, Depends(pools_request)]
PoolPages = Annotated[Paging, Depends(pools_paging)]


class TasksRequest(NamedTuple):
    """The request for a list of the tasks of a job."""

    filter: TaskFilter
    words: tuple[Any, ...]


async def tasks_request(
    state: States = "",
    host: Annotated[str, Query(max_length=WORD_MAX, description="On this host.")] = "",
    instances: Annotated[str, Query(max_length=16384, description="These instances: 0-99,200.")] = "",
) -> TasksRequest:
    """The parameters of the list of tasks."""
    states = states_of(state, TaskState.__members__)
    numbers = [TaskState[name] for name in states]
    return TasksRequest(TaskFilter(numbers, host, _ranges(instances)), (states, host, instances))


TasksQuery = Annotated[TasksRequest, Depends(tasks_request)]


def states_of(text: str, names_of: Collection[str], what: str = "state") -> list[str]:
    """The states that a list is asked for, each once; or `what` else. Raises a problem for what is none."""
    names = sorted({each for each in text.upper().split(",") if each})
    if unknown := [name for name in names if name not in names_of]:
        detail = f"{unknown[0][:40]!r} is no {what}; there are {', '.join(names_of)}"
        raise Problem(422, "INVALID_REQUEST", detail, [(f"/query/{what}", f"no {what}")])
    return names


def pair_of(parameter: str, pair: str) -> tuple[str, str]:
    """A label or an attribute as lists are asked for it. Raises a problem where it is none."""
    key, colon, value = pair.partition(":")
    if not colon:
        article = "an" if parameter == "attribute" else "a"
        text = f"{article} {parameter} is asked for as key:value"
        raise Problem(422, "INVALID_REQUEST", text, [(f"/query/{parameter}", "no key:value")])
    return key, value


def _ranges(text: str) -> Sequence[tuple[int, int]]:
    fault = "must be instances such as 0-99,200"
    try:
        ranges = read_ranges(text) if re.fullmatch(PATTERN, text) else []
    except ValueError as error:
        ranges, fault = [], str(error)
    if text and (not ranges or len(ranges) > RANGES_MAX or any(first + count > INT_MAX for first, count in ranges)):
        raise Problem(422, "INVALID_REQUEST", f"instances: {fault}", [("/query/instances", fault)])
    return ranges


def must_have_pool(connections: Iterable[Connection], path: str) -> None:
    """Raises a problem where a list is asked for a pool that isn't there."""
    if text := unknown_pool(connections, path):
        raise Problem(422, Code.NO_SUCH_POOL, text, [("/query/pool", text)])


def must_have_host(connections: Iterable[Connection], host_id: str) -> None:
    """Raises a problem where a list is asked for a host that isn't known."""
    if text := unknown_host(connections, host_id) if host_id else "":
        raise Problem(422, Code.NOT_FOUND, text, [("/query/host", text)])


def must_have_job(connections: Iterable[Connection], job_id: str) -> None:
    """Raises a problem where volumes are asked for of a job that isn't known."""
    if text := unknown_job(connections, job_id) if job_id else "":
        raise Problem(422, Code.NOT_FOUND, text, [("/query/job", text)])
