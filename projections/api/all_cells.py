"""The routes of one server for several cells at once: lists over all of them, readiness, the cells themselves.

`?cell=N` asks one of them. A page token says for each cell where its part of the list goes on.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX
from paceline.client.cell_models import CellInfo, Readiness, SkippedRecord
from paceline.client.host_models import Host, Volume
from paceline.client.models import Task
from paceline.client.page_models import HostsPage, NameList, QuarantinePage, TasksPage, VolumesPage
from paceline.client.pool_models import PoolTree
from projections.api.context import Context, Pages, Paging, Place, as_json, client_of, next_token, of_cell, spread
from projections.api.jobs import JobsQuery, JobsRequest
from projections.api.list_requests import (
    HostsQuery,
    HostsRequest,
    PoolPages,
    PoolsQuery,
    must_have_host,
    must_have_job,
    must_have_pool,
)
from projections.api.names import NamesQuery, names_json
from projections.api.pool_views import PoolPlan, plan_json
from projections.api.pools import pools_page
from projections.api.problems import Problem, wrong_cell
from projections.api.system import lag_of
from projections.api.throttled import FIRST
from projections.api.volumes import PLACE, VolumesQuery, VolumesRequest, place_of
from projections.queries import entities, host_list
from projections.queries.job_list import page_text
from projections.queries.pages import RowsPage
from projections.queries.resources import kinds_json, kinds_of
from projections.queries.throttled import throttled
from projections.views.reader import reached, write_positions

R = TypeVar("R")


class OpenCell(NamedTuple):
    """A cell that was asked, and a state of its views."""

    context: Context
    connection: Connection


Cells = dict[int, OpenCell]


def routes(contexts: Mapping[int, Context]) -> APIRouter:
    """The routes that answer for all cells of a server."""

    async def asked(cell: Annotated[int | None, Query(ge=0, le=INT_MAX)] = None) -> Mapping[int, Context]:
        if cell is not None and cell not in contexts:
            raise wrong_cell("what was asked for", cell, list(contexts))
        return contexts if cell is None else {cell: contexts[cell]}

    async def at_least(
        request: Request,
        asked: Annotated[Mapping[int, Context], Depends(asked)],
        at_least_position: Annotated[str, Header()] = "",
    ) -> Mapping[int, Context]:
        for cell, text in spread(at_least_position).items() if at_least_position else ():
            if cell is None and len(asked) > 1:
                detail = "several cells answer: name the cell in the position, as in paceline.jobs@1:17"
                raise Problem(400, "BAD_POSITION", detail)
            for number in asked if cell is None else asked.keys() & {cell}:
                await asked[number].at_least(text, client_of(request))
        return asked

    async def cells(asked: Annotated[Mapping[int, Context], Depends(at_least)]) -> CellsReader:
        return CellsReader(asked)

    return _routes(asked, cells, list(contexts))


class CellsReader(NamedTuple):
    """Answers from one state of the views of each cell, see `Reader`."""

    contexts: Mapping[int, Context]

    async def __call__(self, look: Callable[[Cells], Any]) -> Response:
        """The JSON of what `look` finds. Raises what it raises."""
        return await run_in_threadpool(self._answer, look)

    def _answer(self, look: Callable[[Cells], Any]) -> Response:
        with ExitStack() as stack:
            open_cells = {
                cell: OpenCell(each, stack.enter_context(each.views.read())) for cell, each in self.contexts.items()
            }
            value = look(open_cells)
            each = (of_cell(write_positions(reached(at.connection)), cell) for cell, at in open_cells.items())
            return as_json(value, ",".join(filter(None, each)))


def _routes(asked: Callable[..., Any], cells: Callable[..., Any], served: list[int]) -> APIRouter:
    router = APIRouter()
    _lists(router, cells)

    @router.get("/v1/cell", response_model=None)
    def cell(contexts: Annotated[Any, Depends(asked)]) -> CellInfo:
        """A cell, the first where none is named, and the numbers of all that are served."""
        first: Context = next(iter(contexts.values()))
        with first.views.read() as connection:
            resources = kinds_json(kinds_of(connection))
        return {"cell": first.cell, **first.cell_info(), "resources": resources, "cells": served}

    @router.get("/readyz")
    async def readyz(read: Annotated[Any, Depends(cells)]) -> Response:
        """Whether the views of all cells are close behind their logs."""

        def look(open_cells: Cells) -> Readiness:
            lags = {number: lag_of(*each) for number, each in open_cells.items()}
            lag = {f"{topic}@{number}": lag for number, of in lags.items() for topic, lag in of.items()}
            return {"ready": True, "lag": lag}

        response: Response = await read(look)
        return response

    return router


def _lists(router: APIRouter, cells: Callable[..., Any]) -> None:
    @router.get("/v1/jobs")
    async def jobs(read: Annotated[Any, Depends(cells)], page: Pages, asked_for: JobsQuery) -> Response:
        """Jobs of all cells, without their specs."""
        at = page_starts(page, tuple[Place, Place], *asked_for.words)

        def look(open_cells: Cells) -> bytes:
            must_have_pool([each.connection for each in open_cells.values()], asked_for.filter.pool)
            return jobs_page(open_cells, page, asked_for, at)

        return await read(look)  # type: ignore[no-any-return]

    @router.get("/v1/hosts")
    async def hosts(read: Annotated[Any, Depends(cells)], page: Pages, asked_for: HostsQuery) -> Response:
        """Hosts of all cells, by id, numbers within ids by their value."""
        at = page_starts(page, str, *asked_for.words)
        return await read(lambda open_cells: _hosts(open_cells, page, asked_for, at))  # type: ignore[no-any-return]

    @router.get("/v1/throttled-tasks")
    async def throttled_tasks(read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Tasks of all cells that wait before they are run again, by job."""
        at = page_starts(page, tuple[Place, Place], "throttled")
        return await read(lambda open_cells: _throttled(open_cells, page, at))  # type: ignore[no-any-return]

    @router.get("/v1/pools")
    async def pools(read: Annotated[Any, Depends(cells)], page: PoolPages, asked_for: PoolsQuery) -> Response:
        """Pools of all cells, by path, and what each cell has."""
        after = page.after(str, "pools", *asked_for) or ""

        def look(open_cells: Cells) -> PoolTree:
            connections = {cell: each.connection for cell, each in open_cells.items()}
            return pools_page(connections, asked_for, page, after)

        return await read(look)  # type: ignore[no-any-return]

    @router.post("/v1/pool-plans")
    async def plan(body: PoolPlan, read: Annotated[Any, Depends(cells)]) -> Response:
        """Tells the effects of a change of pools in each cell, without changing them."""
        return JSONResponse(await run_in_threadpool(plan_json, body, list(read.contexts.values())), 200)

    @router.get("/v1/names")
    async def names(read: Annotated[Any, Depends(cells)], asked_for: NamesQuery) -> Response:
        """Names of all cells that begin so."""

        def look(open_cells: Cells) -> NameList:
            return names_json([each.connection for each in open_cells.values()], asked_for)

        return await read(look)  # type: ignore[no-any-return]

    @router.get("/v1/volumes")
    async def volumes(asked_for: VolumesQuery, read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Volumes of all cells, by host and task."""
        at = page_starts(page, PLACE, "volumes", *asked_for)
        return await read(lambda open_cells: _volumes(open_cells, page, asked_for, at))  # type: ignore[no-any-return]

    @router.get("/v1/log/quarantine")
    async def quarantine(read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Records of all cells that were skipped, by topic and offset."""
        at = page_starts(page, tuple[str, Place], "quarantine")
        return await read(lambda open_cells: _quarantine(open_cells, page, at))  # type: ignore[no-any-return]


def jobs_page(cells: Cells, page: Paging, request: JobsRequest, at: Mapping[int, tuple[int, int]]) -> bytes:
    """The body of a page of jobs."""
    rows = {
        cell: each.context.texts.page(each.connection, request.filter, page.size, at.get(cell))
        for cell, each in cells.items()
    }
    merged = spliced(rows, page.size, lambda job: job.order(request.filter))
    token = next_page_token(rows, merged, at, lambda job: job.place(request.filter), *request.words)
    return page_text([job.text[:-1] + b',"cell":%d}' % cell for cell, job in merged], token)


def _hosts(cells: Cells, page: Paging, request: HostsRequest, at: dict[int, str]) -> HostsPage:
    rows = {
        cell: host_list.host_rows(each.connection, request.filter, page.size, at.get(cell, ""))
        for cell, each in cells.items()
    }
    merged = spliced(rows, page.size, host_list.order_of)
    token = next_page_token(rows, merged, at, lambda row: row.host_id, *request.words)
    kinds = {cell: kinds_of(each.connection) for cell, each in cells.items()}
    by_host: dict[tuple[int, str], Host] = {}
    for cell, each in cells.items():
        mine = [row for number, row in merged if number == cell]
        by_host |= {(cell, host["host_id"]): host for host in host_list.hosts_json(each.connection, mine, kinds[cell])}
    hosts: list[Host] = [{**by_host[cell, row.host_id], "cell": cell} for cell, row in merged]
    return {"hosts": hosts, "next_page_token": token}


def _volumes(cells: Cells, page: Paging, request: VolumesRequest, at: dict[int, Any]) -> VolumesPage:
    connections = [each.connection for each in cells.values()]
    must_have_host(connections, request.host)
    must_have_job(connections, request.job)
    rows = {
        cell: entities.volume_rows(each.connection, page.size, at.get(cell), *request) for cell, each in cells.items()
    }
    merged = spliced(rows, page.size, place_of)
    token = next_page_token(rows, merged, at, place_of, "volumes", *request)
    volumes: list[Volume] = [{**entities.volume_json(row), "cell": cell} for cell, row in merged]
    return {"volumes": volumes, "next_page_token": token}


def _throttled(cells: Cells, page: Paging, at: dict[int, tuple[int, int]]) -> TasksPage:
    rows = {cell: throttled(each.connection, page.size, at.get(cell, FIRST)) for cell, each in cells.items()}

    def place(task: Task) -> tuple[int, int]:
        return task["number"], task["instance"]

    merged = spliced(rows, page.size, place)
    token = next_page_token(rows, merged, at, place, "throttled")
    return {"tasks": [{**task, "cell": cell} for cell, task in merged], "next_page_token": token}


def _quarantine(cells: Cells, page: Paging, at: dict[int, tuple[str, int]]) -> QuarantinePage:
    rows = {cell: entities.quarantine_rows(each.connection, page.size, at.get(cell)) for cell, each in cells.items()}

    def place(record: SkippedRecord) -> tuple[str, int]:
        return record["topic"], record["offset"]

    merged = spliced(rows, page.size, place)
    token = next_page_token(rows, merged, at, place, "quarantine")
    return {"records": [{**record, "cell": cell} for cell, record in merged], "next_page_token": token}


def spliced(lists: Mapping[int, RowsPage[R]], size: int, order: Callable[[R], Any]) -> list[tuple[int, R]]:
    """The first of the lists of several cells, taken together; each list keeps its own order. Where one has more than
    was read of it, nothing after that is taken.
    """
    lines = [[(cell, each) for each in lists[cell].rows] for cell in sorted(lists)]
    unread = {cell: len(each.rows) for cell, each in lists.items()}
    merged: list[tuple[int, R]] = []
    for cell, row in heapq.merge(*lines, key=lambda pair: order(pair[1])):
        merged.append((cell, row))
        unread[cell] -= 1
        if len(merged) == size or (lists[cell].more and not unread[cell]):
            break
    return merged


def page_starts(page: Paging, kind: Any, *filters: Any) -> dict[int, Any]:
    """Where the part of each cell goes on; cells that were not reached yet are left out."""
    return dict(page.after(list[tuple[int, kind]], *filters) or ())


def next_page_token(
    lists: Mapping[int, RowsPage[R]],
    merged: Sequence[tuple[int, R]],
    at: Mapping[int, Any],
    mark: Callable[[R], Any],
    *filters: Any,
) -> str:
    """The token of the next page; empty where all was taken."""
    if len(merged) == sum(len(each.rows) for each in lists.values()) and not any(each.more for each in lists.values()):
        return ""
    return next_token(list({**at, **{cell: mark(each) for cell, each in merged}}.items()), *filters)
