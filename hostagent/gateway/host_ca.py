"""The cell's own CA: its key and certificate as files, and the certificates that it signs for hosts.

The certificate's file may hold more certificates behind the first: CAs whose hosts are still let in. So a CA is
replaced while agents go on: put another in front, and take the old one out when all agents have renewed.
"""

import hashlib
import os
from collections.abc import Hashable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from events.host_certificates import HOST_URI, uri_of
from paceline.client.tls import certificates, state_of

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateSigningRequest, KeyUsage

LIFE_S = 30 * 86_400.0
"""The life of a certificate; agents renew theirs after two thirds of it."""
CA_LIFE = timedelta(days=3650)
SKEW = timedelta(minutes=5)
"""So far the clock of a host may be behind."""
CERT, KEY = "hosts-ca.pem", "hosts-ca.key"


class WrongRequest(ValueError):
    """A request for a certificate can't be read; the message says why."""


class Issued(NamedTuple):
    """A certificate, as PEM, and what the log says of it."""

    pem: str
    serial: str
    fingerprint: str
    from_ms: int
    until_ms: int
    key: str


class HostCa:
    """The CA in a folder. `prepare` makes one where there is none; `life_s`: of the certificates that it signs."""

    def __init__(self, folder: Path, life_s: float = LIFE_S) -> None:
        self.cert, self.key = folder / CERT, folder / KEY
        self._life = timedelta(seconds=life_s)
        self._read: tuple[Hashable, str] = None, ""

    def pem(self) -> str:
        """The certificates of the CA, as they are now. Raises `TlsFault`."""
        state, pem = self._read
        if (now := self.state()) != state:
            pem = "".join(certificates(self.cert))
            self._read = now, pem
        return pem

    def state(self) -> Hashable:
        """Tells one state of the file of its certificates from another."""
        return state_of((self.cert,))

    def prepare(self) -> None:
        """Makes a CA, unless there is one: several gateways may begin on one folder at once. Raises `OSError`."""
        if self.cert.exists():
            return
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )
        from cryptography.x509.oid import NameOID

        self.cert.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        own = ec.generate_private_key(ec.SECP256R1())
        _link(self.key, own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        key = load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Paceline hosts {os.urandom(4).hex()}")])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
        )
        _link(self.cert, builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, request: bytes, host_id: str) -> Issued:
        """A certificate for a host, for the key of a request (PEM), of which nothing else counts. Raises
        `WrongRequest`, `OSError`.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        public = _read(request).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise WrongRequest("its key must be one of an elliptic curve")
        self.prepare()
        [authority, *_] = x509.load_pem_x509_certificates(self.cert.read_bytes())
        key = load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        now = datetime.now(UTC).replace(microsecond=0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host_id[:64])]))
            .issuer_name(authority.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + self._life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri_of(host_id))]), False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(_usage(signs=False), critical=True)
        )
        signed = builder.sign(key, hashes.SHA256())
        return Issued(
            signed.public_bytes(Encoding.PEM).decode(),
            serial_of(signed),
            signed.fingerprint(hashes.SHA256()).hex(),
            _ms(signed.not_valid_before_utc),
            _ms(signed.not_valid_after_utc),
            key_hash(public),
        )


class HostName(NamedTuple):
    """The content of a certificate that TLS has verified: the hosts that it is for, its serial number where the cell's
    CA has signed it, else empty, and until when it holds, in seconds since 1970.
    """

    host_ids: frozenset[str]
    serial: str
    until_s: float


def read_certificate(der: bytes, authorities: str) -> HostName:
    """Reads a certificate; `authorities`: those of the cell's CA, as PEM. Raises `ValueError`."""
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(der)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        host_ids = frozenset(each.removeprefix(HOST_URI) for each in uris if each.startswith(HOST_URI))
    except x509.ExtensionNotFound:
        host_ids = frozenset()
    own = x509.load_pem_x509_certificates(authorities.encode()) if authorities else []
    serial = serial_of(certificate) if any(_signed(certificate, each) for each in own) else ""
    return HostName(host_ids, serial, certificate.not_valid_after_utc.timestamp())


def serial_of(certificate: "Certificate") -> str:
    """The serial number of a certificate, as the log has it."""
    return f"{certificate.serial_number:x}"


def key_hash(key: object) -> str:
    """SHA-256 of a public key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return hashlib.sha256(der).hexdigest()


def _read(request: bytes) -> "CertificateSigningRequest":
    """A request whose sender has its key. Raises `WrongRequest`."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        read = x509.load_pem_x509_csr(request)
        is_signed = read.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise WrongRequest("it is no request for a certificate in PEM") from error
    if not is_signed:
        raise WrongRequest("its signature is wrong")
    return read


def _signed(certificate: "Certificate", authority: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    with suppress(ValueError, TypeError, InvalidSignature):
        certificate.verify_directly_issued_by(authority)
        return True
    return False


def _usage(signs: bool) -> "KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _link(path: Path, content: bytes) -> None:
    """Puts a file of this user alone in place, unless another process has been faster."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(part, path)
    part.unlink()
