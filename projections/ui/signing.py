"""Signing in and out."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from projections.ui import rendering
from projections.ui.frame import Frame
from projections.ui.sessions import SIGN_IN, fields_of

Handler = Callable[[Request], Awaitable[Response]]
FIRST = "/ui/"


def asks(frame: Frame) -> Handler:
    """The page that takes a token."""

    async def ask(request: Request) -> Response:
        frame.must_be_writable(request)
        return _page(frame, request, local(request.query_params.get("next", "")))

    return ask


def signs_in(frame: Frame) -> Handler:
    """Takes a token once, and gives the browser a session."""

    async def sign_in(request: Request) -> Response:
        sessions = frame.must_be_writable(request)
        fields = await fields_of(request)
        then = local("".join(fields.get("next", ())))
        response = RedirectResponse(then, 303)
        if sessions.sign_in(request, response, "".join(fields.get("token", ()))):
            return response
        return _page(frame, request, then, wrong=True)

    return sign_in


def signs_out(frame: Frame) -> Handler:
    """Ends a session."""

    async def sign_out(request: Request) -> Response:
        sessions = frame.must_be_writable(request)
        await sessions.form(request)
        response = RedirectResponse(FIRST, 303)
        sessions.sign_out(request, response)
        return response

    return sign_out


def local(path: str) -> str:
    """A page of this app to go to; anything else is its first page."""
    elsewhere = not path.startswith(FIRST) or "\\" in path or path.startswith(f"/ui{SIGN_IN}")
    return FIRST if elsewhere else path


def _page(frame: Frame, request: Request, then: str, wrong: bool = False) -> Response:
    text = rendering.html("sign_in.html", frame.of(request) | {"next": then, "wrong": wrong})
    return rendering.answer(request, text, 403 if wrong else 200)
