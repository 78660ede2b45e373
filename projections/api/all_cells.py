"""The routes of one server for several cells at once: lists over all of them, readiness, the cells themselves.

`?cell=N` asks one of them. A page token says for each cell where its part of the list goes on.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX
from paceline.client.cell_models import CellInfo, Readiness, SkippedRecord
from paceline.client.host_models import Host, Volume
from paceline.client.models import Task
from paceline.client.page_models import HostsPage, QuarantinePage, TasksPage, VolumesPage
from paceline.client.pool_models import PoolPlans, PoolTree
from projections.api.context import Context, Pages, Paging, Place, as_json, client_of, next_token, of_cell, spread
from projections.api.jobs import JobsQuery, JobsRequest
from projections.api.pool_views import PoolPlan, plan_json
from projections.api.problems import Problem, wrong_cell
from projections.api.system import lag_of
from projections.api.throttled import FIRST
from projections.api.volumes import PLACE, VolumesQuery, VolumesRequest, place_of
from projections.queries import entities, pool_tree
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
            found = {
                cell: OpenCell(each, stack.enter_context(each.views.read())) for cell, each in self.contexts.items()
            }
            value = look(found)
            each = (of_cell(write_positions(reached(at.connection)), cell) for cell, at in found.items())
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

        def look(found: Cells) -> Readiness:
            lags = {number: lag_of(*each) for number, each in found.items()}
            lag = {f"{topic}@{number}": lag for number, of in lags.items() for topic, lag in of.items()}
            return {"ready": True, "lag": lag}

        response: Response = await read(look)
        return response

    return router


def _lists(router: APIRouter, cells: Callable[..., Any]) -> None:
    @router.get("/v1/jobs")
    async def jobs(read: Annotated[Any, Depends(cells)], page: Pages, wanted: JobsQuery) -> Response:
        """Jobs of all cells, without their specs."""
        at = page_starts(page, tuple[Place, Place], *wanted.words)
        return await read(lambda found: jobs_page(found, page, wanted, at))  # type: ignore[no-any-return]

    @router.get("/v1/hosts")
    async def hosts(read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Hosts of all cells, by id."""
        at = page_starts(page, str, "hosts")
        return await read(lambda found: _hosts(found, page, at))  # type: ignore[no-any-return]

    @router.get("/v1/throttled-tasks")
    async def throttled_tasks(read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Tasks of all cells that wait before they are run again, by job."""
        at = page_starts(page, tuple[Place, Place], "throttled")
        return await read(lambda found: _throttled(found, page, at))  # type: ignore[no-any-return]

    @router.get("/v1/pools")
    async def pools(read: Annotated[Any, Depends(cells)]) -> Response:
        """Pools of all cells, by path, and what each cell has."""
        return await read(_pools)  # type: ignore[no-any-return]

    @router.post("/v1/pool-plans")
    async def plan(body: PoolPlan, read: Annotated[Any, Depends(cells)]) -> Response:
        """Tells the effects of a change of pools in each cell, without changing them."""

        def look(found: Cells) -> PoolPlans:
            return plan_json(
                body, [each.context for each in found.values()], [each.connection for each in found.values()]
            )

        return await read(look)  # type: ignore[no-any-return]

    @router.get("/v1/volumes")
    async def volumes(wanted: VolumesQuery, read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Volumes of all cells, by host and task."""
        at = page_starts(page, PLACE, "volumes", *wanted)
        return await read(lambda found: _volumes(found, page, wanted, at))  # type: ignore[no-any-return]

    @router.get("/v1/log/quarantine")
    async def quarantine(read: Annotated[Any, Depends(cells)], page: Pages) -> Response:
        """Records of all cells that were skipped, by topic and offset."""
        at = page_starts(page, tuple[str, Place], "quarantine")
        return await read(lambda found: _quarantine(found, page, at))  # type: ignore[no-any-return]


def jobs_page(found: Cells, page: Paging, wanted: JobsRequest, at: Mapping[int, tuple[int, int]]) -> bytes:
    """The body of a page of jobs."""
    rows = {
        cell: each.context.texts.page(each.connection, wanted.filter, page.size, at.get(cell))
        for cell, each in found.items()
    }
    taken = spliced(rows, page.size, lambda job: job.order(wanted.filter))
    token = next_page_token(rows, taken, at, lambda job: job.place(wanted.filter), *wanted.words)
    return page_text([job.text[:-1] + b',"cell":%d}' % cell for cell, job in taken], token)


def _hosts(found: Cells, page: Paging, at: dict[int, str]) -> HostsPage:
    rows = {cell: entities.host_rows(each.connection, page.size, at.get(cell, "")) for cell, each in found.items()}
    taken = spliced(rows, page.size, lambda row: row.host_id)
    token = next_page_token(rows, taken, at, lambda row: row.host_id, "hosts")
    kinds = {cell: kinds_of(each.connection) for cell, each in found.items()}
    shown: list[Host] = [{**entities.host_json(row, kinds[cell]), "cell": cell} for cell, row in taken]
    return {"hosts": shown, "next_page_token": token}


def _volumes(found: Cells, page: Paging, wanted: VolumesRequest, at: dict[int, Any]) -> VolumesPage:
    rows = {
        cell: entities.volume_rows(each.connection, page.size, at.get(cell), *wanted) for cell, each in found.items()
    }
    taken = spliced(rows, page.size, place_of)
    token = next_page_token(rows, taken, at, place_of, "volumes", *wanted)
    shown: list[Volume] = [{**entities.volume_json(row), "cell": cell} for cell, row in taken]
    return {"volumes": shown, "next_page_token": token}


def _throttled(found: Cells, page: Paging, at: dict[int, tuple[int, int]]) -> TasksPage:
    rows = {cell: throttled(each.connection, page.size, at.get(cell, FIRST)) for cell, each in found.items()}

    def place(task: Task) -> tuple[int, int]:
        return task["number"], task["instance"]

    taken = spliced(rows, page.size, place)
    token = next_page_token(rows, taken, at, place, "throttled")
    return {"tasks": [{**task, "cell": cell} for cell, task in taken], "next_page_token": token}


def _pools(found: Cells) -> PoolTree:
    rows = [(cell, pool) for cell, each in found.items() for pool in pool_tree.pools_in_full(each.connection)]
    cells_ = [pool_tree.cell_json(each.connection, cell) for cell, each in found.items()]
    pools = sorted((pool for cell, pool in rows if pool["cell"] == cell), key=lambda pool: pool["path"])
    return {"pools": pools, "cells": cells_}


def _quarantine(found: Cells, page: Paging, at: dict[int, tuple[str, int]]) -> QuarantinePage:
    rows = {cell: entities.quarantine_rows(each.connection, page.size, at.get(cell)) for cell, each in found.items()}

    def place(record: SkippedRecord) -> tuple[str, int]:
        return record["topic"], record["offset"]

    taken = spliced(rows, page.size, place)
    token = next_page_token(rows, taken, at, place, "quarantine")
    return {"records": [{**record, "cell": cell} for cell, record in taken], "next_page_token": token}


def spliced(found: Mapping[int, RowsPage[R]], size: int, order: Callable[[R], Any]) -> list[tuple[int, R]]:
    """The first of the lists of several cells, taken together; each list keeps its own order. Where one has more than
    was read of it, nothing after that is taken.
    """
    lines = [[(cell, each) for each in found[cell].rows] for cell in sorted(found)]
    left = {cell: len(each.rows) for cell, each in found.items()}
    taken: list[tuple[int, R]] = []
    for cell, row in heapq.merge(*lines, key=lambda pair: order(pair[1])):
        taken.append((cell, row))
        left[cell] -= 1
        if len(taken) == size or (found[cell].more and not left[cell]):
            break
    return taken


def page_starts(page: Paging, kind: Any, *filters: Any) -> dict[int, Any]:
    """Where the part of each cell goes on; cells that were not reached yet are left out."""
    return dict(page.after(list[tuple[int, kind]], *filters) or ())


def next_page_token(
    found: Mapping[int, RowsPage[R]],
    taken: Sequence[tuple[int, R]],
    at: Mapping[int, Any],
    mark: Callable[[R], Any],
    *filters: Any,
) -> str:
    """The token of the next page; empty where all was taken."""
    if len(taken) == sum(len(each.rows) for each in found.values()) and not any(each.more for each in found.values()):
        return ""
    return next_token(list({**at, **{cell: mark(each) for cell, each in taken}}.items()), *filters)
