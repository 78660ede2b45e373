"""Sessions of readers who are signed in: a cookie that carries its own proof, so that any process with the token of the
cell knows it.

The cookie is `expiry.nonce.proof`; forms carry a second proof over the same nonce against requests of other pages.
"""

import hmac
import secrets
import time
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from events.actors import SESSION
from events.codes import Code
from projections.access.identity import Identity
from projections.api.problems import Problem

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
"""Where a token is taken, and where a session ends, below /ui."""
COOKIE = "paceline_session_"
"""With what follows from the token: a browser sends the cookies of one host to all its ports."""
SESSION_S = 12 * 3600
FORM_BYTES_MAX = 256 * 1024
FIELDS_MAX = 2000

Form = dict[str, list[str]]


class Session(NamedTuple):
    """A signed-in browser."""

    nonce: str
    csrf: str
    """The CSRF token of its forms."""


class Sessions:
    """Makes and checks sessions with a key that follows from the token of the cell."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._key = hmac.new(self._token, b"sessions of the pages", sha256).digest()
        self._ended: dict[str, float] = {}
        """Sessions that were signed out in this process, and until when their cookies would hold."""
        self._cookie = COOKIE + self._proof("cookie")[:12]

    def of(self, request: Request) -> Session | None:
        """The session of a request; None where it has none that holds."""
        expiry, _, rest = request.cookies.get(self._cookie, "").partition(".")
        nonce, _, proof = rest.partition(".")
        if not expiry.isascii() or not expiry.isdecimal() or len(expiry) > 12 or int(expiry) < time.time():
            return None
        if not hmac.compare_digest(proof.encode(), self._proof(f"{expiry}.{nonce}").encode()):
            return None
        if nonce in self._ended:
            return None
        return self._session(nonce)

    def sign_in(self, request: Request, response: Response, token: str) -> bool:
        """Gives the browser a session, if the token is right."""
        if not hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token):
            return False
        text = f"{int(time.time()) + SESSION_S}.{secrets.token_urlsafe(18)}"
        value, secure = f"{text}.{self._proof(text)}", request.url.scheme == "https"
        response.set_cookie(
            self._cookie, value, max_age=SESSION_S, path="/ui", secure=secure, httponly=True, samesite="strict"
        )
        return True

    def sign_out(self, request: Request, response: Response) -> None:
        """Ends the session of a request, and takes it from the browser: a copy of the cookie is of no use any more."""
        session, now = self.of(request), time.time()
        if session is not None:
            self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
            self._ended[session.nonce] = now + SESSION_S
        response.delete_cookie(self._cookie, path="/ui", httponly=True, samesite="strict")

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Implements `Prover`: who signed in with the token of the cell may do all that it lets do."""
        if not scope["path"].startswith("/ui/") or "cookie" not in headers or self.of(Request(scope)) is None:
            return None
        return Identity(how=SESSION, is_cell=True)

    async def form(self, request: Request) -> Form:
        """The fields of a form that a signed-in page has sent. Raises a problem where there is no session, or the form
        isn't of one of its pages.
        """
        session = self.of(request)
        if session is None:
            raise Problem(401, "SIGN_IN_NEEDED", "changing something needs a sign-in with the token of the cell")
        fields = await fields_of(request)
        if not hmac.compare_digest("".join(fields.get("csrf", ())).encode("utf-8", "replace"), session.csrf.encode()):
            raise Problem(403, "FORM_IS_OLD", "the form is of another session: open the page again, and send it anew")
        return fields

    def _session(self, nonce: str) -> Session:
        return Session(nonce, self._proof(f"csrf.{nonce}"))

    def _proof(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), sha256).hexdigest()


async def fields_of(request: Request) -> Form:
    """The fields of a form, with lines that end as elsewhere: forms send CR LF. Raises a problem where it is none, or
    too large.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, "FORMS_ONLY", "pages send forms: application/x-www-form-urlencoded")
    try:
        body = await request.body()
    except ClientDisconnect as error:
        raise Problem(400, "BAD_REQUEST", "the form ended in the middle") from error
    if len(body) > FORM_BYTES_MAX:
        raise Problem(413, Code.TOO_LARGE, f"the form is over {FORM_BYTES_MAX} bytes")
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise Problem(400, "BAD_REQUEST", f"the form can't be read: {error}") from error
    return {name: [value.replace("\r\n", "\n") for value in values] for name, values in fields.items()}
