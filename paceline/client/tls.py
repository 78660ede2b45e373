"""TLS: contexts that follow their files, whom a client trusts, and what failed in words."""

import os
import ssl
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any, Self

CERTIFICATE = "paceline.certificate"
"""The certificate of the peer in the scope of a request, in DER; missing where it showed none."""
LOOK_S = 1.0
"""So often new connections look whether a file has changed."""
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_UNTRUSTED = frozenset((2, 7, 18, 19, 20, 21))
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64
_ALERTS = {
    "UNKNOWN_CA": "the other side doesn't trust the CA of this certificate",
    "DECRYPT_ERROR": "the other side knows a CA of that name with another key",
    "CERTIFICATE_EXPIRED": "the other side says that this certificate has expired; look at the clocks of both",
    "CERTIFICATE_REVOKED": "the other side says that this certificate is revoked",
    "BAD_CERTIFICATE": "the other side refuses this certificate",
    "CERTIFICATE_UNKNOWN": "the other side refuses this certificate",
    "CERTIFICATE_REQUIRED": "the other side asks for a certificate",
    "PROTOCOL_VERSION": "the other side speaks another version of TLS; 1.2 is the least here",
}


class TlsFault(OSError):
    """Files of TLS can't be used; the message says which and why."""


class FreshContext(ssl.SSLContext):
    """A context whose new connections use the newest files. `make` makes a context of them; `state` tells one state of
    the files from another. Files that can't be used leave the last ones in place, which is told `say` once.

    Raises `TlsFault` where the first can't be used.
    """

    def __new__(cls, *args: Any) -> Self:
        """Overrides `ssl.SSLContext`, which takes the protocol here."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(
        self, make: Callable[[], ssl.SSLContext], state: Callable[[], Hashable], say: Callable[[str], object]
    ) -> None:
        self._make, self._state, self._say = make, state, say
        self._seen = state()
        self._newest = make()
        self._look_at = monotonic() + LOOK_S

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Overrides `ssl.SSLContext`."""
        return self.newest().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Overrides `ssl.SSLContext`."""
        return self.newest().wrap_socket(*args, **options)

    def newest(self) -> ssl.SSLContext:
        """The context of the newest files that can be used."""
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + LOOK_S
            if (state := self._state()) != self._seen:
                self._seen = state
                try:
                    self._newest = self._make()
                except TlsFault as fault:
                    self._say(f"TLS goes on with the files of before: {fault}")
                else:
                    self._say("TLS uses the files that have changed for new connections")
        return self._newest


def state_of(paths: Iterable[Path | None]) -> Hashable:
    """Tells whether one of these files was changed or replaced."""
    return tuple(_stat(path) for path in paths if path is not None)


def _stat(path: Path) -> Hashable:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def certificates(path: Path) -> list[str]:
    """The certificates of a PEM file, each as PEM. Raises `TlsFault`."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise TlsFault(f"{path}: {error.strerror}") from error
    parts = [f"{_BEGIN}{part.partition(_END)[0]}{_END}\n" for part in text.split(_BEGIN)[1:]]
    if not parts:
        raise TlsFault(f"{path} has no certificate in PEM")
    return parts


def load_own(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Has a context show a certificate. Raises `TlsFault`."""
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        why = "they don't belong together" if error.reason == "KEY_VALUES_MISMATCH" else error.reason or error
        raise TlsFault(f"{cert} and {key} can't be used: {why}") from error
    except (OSError, ValueError) as error:
        raise TlsFault(f"{cert} and {key} can't be used: {getattr(error, 'strerror', None) or error}") from error


def trust(context: ssl.SSLContext, pem: str, source: object) -> None:
    """Has a context trust certificates, whether of a CA or of a server itself. Raises `TlsFault`."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise TlsFault(f"{source} has no certificate that can be read") from error


def client_context(ca: Path | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the CAs of a file, by default of PACELINE_CA; without one those of the
    machine. Raises `TlsFault`.
    """
    ca = ca or (Path(file) if (file := os.environ.get("PACELINE_CA")) else None)
    if ca is None:
        import httpx2  # its choice of certificates

        return httpx2.create_ssl_context(trust_env=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, "".join(certificates(ca)), ca)
    return context


def pinned_context(cert: Path) -> ssl.SSLContext:
    """The context of a client on the machine of a server, who trusts the certificate in its file and no other, by
    whatever name it is reached. Raises `TlsFault`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    trust(context, certificates(cert)[0], cert)
    return context


def why_tls(error: BaseException) -> str:
    """The sentence about an error of TLS, wherever in its chain of causes that is; empty: it is none."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _why_unverified(cause)
    reason = cause.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"):
        return "it doesn't speak TLS; name it with http:// if it is to be plain"
    return next((text for alert, text in _ALERTS.items() if alert in reason), f"TLS fails: {reason or cause}")


def _why_unverified(error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET:
        return "its certificate isn't valid yet; look at the clocks of both"
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        return f"its certificate is for another name: {error.verify_message}"
    if code in _UNTRUSTED:
        return "nobody who is trusted here has signed its certificate; name the file of its CA with --ca or PACELINE_CA"
    return f"its certificate is refused: {error.verify_message}"


def _no_password() -> str:
    """Instead of a question at the terminal."""
    raise ValueError("the key is encrypted; write one without a password, readable for its user alone")
