"""The pages by which a supervisor and Prometheus look at a process: /livez, /readyz, /startupz, /metrics."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from projections.api.problems import Problem


class Health(NamedTuple):
    """How a process is: `started` once it has come up, `ready` while it does its work; `detail` says why not."""

    started: bool
    ready: bool
    detail: dict[str, Any]


def routes(look: Callable[[], Health]) -> APIRouter:
    """The pages; /livez answers as long as the process does."""
    router = APIRouter(include_in_schema=False)

    @router.get("/livez")
    async def livez() -> dict[str, bool]:
        return {"live": True}

    @router.get("/readyz")
    async def readyz() -> Response:
        health = look()
        return JSONResponse({"ready": health.ready, **health.detail}, 200 if health.ready else 503)

    @router.get("/startupz")
    async def startupz() -> Response:
        health = look()
        return JSONResponse({"started": health.started, **health.detail}, 200 if health.started else 503)

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return router


def pages(look: Callable[[], Health]) -> FastAPI:
    """An app of these pages alone."""
    app = FastAPI(title="Paceline", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(routes(look))
    return app


def waiting(look: Callable[[], Health], why: Callable[[], str]) -> FastAPI:
    """An app of these pages; all else is answered that the process isn't ready, and why."""
    app = pages(look)

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    async def anything(path: str) -> Response:
        return Problem(503, "NOT_READY", why(), headers={"Retry-After": "1"}).response()

    return app
