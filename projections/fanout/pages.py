"""The pages by which a supervisor and Prometheus look at the fan-out."""

from collections.abc import Callable
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class Health(NamedTuple):
    """How the fan-out is: `started` once the group has given it cells or none, `ready` while it publishes them."""

    started: bool
    ready: bool
    detail: dict[str, Any]


def pages(look: Callable[[], Health]) -> Starlette:
    """/livez, /readyz, /startupz, /metrics."""

    async def livez(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def readyz(_: Request) -> Response:
        health = look()
        return JSONResponse({"ready": health.ready, **health.detail}, 200 if health.ready else 503)

    async def startupz(_: Request) -> Response:
        health = look()
        return JSONResponse({"started": health.started, **health.detail}, 200 if health.started else 503)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route(f"/{page.__name__}", page) for page in (livez, readyz, startupz, metrics)])
