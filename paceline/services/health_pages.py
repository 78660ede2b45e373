"""The pages by which a supervisor and Prometheus look at a process: /livez, /readyz, /startupz, /metrics.

On Starlette alone: FastAPI takes a fifth of the time in which a process starts.
"""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from events.process.health import Health
from projections.api.problems import Problem

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def routes(look: Callable[[], Health]) -> list[Route]:
    """The pages; /livez answers as long as the process does. `look` is called in threads: it may ask the log."""

    async def livez(_: Request) -> Response:
        return JSONResponse({"live": True})

    def readyz(_: Request) -> Response:
        health = look()
        return JSONResponse({"ready": health.ready, **health.detail}, 200 if health.ready else 503)

    def startupz(_: Request) -> Response:
        health = look()
        return JSONResponse({"started": health.started, **health.detail}, 200 if health.started else 503)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return [Route(f"/{page.__name__}", page) for page in (livez, readyz, startupz, metrics)]


def pages(look: Callable[[], Health]) -> Starlette:
    """An app of these pages alone."""
    return Starlette(routes=routes(look))


def waiting(look: Callable[[], Health], why: Callable[[], str]) -> Starlette:
    """An app of these pages; all else is answered that the process isn't ready, and why."""

    async def anything(_: Request) -> Response:
        return Problem(503, "NOT_READY", why(), headers={"Retry-After": "1"}).response()

    return Starlette(routes=[*routes(look), Route("/{path:path}", anything, methods=METHODS)])
