"""Signing in and out: with the token of the cell, or by its issuer."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from projections.access.sign_in import FLOW_S, SignIn
from projections.api.problems import Problem
from projections.ui import rendering
from projections.ui.frame import Frame
from projections.ui.sessions import FROM_ISSUER, SIGN_IN, fields_of

FLOW = "paceline_flow"
"""The cookie of a sign-in that goes on at the issuer, whose answer a browser sends from there: not strict."""
Handler = Callable[[Request], Awaitable[Response]]
FIRST = "/ui/"
NOT_KEPT = {"Cache-Control": "no-store"}


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
        await request.app.state.guards.authentication.slow_down(request.scope)
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


def leads_to_issuer(frame: Frame) -> Handler:
    """Sends the browser to the issuer."""

    async def lead(request: Request) -> Response:
        sign_in = _by_issuer(frame, request)
        then = local(request.query_params.get("next", ""))
        address, cookie = await sign_in.begin(_back(request), then)
        response = RedirectResponse(address, 303, headers=NOT_KEPT)
        secure = request.url.scheme == "https"
        response.set_cookie(
            FLOW, cookie, max_age=FLOW_S, path=f"/ui{SIGN_IN}", secure=secure, httponly=True, samesite="lax"
        )
        return response

    return lead


def comes_from_issuer(frame: Frame) -> Handler:
    """Gives the browser that comes back a session. A page leads on: a browser sends no strict cookie where another site
    has sent it on.
    """

    async def come(request: Request) -> Response:
        sign_in = _by_issuer(frame, request)
        user = await sign_in.end(request.cookies.get(FLOW, ""), _back(request), request.query_params)
        text = rendering.html("signed_in.html", frame.of(request) | {"next": user.then, "user": user.identity.subject})
        response = rendering.answer(request, text, Refresh=f"0; url={user.then}", Cache_Control="no-store")
        frame.must_be_writable(request).begin(request, response, user.identity, user.until_s)
        response.delete_cookie(FLOW, path=f"/ui{SIGN_IN}", httponly=True, samesite="lax")
        return response

    return come


def _by_issuer(frame: Frame, request: Request) -> SignIn:
    frame.must_be_writable(request)
    if frame.by_issuer is None or not frame.by_issuer.issuer.client_id:
        raise Problem(404, "NO_ISSUER", "this cell has no issuer to sign in at")
    return frame.by_issuer


def _back(request: Request) -> str:
    """The address that the issuer sends browsers back to."""
    return f"{request.url.scheme}://{request.url.netloc}/ui{FROM_ISSUER}"


def local(path: str) -> str:
    """A page of this app to go to; anything else is its first page."""
    elsewhere = not path.startswith(FIRST) or "\\" in path or path.startswith(f"/ui{SIGN_IN}")
    return FIRST if elsewhere else path


def _page(frame: Frame, request: Request, then: str, wrong: bool = False) -> Response:
    issuer = frame.by_issuer.issuer if frame.by_issuer else None
    name = urlsplit(issuer.url).netloc if issuer and issuer.client_id else ""
    text = rendering.html("sign_in.html", frame.of(request) | {"next": then, "wrong": wrong, "issuer": name})
    return rendering.answer(request, text, 403 if wrong else 200)
