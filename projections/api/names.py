"""The names of jobs, pools and hosts by how they begin, for whoever types one."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from events.bounds import WORD_MAX
from paceline.client.page_models import NameList
from projections.api.context import PAGE_MAX, Context, Reading
from projections.queries.finding import names_with


class NamesRequest(NamedTuple):
    """The names that are asked for."""

    kind: str
    prefix: str
    page_size: int


async def names_request(
    kind: Annotated[Literal["job", "pool", "host"], Query(description="What the names are of.")],
    prefix: Annotated[str, Query(max_length=WORD_MAX, description="The beginning of the names.")] = "",
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> NamesRequest:
    """The parameters of the list of names."""
    return NamesRequest(kind, prefix, page_size)


NamesQuery = Annotated[NamesRequest, Depends(names_request)]


def routes(context: Context) -> APIRouter:
    """The route of names."""
    router = APIRouter(tags=["cell"])

    @router.get("/v1/names")
    async def names(read: Reading, asked_for: NamesQuery) -> Response:
        """Names that begin so, in their order, as many as one page has."""
        return await read(lambda connection: names_json([connection], asked_for))

    return router


def names_json(cells: Iterable[Connection], request: NamesRequest) -> NameList:
    """The names in cells."""
    names = {name for each in cells for name in names_with(each, request.kind, request.prefix, request.page_size)}
    return {"names": sorted(names)[: request.page_size]}
