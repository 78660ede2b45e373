"""A server proves that it has the token before anybody shows it the token (decision 022).

Where a cell has ended, a stranger may listen on its address. So who is about to show a token sends a random number
first, on the same connection. The server answers with a MAC of it and of its own end of that connection, keyed with the
token; who asked computes the same of the address that it reached. An answer that a stranger fetched from the real
server fits no connection to the stranger. A loopback address is another place on each machine, so there the identity of
the machine's boot is part of it.

This holds on one machine and between addresses that reach each other directly. It hides nothing from who can read or
change what is on the wire: that needs TLS, whose certificates then take the place of this exchange.
"""

import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

PATH = "/v1/proof"
READ_BYTES = 4096
PROOF_S = 3.0
"""Seconds that a server has for the whole proof: one that drips bytes delays no client longer."""
HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 1024
SPEAKS_TLS = "this port speaks TLS: name it with https://"
"""The answer of a port of TLS to who sends plain HTTP."""
ISSUED = "pct_"
"""The beginning of tokens that a cell has issued: `pct_<token id>_<43 random characters>`."""
_NONCE = re.compile("[0-9a-f]{64}")
_LABEL = "paceline server 1"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def proof(token: str, nonce: str, address: str) -> str:
    """The answer of a server at an address (see `place`) to a nonce."""
    return hmac.new(token.encode(), f"{_LABEL}\n{nonce}\n{address}".encode(), "sha256").hexdigest()


def address_of(host: str, port: int) -> str:
    """An end of a connection, the same text at both ends."""
    address = ipaddress.ip_address(host.partition("%")[0])
    plain = getattr(address, "ipv4_mapped", None) or address
    return f"{plain} {port} {_boot_id() if plain.is_loopback else ''}".strip()


def proven_by(token: str | None, of_folder: str | None) -> str | None:
    """The token that the cell of a data folder must prove to have before it is shown one: that one, or where somebody
    names a token of their own, of which the cell keeps a hash at most, that of the folder. A cell whose folder shows
    its token to others alone can't prove anything to them: they name its address.
    """
    is_own = token is not None and (token.startswith(ISSUED) or token.count(".") == 2)
    return of_folder if is_own and of_folder else token


class Proving:
    """An ASGI app that answers `PATH`, and hands everything else on."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Implements the ASGI application."""
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        [nonce] = parse_qs(scope["query_string"].decode("latin-1")).get("nonce", [""])[:1]
        status, body = 400, b"nonce must be 64 hex digits"
        if _NONCE.fullmatch(nonce):
            own_address = address_of(*scope["server"][:2])
            status, body = 200, f"{proof(self._token, nonce, own_address)} {own_address}".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class NotProven(Exception):
    """A server didn't prove that it has the token; the message says why."""


class OtherToken(NotProven):
    """A server has another token."""


class Unproven(Exception):
    """The server at an address doesn't prove that it has the token, which was not sent to it."""


class UnprovenOther(Unproven):
    """The server at an address has another token."""


def why_unproven(place: str, error: BaseException, seconds: float) -> str:
    """A sentence about a server that has failed to prove that it has the token, within so many seconds at most."""
    why = error if isinstance(error, NotProven) else f"it has not done so within {seconds:g} s"
    return f"who listens at {place} doesn't prove that it has the token of the cell: {why}"


def stranger(place: str, error: BaseException, seconds: float) -> Unproven:
    """The exception about such a server."""
    kind = UnprovenOther if isinstance(error, OtherToken) else Unproven
    return kind(why_unproven(place, error, seconds))


class Challenge:
    """The exchange on a new connection to `host`:`port`, as it was reached: send `request`, then `feed` what comes."""

    def __init__(self, token: str, host: str, port: int) -> None:
        self._token = token
        self._address = address_of(host, port)
        self._nonce = secrets.token_hex(32)
        self._got = b""
        name = f"[{host}]" if ":" in host else host
        head = f"GET {PATH}?nonce={self._nonce} HTTP/1.1\r\nHost: {name}:{port}\r\nAccept: text/plain\r\n\r\n"
        self.request = head.encode()

    def feed(self, data: bytes) -> bool:
        """Takes a piece of the answer; True once it was whole and right. Raises `NotProven`."""
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not data or len(head) > HEAD_BYTES_MAX:
            raise NotProven("it speaks no HTTP")
        if not end:
            return False
        lines = head.decode("latin-1").lower().split("\r\n")
        status = [*lines[0].split(), "", ""][1]
        if SPEAKS_TLS.encode() in body:
            raise NotProven(SPEAKS_TLS)
        if status == "503":
            raise NotProven("it is not ready to do so (HTTP status 503)")
        lengths = [line.partition(":")[2].strip() for line in lines if line.startswith("content-length:")]
        if status != "200" or len(lengths) != 1 or not re.fullmatch("[0-9]{1,4}", lengths[0]):
            raise NotProven(f"it knows nothing of it (HTTP status {status[:10]})")
        length = int(lengths[0])
        if length > BODY_BYTES_MAX or len(body) > length:
            raise NotProven("its answer has no such form")
        if len(body) < length:
            return False
        self._check(body.decode("latin-1"))
        return True

    def _check(self, answer: str) -> None:
        status, _, claimed = answer.partition(" ")
        if hmac.compare_digest(status.encode(), proof(self._token, self._nonce, self._address).encode()):
            return
        if hmac.compare_digest(status.encode(), proof(self._token, self._nonce, claimed).encode()):
            where = ":".join(claimed.split()[:2])
            raise NotProven(f"it forwards to {where}, which has the token: name that address")
        raise OtherToken("it has another token; is the one given here that of the cell?")


def _boot_id() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""
