"""The page of a shadow and the same as JSON, beside the health pages and metrics of its process.

Jobs and pools are named there, so these two are for requests from this machine; health and metrics are for all.
"""

from collections.abc import Callable
from importlib.resources import files
from ipaddress import ip_address
from urllib.parse import urlsplit

from jinja2 import Environment, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from events.process.health import Health
from paceline.client.json_type import Json
from paceline.services.health_pages import routes
from projections.api.problems import Problem

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
FINDINGS_SHOWN = 500
NAMES = ("localhost", "127.0.0.1", "::1")


def app(look: Callable[[], Health], body: Callable[[], Json]) -> Starlette:
    """The app of a shadow."""
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files("paceline.shadow").joinpath("page.html").read_text()
    )

    def page(request: Request) -> Response:
        if not _is_of_this_machine(request):
            return _refused()
        text = template.render(body=body(), shown=FINDINGS_SHOWN)
        return HTMLResponse(text, headers=HEADERS)

    def shadow(request: Request) -> Response:
        return JSONResponse(body(), headers=HEADERS) if _is_of_this_machine(request) else _refused()

    return Starlette(routes=[Route("/", page), Route("/v1/shadow", shadow), *routes(look)])


def _refused() -> Response:
    text = "differences are shown to this machine alone: ask at 127.0.0.1, such as through `ssh -L`"
    return Problem(403, "HOST_NOT_ALLOWED", text).response()


def _is_of_this_machine(request: Request) -> bool:
    """Whether a request comes from here and names this machine, as pages of others that point a name here don't."""
    try:
        comes = request.client is not None and ip_address(request.client.host).is_loopback
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    return comes and name in NAMES
