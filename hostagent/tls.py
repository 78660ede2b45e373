"""TLS of a server: its files, certificates of peers, and handshakes that fail with a reason for both sides."""

import ssl
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from paceline.client.proof import SPEAKS_TLS
from paceline.client.tls import FreshContext, certificates, load_own, state_of, trust

_PLAIN = frozenset(("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL"))
_ANSWER = (
    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    f"content-length: {len(SPEAKS_TLS)}\r\nconnection: close\r\nserver: paceline\r\n\r\n{SPEAKS_TLS}"
).encode()


class Encrypted(Protocol):
    """A connection that is to be encrypted."""

    def take_early(self) -> bytes:
        """Takes the bytes that came before the event loop knew that they are for the handshake."""
        ...

    def not_encrypted(self, why: str) -> None:
        """Is told why the handshake fails."""
        ...


class ServerTls(NamedTuple):
    """The files of a server. `client_ca`: whose certificates of clients are taken. `more`: other CAs, as PEM, and
    `more_state`, which tells one state of them from another.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    more: Callable[[], str] = lambda: ""
    more_state: Callable[[], Hashable] = lambda: None

    def context(self, say: Callable[[str], object]) -> "ServerContext":
        """The context of the server, which follows the files. Raises `TlsFault`."""
        return ServerContext(self.loaded, self.state, say)

    def state(self) -> Hashable:
        """Tells one state of all files from another."""
        return state_of((self.cert, self.key, self.client_ca)), self.more_state()

    def loaded(self) -> ssl.SSLContext:
        """A context of the files as they are. Raises `TlsFault`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = _Handshake
        load_own(context, self.cert, self.key)
        trusted = ("".join(certificates(self.client_ca)) if self.client_ca else "") + self.more()
        if trusted:
            trust(context, trusted, self.client_ca or "the CA of the cell")
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


class ServerContext(FreshContext):
    """Makes connections for `coming`, those that are about to be encrypted. Event loops do so in the order in which
    they were asked to, and hand on nothing by which they differ.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.coming: deque[Encrypted] = deque()

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        """Overrides `ssl.SSLContext`."""
        wrapped = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(wrapped, _Handshake)
        connection = self.coming.popleft()
        incoming.write(connection.take_early())
        wrapped.outgoing, wrapped.tell = outgoing, connection.not_encrypted
        return wrapped


class _Handshake(ssl.SSLObject):
    """A connection of a server. Transports drop what is still to be sent when a handshake fails: so this one says first
    that it waits, which sends the alert, or words to who speaks plain HTTP, and fails when it is asked again.
    """

    outgoing: ssl.MemoryBIO
    tell: Callable[[str], object]
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Overrides `ssl.SSLObject`."""
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            self._failure = failure
            if failure.reason in _PLAIN:
                self.outgoing.write(_ANSWER)
            self.tell(_why(failure))
            raise ssl.SSLWantReadError from failure


def last_sixth(certificate: Mapping[str, Any]) -> float:
    """When the last sixth of the life of a certificate begins, as the ssl module reads it; seconds since 1970."""
    begin, end = (ssl.cert_time_to_seconds(certificate[name]) for name in ("notBefore", "notAfter"))
    return end - (end - begin) / 6


def _why(failure: ssl.SSLError) -> str:
    """The reason of a failure, as the server tells it."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {failure.verify_message}"
    if failure.reason in _PLAIN:
        return "it doesn't speak TLS"
    return f"TLS fails: {failure.reason or failure}"
