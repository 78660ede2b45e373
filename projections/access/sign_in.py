"""Sign-in by an issuer: what a cell does as its client.

Pages use the code flow with PKCE. Between the two halves of it nothing is kept here: a cookie of the browser holds the
state, and from it and the token of the cell follow nonce and code verifier, so that any process of the cell can go on.
"""

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from projections.access.authentication import Authentication
from projections.access.identity import Identity
from projections.access.issuer import Issuer
from projections.access.oidc import (
    DOCUMENT_BYTES_MAX,
    FETCH_S,
    OLD_S,
    PAUSE_S,
    Fetch,
    IssuerKeys,
    OidcProver,
    discovered,
    fetch_json,
)
from projections.api.problems import Problem

FLOW_S = 600
"""So long a user may take to sign in at the issuer."""
EXCHANGE_S = 10.0
"""So long the issuer may take to give a token for a code."""


class SignedIn(NamedTuple):
    """A user who comes back from the issuer: until when that holds (seconds since 1970), and the page to go on with."""

    identity: Identity
    until_s: float
    then: str


class SignIn:
    """The sign-in of one issuer. For one event loop. `token`: that of the cell; `now`: seconds since 1970."""

    def __init__(
        self, issuer: Issuer, token: str, fetch: Fetch = fetch_json, now: Callable[[], float] = time.time
    ) -> None:
        self.issuer = issuer
        self.prover = OidcProver(issuer, IssuerKeys(issuer.url, fetch), now)
        self._fetch = fetch
        self._now = now
        self._key = hmac.new(token.encode(), b"sign-in by an issuer", sha256).digest()
        self._description: dict[str, Any] = {}
        self._described_s = self._tried_s = float("-inf")

    def serve(self, authentication: Authentication) -> None:
        """Takes tokens of the issuer."""
        authentication.provers.append(self.prover)
        authentication.issuer = self.issuer

    async def begin(self, back: str, then: str) -> tuple[str, str]:
        """The address of the issuer to go to, and the cookie to come back with: to `back`, and then to the page `then`.
        Raises a problem.
        """
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        state = secrets.token_urlsafe(24)
        address: str = prepare_grant_uri(
            await self._endpoint("authorization_endpoint"),
            client_id=self.issuer.client_id,
            response_type="code",
            redirect_uri=back,
            scope=self.issuer.scopes,
            state=state,
            nonce=self._derived("nonce", state),
            code_challenge=create_s256_code_challenge(self._derived("verifier", state)),
            code_challenge_method="S256",
        )
        text = f"{int(self._now()) + FLOW_S}.{state}.{urlsafe_b64encode(then.encode()).decode().rstrip('=')}"
        return address, f"{text}.{self._derived('cookie', text)}"

    async def end(self, cookie: str, back: str, query: Mapping[str, str]) -> SignedIn:
        """The user with whom the issuer sends the browser back. Raises a problem."""
        state, then = self._flow_of(cookie)
        if not state or not _equal(query.get("state"), state):
            raise Problem(403, "SIGN_IN_NOT_BEGUN", "this browser began no sign-in, or too long ago: try again")
        if query.get("error") or not query.get("code"):
            raise Problem(403, "SIGN_IN_REFUSED", f"the issuer did not sign you in: {_reason(query)}")
        answer = await self._exchange(query["code"], back, self._derived("verifier", state))
        token = answer.get("id_token")
        if not isinstance(token, str) or token.count(".") != 2:
            raise Problem(502, "ISSUER_FAULTY", "the issuer has given no ID token: do the scopes have openid?")
        identity, claims = await self.prover.proven(token)
        if not _equal(claims.get("nonce"), self._derived("nonce", state)):
            raise Problem(403, "SIGN_IN_NOT_BEGUN", "the token is of another sign-in than this browser's: try again")
        audience = claims.get("aud")
        if self.issuer.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise Problem(403, "TOKEN_AUDIENCE_WRONG", f"the token is not for {self.issuer.client_id}")
        return SignedIn(identity, float(claims["exp"]), then)

    def _flow_of(self, cookie: str) -> tuple[str, str]:
        """The state of a flow and the page that it leads to; empty: the cookie doesn't hold."""
        text, _, proof = cookie.rpartition(".")
        parts = text.split(".")
        if not _equal(proof, self._derived("cookie", text)) or int(parts[0]) < self._now():
            return "", ""
        return parts[1], urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4)).decode()

    async def _exchange(self, code: str, back: str, verifier: str) -> dict[str, Any]:
        """The tokens that the issuer gives for a code. Raises a problem."""
        import httpx2

        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self.issuer.client_id,
            "code_verifier": verifier,
        }
        secret = self.issuer.client_secret
        auth = httpx2.BasicAuth(self.issuer.client_id, secret) if secret else httpx2.Auth()
        address = await self._endpoint("token_endpoint")
        try:
            async with httpx2.AsyncClient(timeout=EXCHANGE_S) as client:
                response = await client.post(address, data=form, auth=auth)
            answer = json.loads(response.content[:DOCUMENT_BYTES_MAX])
        except httpx2.HTTPError as error:
            raise _away(str(error) or type(error).__name__) from error
        except (ValueError, RecursionError) as error:
            raise Problem(502, "ISSUER_FAULTY", f"{address} answers {response.status_code}, and no JSON") from error
        if response.status_code != httpx2.codes.OK or not isinstance(answer, dict):
            fault = _reason(answer) if isinstance(answer, dict) else f"status {response.status_code}"
            raise Problem(403, "SIGN_IN_REFUSED", f"the issuer did not sign you in: {fault}")
        return answer

    async def _endpoint(self, name: str) -> str:
        """An address of the issuer, as it describes itself. Raises a problem."""
        now = time.monotonic()
        if now - self._described_s >= OLD_S and now - self._tried_s >= PAUSE_S:
            self._tried_s = now
            try:
                self._description = await discovered(self.issuer.url, self._fetch)
                self._described_s = now
            except (OSError, ValueError) as error:
                if not self._description:
                    raise _away(str(error)) from error
        if not self._description:
            raise _away("it was asked just now")
        address = self._description.get(name)
        if not isinstance(address, str) or not address.startswith(("https://", "http://")):
            raise Problem(502, "ISSUER_FAULTY", f"the issuer names no {name}")
        return address

    def _derived(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}.{text}".encode("utf-8", "replace"), sha256).hexdigest()


def _equal(text: object, secret: str) -> bool:
    return isinstance(text, str) and hmac.compare_digest(text.encode("utf-8", "replace"), secret.encode())


def _away(why: str) -> Problem:
    return Problem(503, "ISSUER_AWAY", f"the issuer can't be asked ({why})", headers={"Retry-After": f"{FETCH_S:g}"})


def _reason(answer: Mapping[str, Any]) -> str:
    """The reason that an issuer gives for an error (RFC 6749, 5.2), as a page may show it."""
    texts = (str(answer.get(name) or "") for name in ("error", "error_description"))
    reason = ": ".join(each for each in texts if each) or "it gave no code"
    return "".join(each if each.isprintable() else " " for each in reason[:300])
