"""Certificates of users: TLS has verified that a CA of `--client-ca` signed them; the subject is the common name. One
with the URI of a host is of no user, whatever its common name.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import CERTIFICATE as BY_CERTIFICATE
from events.actors import SUBJECT_MAX
from events.host_certificates import HOST_URI
from events.unsafe_text import is_visible
from paceline.client.tls import CERTIFICATE
from projections.access.authentication import refused
from projections.access.identity import Identity


class CertificateProver:
    """Proves who shows a certificate. `host_authorities`: the CA of the cell, as PEM, whose hosts are no users."""

    def __init__(self, host_authorities: Callable[[], str] = lambda: "") -> None:
        self._host_authorities = host_authorities

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Implements `Prover`. A bearer token that is shown too says who it is."""
        der = scope.get(CERTIFICATE)
        if der is None or "authorization" in headers:
            return None
        user = _read(der, self._host_authorities())
        if user is None:
            return None
        name, serial = user
        if not is_visible(name, SUBJECT_MAX):
            why = f"the common name of this certificate must be 1 to {SUBJECT_MAX} visible characters"
            raise refused("CERTIFICATE_WITHOUT_NAME", f"{why}: ask its CA for another")
        return Identity(name, frozenset(), BY_CERTIFICATE, serial)


@lru_cache(10_000)
def _read(der: bytes, host_authorities: str) -> tuple[str, str] | None:
    """The common name and serial number of a certificate; None: it is that of a host."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.x509.oid import NameOID

    certificate = x509.load_der_x509_certificate(der)
    for authority in x509.load_pem_x509_certificates(host_authorities.encode()) if host_authorities else ():
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return None
    with suppress(x509.ExtensionNotFound):
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if any(each.startswith(HOST_URI) for each in others.get_values_for_type(x509.UniformResourceIdentifier)):
            return None
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return (str(names[0].value) if len(names) == 1 else "", f"{certificate.serial_number:x}")
