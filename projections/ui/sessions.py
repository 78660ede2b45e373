"""Sessions of readers who are signed in: a cookie that carries its own proof, so that any process with the token of the
cell knows it.

The cookie is `expiry.nonce.user.proof`, `user` empty for who signed in with the token of the cell; forms carry a second
proof over the same nonce against requests of other pages.
"""

import hmac
import json
import secrets
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
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
BY_ISSUER, FROM_ISSUER = f"{SIGN_IN}/issuer", f"{SIGN_IN}/back"
"""Where the sign-in by the issuer begins and ends."""
COOKIE = "paceline_session_"
"""With what follows from the token: a browser sends the cookies of one host to all its ports."""
SESSION_S = 12 * 3600
USER_BYTES_MAX = 3500
"""A browser keeps cookies of 4096 bytes."""
OF_CELL = Identity(how=SESSION, is_cell=True)
FORM_BYTES_MAX = 256 * 1024
FIELDS_MAX = 2000

Form = dict[str, list[str]]


class Session(NamedTuple):
    """A signed-in browser."""

    nonce: str
    csrf: str
    """The CSRF token of its forms."""
    identity: Identity


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
        text, _, proof = request.cookies.get(self._cookie, "").rpartition(".")
        if not hmac.compare_digest(proof.encode(), self._proof(text).encode()):
            return None
        expiry, nonce, user = text.split(".")
        if int(expiry) < time.time() or nonce in self._ended:
            return None
        return Session(nonce, self._proof(f"csrf.{nonce}"), _identity(user) if user else OF_CELL)

    def sign_in(self, request: Request, response: Response, token: str) -> bool:
        """Gives the browser a session, if the token is right."""
        if not hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token):
            return False
        self._begin(request, response, SESSION_S, "")
        return True

    def begin(self, request: Request, response: Response, identity: Identity, until_s: float) -> None:
        """Gives the browser a session of a user, which ends then at the latest. Raises a problem."""
        user = _text(identity)
        if len(user) > USER_BYTES_MAX:
            fault = (
                f"your {len(identity.groups)} groups don't fit a cookie: have the issuer name those of this cell alone"
            )
            raise Problem(403, "TOO_MANY_GROUPS", fault)
        self._begin(request, response, min(SESSION_S, max(0, int(until_s - time.time()))), user)

    def _begin(self, request: Request, response: Response, session_s: int, user: str) -> None:
        text = f"{int(time.time()) + session_s}.{secrets.token_urlsafe(18)}.{user}"
        value, secure = f"{text}.{self._proof(text)}", request.url.scheme == "https"
        response.set_cookie(
            self._cookie, value, max_age=session_s, path="/ui", secure=secure, httponly=True, samesite="strict"
        )

    def sign_out(self, request: Request, response: Response) -> None:
        """Ends the session of a request, and takes it from the browser: a copy of the cookie is of no use any more."""
        session, now = self.of(request), time.time()
        if session is not None:
            self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
            self._ended[session.nonce] = now + SESSION_S
        response.delete_cookie(self._cookie, path="/ui", httponly=True, samesite="strict")

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Implements `Prover`: who signed in with the token of the cell may do all that it lets do."""
        if not scope["path"].startswith("/ui/") or "cookie" not in headers:
            return None
        session = self.of(Request(scope))
        return session and session.identity

    async def form(self, request: Request) -> Form:
        """The fields of a form that a signed-in page has sent. Raises a problem where there is no session, or the form
        isn't of one of its pages.
        """
        session = self.of(request)
        if session is None:
            raise Problem(401, "SIGN_IN_NEEDED", "changing something needs a sign-in")
        fields = await fields_of(request)
        if not hmac.compare_digest("".join(fields.get("csrf", ())).encode("utf-8", "replace"), session.csrf.encode()):
            raise Problem(403, "FORM_IS_OLD", "the form is of another session: open the page again, and send it anew")
        return fields

    def _proof(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), sha256).hexdigest()


def _text(identity: Identity) -> str:
    """A user as a cookie carries them."""
    text = json.dumps([identity.subject, sorted(identity.groups), identity.how, identity.credential])
    return urlsafe_b64encode(zlib.compress(text.encode())).decode().rstrip("=")


def _identity(text: str) -> Identity:
    subject, groups, how, credential = json.loads(zlib.decompress(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    return Identity(subject, frozenset(groups), how, credential)


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
