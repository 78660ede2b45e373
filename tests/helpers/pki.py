"""CAs and certificates for tests, made in a moment."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Files(NamedTuple):
    """The files of a certificate."""

    cert: Path
    key: Path


class Pki:
    """A CA of its own, with its certificate in a file."""

    def __init__(self, folder: Path, name: str = "a CA of tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        self._cert = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._cert.public_bytes(Encoding.PEM))

    def issue(
        self,
        name: str,
        groups: tuple[str, ...] = (),
        uris: tuple[str, ...] = (),
        dns: tuple[str, ...] = (),
        begins: timedelta = timedelta(minutes=-5),
        ends: timedelta = timedelta(days=1),
        file: str = "",
    ) -> Files:
        """A certificate for a name: of a server at 127.0.0.1 too, and of a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, each) for each in groups]
        places: list[x509.GeneralName] = (
            [x509.DNSName("localhost")]
            if uris
            else [
                *map(x509.DNSName, dns),
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
        )
        now = datetime.now(UTC)
        cert = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *units]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(
                x509.SubjectAlternativeName(places + [x509.UniformResourceIdentifier(each) for each in uris]), False
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False
            )
            .sign(self._key, hashes.SHA256())
        )
        files = Files(self.folder / f"{file or name}.pem", self.folder / f"{file or name}.key")
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        files.cert.write_bytes(cert.public_bytes(Encoding.PEM))
        return files
