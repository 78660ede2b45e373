"""The certificate of a host, as its agent keeps it: one file with its key, given by the cell and renewed in time."""

import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from events.join_tokens import host_of, invite_id
from hostagent import private_files

FILE, ASKED = "host.pem", "host.key"
HOST, INVITATION, RENEWS = "Host: ", "Invitation: ", "Renews: "
LONGEST_WAIT_S = 60.0
"""So often the clock of the machine is looked at again."""


class CertificateRequest(NamedTuple):
    """A key, as PEM, and the request for a certificate for it."""

    key: str
    pem: str


class HostCertificate:
    """The certificate in the folder of an agent. `token`: by which the host may join, empty: it has none."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.file = folder / FILE
        self._asked = folder / ASKED
        self._token = token
        self._life: tuple[float, float] | None = None

    @property
    def host_id(self) -> str:
        """The host; empty: it has no certificate, nor a token to join by."""
        return host_of(self._token) if self.must_join else self._line(self.file, HOST)

    @property
    def must_join(self) -> bool:
        """Whether the token has not been used by this agent yet."""
        return bool(self._token) and self._line(self.file, INVITATION) != invite_id(self._token)

    def joining(self) -> CertificateRequest:
        """The request by which the host joins. Its key is kept: where the answer is lost the same one may ask again.
        Raises `OSError`.
        """
        return self._asking(INVITATION, invite_id(self._token))

    def joined(self, request: CertificateRequest, pem: str) -> None:
        """Keeps the certificate that was given for the token. Raises `OSError`."""
        self._write(host_of(self._token), invite_id(self._token), request, pem)

    def renewing(self) -> CertificateRequest:
        """The request, for a new key, that renews the certificate; the key is kept as that of `joining`, since a
        certificate is renewed with one key alone. Raises `OSError`.
        """
        return self._asking(RENEWS, sha256(self.file.read_bytes()).hexdigest())

    def keep(self, request: CertificateRequest, pem: str) -> None:
        """Keeps the certificate that renews the one that it has. Raises `OSError`."""
        self._write(self._line(self.file, HOST), self._line(self.file, INVITATION), request, pem)

    def due_in_s(self) -> float:
        """Seconds until it is to be renewed: after two thirds of its life."""
        begin, end = self._bounds()
        return max(0.0, begin + (end - begin) * 2 / 3 - time.time())

    def retry_s(self) -> float:
        """Seconds until it is tried again to renew it."""
        begin, end = self._bounds()
        return min(LONGEST_WAIT_S, (end - begin) / 60)

    def until(self) -> str:
        """Until when it holds, as it is told."""
        return datetime.fromtimestamp(self._bounds()[1], UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def _write(self, host_id: str, invitation: str, request: CertificateRequest, pem: str) -> None:
        text = f"{HOST}{host_id}\n{INVITATION}{invitation}\n{pem}{request.key}"
        private_files.write_durably(str(self.file), text)
        self._life = None
        self._asked.unlink(missing_ok=True)

    def _asking(self, kind: str, what: str) -> CertificateRequest:
        """The request that was kept for the same purpose, or a new one, which is kept."""
        if self._line(self._asked, kind) == what:
            return _request(_keys(self._asked.read_text()))
        request = _request(None)
        private_files.write_durably(str(self._asked), f"{kind}{what}\n{request.key}")
        return request

    def _bounds(self) -> tuple[float, float]:
        """When its life begins and ends; seconds since 1970."""
        if self._life is None:
            from cryptography import x509

            certificate = x509.load_pem_x509_certificate(self.file.read_bytes())
            self._life = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
        return self._life

    @staticmethod
    def _line(file: Path, name: str) -> str:
        """The value of a line before the PEM of a file; empty: there is no such line."""
        try:
            text = private_files.read_file(file).decode(errors="replace")
        except FileNotFoundError:
            return ""
        return next((line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(name)), "")


def _keys(text: str) -> str:
    return text[text.index("-----BEGIN") :]


def _request(key_pem: str | None) -> CertificateRequest:
    """The request for a key, None: a new one. The gateway takes nothing of it but the key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    if key_pem is None:
        own = ec.generate_private_key(ec.SECP256R1())
        key_pem = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    key = load_pem_private_key(key_pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return CertificateRequest(key_pem, request.public_bytes(Encoding.PEM).decode())
