"""A real OIDC provider in a thread: oidc-provider-mock, which issues and signs all tokens.

It lacks what issuers have, and what is added here: it takes public clients and verifies their PKCE, it has the device
flow (RFC 8628), and a refresh brings an ID token.
"""

import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Thread
from typing import Any

import authlib.jose
import flask
import httpx2
import joserfc.jwk
import oidc_provider_mock
import werkzeug.serving
from joserfc import jwt
from oidc_provider_mock import User
from oidc_provider_mock._app import AuthorizationCodeGrant, RefreshTokenGrant
from oidc_provider_mock._storage import RefreshToken

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
USER_CODE = "WDJB-MJHT"
for grant in (AuthorizationCodeGrant, RefreshTokenGrant):
    grant.TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "none"]


class Provider:
    """The provider, with a user `ann` of the group `maps`. `away`: it answers nothing but 503."""

    def __init__(self, port: int = 0, life_s: int = 3600) -> None:
        users = [User(sub="ann", claims={"groups": ["maps"], "email": "ann@example.org"}), User(sub="bob", claims={})]
        app = oidc_provider_mock.app(user_claims=users, access_token_max_age=timedelta(seconds=life_s))
        app.debug = False
        self.life_s = life_s
        self.away = False
        self.name = ""
        """The name that it gives itself in place of its own."""
        self.fetches = 0
        """How often it was asked for its keys."""
        self.pending: list[str] = []
        """What each poll of a device gets before somebody allows it."""
        self.approved = ""
        """The user who allowed the device."""
        self.polls: list[float] = []
        self._challenges: list[str] = []
        self._storage: Any = None
        self._key: joserfc.jwk.RSAKey | None = None
        app.before_request(self._before)
        app.after_request(self._after)
        app.post("/device")(self._begin_device)
        self._server = werkzeug.serving.make_server("127.0.0.1", port, app, threaded=True)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        httpx2.get(f"{self.url}/jwks")

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def rotate(self) -> None:
        """Signs with another key from now on, and publishes that alone."""
        self._storage.jwk, self._key = authlib.jose.RSAKey.generate_key(is_private=True), None

    def token(self, subject: str = "ann", audience: str = "paceline", kid: str = "", **claims: Any) -> str:
        """A token that its present key has signed; `kid`: with the name of another."""
        if self._key is None:
            self._key = joserfc.jwk.RSAKey.import_key(self._storage.jwk.as_dict(is_private=True, add_kid=True))
        key = self._key
        now = int(time.time())
        groups = self._storage.get_user(subject).claims.get("groups", [])
        body = {
            "iss": self.url,
            "aud": audience,
            "sub": subject,
            "groups": groups,
            "iat": now,
            "exp": now + self.life_s,
        }
        return jwt.encode({"alg": "RS256", "kid": kid or key.kid}, body | claims, key)

    def _before(self) -> Any:
        self._storage = flask.g.oidc_provider_mock_storage
        request = flask.request
        if self.away:
            return "away", 503
        if request.path == "/favicon.ico":
            return "", 204
        if request.path == "/jwks":
            self.fetches += 1
        if request.path == "/oauth2/authorize" and request.method == "POST":
            assert request.args["code_challenge_method"] == "S256"
            self._challenges.append(request.args["code_challenge"])
        if request.path != "/oauth2/token":
            return None
        if request.form["grant_type"] == DEVICE_CODE:
            return self._poll(request.form["device_code"])
        if request.form["grant_type"] == "authorization_code":
            challenge = urlsafe_b64encode(sha256(request.form["code_verifier"].encode()).digest()).decode().rstrip("=")
            if challenge not in self._challenges:
                return {"error": "invalid_grant", "error_description": "wrong code_verifier"}, 400
        return None

    def _after(self, response: Any) -> Any:
        path, body = flask.request.path, response.get_json(silent=True)
        if response.mimetype == "text/html":  # its style comes from another site
            response.set_data(re.sub(rb"<link[^>]*>", b"", response.get_data()))
        if response.status_code != 200:
            return response
        if path == "/.well-known/openid-configuration":
            named = {"issuer": self.name} if self.name else {}
            response.set_data(flask.json.dumps(body | named | {"device_authorization_endpoint": f"{self.url}/device"}))
        if path == "/oauth2/token" and flask.request.form["grant_type"] == "refresh_token":
            subject = self._storage.get_access_token(body["access_token"]).user_id
            response.set_data(flask.json.dumps(body | {"id_token": self.token(subject)}))
        return response

    def _begin_device(self) -> Any:
        return {
            "device_code": "device-1",
            "user_code": USER_CODE,
            "verification_uri": f"{self.url}/device",
            "verification_uri_complete": f"{self.url}/device?user_code={USER_CODE}",
            "expires_in": 600,
            "interval": 1,
        }

    def _poll(self, code: str) -> Any:
        assert code == "device-1"
        self.polls.append(time.monotonic())
        if self.pending:
            return {"error": self.pending.pop(0)}, 400
        if not self.approved:
            return {"error": "authorization_pending"}, 400
        now = datetime.now(UTC)
        refresh = RefreshToken(
            token=f"refresh-{now.timestamp()}",
            access_token="none",
            user_id=self.approved,
            scope="openid",
            expires_at=now + timedelta(hours=1),
            client_id="paceline",
        )
        self._storage.store_refresh_token(refresh)
        return {"id_token": self.token(self.approved), "refresh_token": refresh.token, "token_type": "Bearer"}


@contextmanager
def provider(port: int = 0, life_s: int = 3600) -> Iterator[Provider]:
    """A provider until the end of the block."""
    made = Provider(port, life_s)
    try:
        yield made
    finally:
        made.close()
