"""Listeners that ask for security: one for SASL/SCRAM over TLS, one for TLS alone; certificates by openssl.

The user of the tests, and who comes without a name, may do everything; `guest` only what it was given.
"""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

USER = "paceline"
PASSWORD = "a password of the tests"
MECHANISM = "SCRAM-SHA-512"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Certificate:
    """A certificate of 127.0.0.1 that vouches for itself. `both`: key and certificate in one file."""

    certificate: Path
    both: Path


def certify(folder: Path) -> Certificate:
    """Makes a certificate in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate, both = (folder / name for name in ("key.pem", "certificate.pem", "both.pem"))
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(key), "-out", str(certificate)], check=True, stderr=subprocess.DEVNULL
    )
    both.write_text(key.read_text() + certificate.read_text())
    return Certificate(certificate, both)


def acl(user: str, kind: ResourceType, name: str, pattern: ResourcePatternType, right: AclOperation) -> AclBinding:
    """Allows a user an operation on things of a name."""
    return AclBinding(kind, name, pattern, f"User:{user}", "*", right, AclPermissionType.ALLOW)


class Security:
    """What a broker with these listeners is told, and what its clients are."""

    def __init__(self, folder: Path, scram_port: int, tls_port: int) -> None:
        self.certificate = certify(folder)
        self.scram_address = f"127.0.0.1:{scram_port}"
        self.tls_address = f"127.0.0.1:{tls_port}"

    def listeners(self) -> list[str]:
        """For the broker's `listeners`."""
        return [f"SCRAM://{self.scram_address}", f"TLS://{self.tls_address}"]

    def settings(self) -> dict[str, str]:
        """The broker's other settings."""
        keystore = {
            f"listener.name.{name}.ssl.keystore.{what}": value
            for name in ("scram", "tls")
            for what, value in (("type", "PEM"), ("location", str(self.certificate.both)))
        }
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,TLS:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.scram.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.scram.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM} required;",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:ANONYMOUS;User:{USER}",
            **keystore,
        }

    def scram(self, password: str = PASSWORD, user: str = USER) -> dict[str, str]:
        """Options of a client at `scram_address`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificate.certificate),
        }

    def guest(self, address: str, *rights: AclOperation) -> dict[str, str]:
        """Options of a user with these rights on Paceline's topics and no others; `address` needs no password."""
        name = "-".join(("guest", *(each.name for each in rights)))
        self.users(address, [name])
        topics = ResourceType.TOPIC, "paceline.", ResourcePatternType.PREFIXED
        self.allow(address, [acl(name, *topics, right) for right in rights])
        return self.scram(user=name)

    def users(self, address: str, names: Iterable[str]) -> None:
        """Makes users that may do nothing, at an address that needs no password."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = [UserScramCredentialUpsertion(name, scram, PASSWORD.encode()) for name in names]
        admin = AdminClient({"bootstrap.servers": address})  # its questions end with it
        for each in admin.alter_user_scram_credentials(made).values():
            each.result()

    def allow(self, address: str, acls: Sequence[AclBinding]) -> None:
        """Adds ACLs, and returns when the broker goes by them."""
        admin = AdminClient({"bootstrap.servers": address})
        for each in admin.create_acls([*acls]).values() if acls else ():
            each.result()

    def forbid(self, address: str, acls: Sequence[AclBinding]) -> None:
        """Removes ACLs that `allow` has added."""
        admin = AdminClient({"bootstrap.servers": address})
        filters = [
            AclBindingFilter(
                each.restype,
                each.name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in acls
        ]
        for removed in admin.delete_acls(filters).values():
            removed.result()

    def tls(self) -> dict[str, str]:
        """Options of a client at `tls_address`."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.certificate.certificate)}
