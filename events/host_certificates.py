"""The rules by which hosts get certificates: one for gateways, who let hosts in, and for views, who show it.

A certificate of the cell's CA is given by its `HostCertified` alone: for an invitation, or to renew an earlier one.
Both hold for one key, so that a copy of either shows when it is used a second time. What a certificate descends from,
by any number of renewals, is an invitation; `host remove` ends all that descend from those before it (decision 102).
"""

from enum import StrEnum
from typing import NamedTuple

from events.records.hosts import HostCertified
from events.records.placement import HostRemoved
from events.topics import HOSTS

HOST_URI = "paceline://host/"
"""The beginning of the URI (SAN) of certificates of hosts: one without it is of no host, one with it of no user."""


class Code(StrEnum):
    """Codes of refusals of agents."""

    JOIN_TOKEN_WRONG = "JOIN_TOKEN_WRONG"
    JOIN_TOKEN_FOREIGN = "JOIN_TOKEN_FOREIGN"
    JOIN_TOKEN_USED = "JOIN_TOKEN_USED"
    JOIN_TOKEN_EXPIRED = "JOIN_TOKEN_EXPIRED"
    JOIN_NEEDS_TLS = "JOIN_NEEDS_TLS"
    WRONG_CERTIFICATE_REQUEST = "WRONG_CERTIFICATE_REQUEST"
    AGENTS_UNKNOWN = "AGENTS_UNKNOWN"
    CERTIFICATE_NEEDED = "CERTIFICATE_NEEDED"
    CERTIFICATE_FOREIGN = "CERTIFICATE_FOREIGN"
    CERTIFICATE_EXPIRED = "CERTIFICATE_EXPIRED"
    CERTIFICATE_REVOKED = "CERTIFICATE_REVOKED"
    CERTIFICATE_RENEWED = "CERTIFICATE_RENEWED"
    CERTIFICATE_NOT_OURS = "CERTIFICATE_NOT_OURS"


class Refusal(NamedTuple):
    """Why something of a host isn't taken: a code, and a sentence with what to do."""

    code: Code
    why: str


class Invitation(NamedTuple):
    """An invitation, from its offset on. `key`: the hash of the key of who has joined by it; empty: nobody has."""

    host_id: str
    offset: int
    until_ms: int
    key: str = ""


class Given(NamedTuple):
    """A certificate. `began`: the offset of the invitation from which it descends; `key`: the hash of the key of that
    which renews it, empty: none does.
    """

    host_id: str
    began: int
    until_ms: int
    key: str = ""


def uri_of(host_id: str) -> str:
    """The URI of the certificates of a host."""
    return f"{HOST_URI}{host_id}"


def refusal(event: HostCertified, invitation: Invitation | None, renewed: Given | None, now: int) -> Refusal | None:
    """Returns why a certificate isn't given; None: it is. `invitation` and `renewed`: those that it names, as they are
    now.
    """
    return _renewal_refusal(event, renewed, now) if event.renews else _joining_refusal(event, invitation, now)


def revoked(host_id: str) -> Refusal:
    """The refusal of a certificate that was given to a host no more."""
    why = f"this certificate of host {host_id} is revoked, as by `paceline host remove`, or the log doesn't know it"
    return Refusal(Code.CERTIFICATE_REVOKED, f"{why}: {_again(host_id)} lets the host join again")


def expired(host_id: str) -> Refusal:
    """The refusal of a certificate that is over."""
    return Refusal(
        Code.CERTIFICATE_EXPIRED, f"this certificate has expired: {_again(host_id)} lets the host join again"
    )


def void_before(event: HostRemoved) -> int:
    """The offset before which the invitations of the host are void, with all that descends from them. 0: none is, as a
    host that has only stayed away may come back with what it has.
    """
    return event.cause.offset if event.cause is not None and event.cause.topic == HOSTS.name else 0


def _renewal_refusal(event: HostCertified, renewed: Given | None, now: int) -> Refusal | None:
    if renewed is None or renewed.host_id != event.host_id:
        return revoked(event.host_id)
    if now >= renewed.until_ms:
        return expired(event.host_id)
    if renewed.key and renewed.key != event.key:
        why = "this certificate was renewed with another key: somebody has a copy of it, or an old one was restored"
        way = f"`paceline host remove {event.host_id}` ends both, {_again(event.host_id)} lets the host join again"
        return Refusal(Code.CERTIFICATE_RENEWED, f"{why}. {way}")
    return None


def _joining_refusal(event: HostCertified, invitation: Invitation | None, now: int) -> Refusal | None:
    again = f"{_again(event.host_id)} gives another"
    if invitation is None:
        return Refusal(Code.JOIN_TOKEN_WRONG, f"this join token is wrong, or the host was removed since: {again}")
    if invitation.host_id != event.host_id:
        return Refusal(Code.JOIN_TOKEN_FOREIGN, f"this join token is of host {invitation.host_id}: {again}")
    if invitation.key and invitation.key != event.key:
        return Refusal(Code.JOIN_TOKEN_USED, f"this join token was used, and holds once: {again}")
    if now >= invitation.until_ms:
        return Refusal(Code.JOIN_TOKEN_EXPIRED, f"this join token has expired: {again}")
    return None


def _again(host_id: str) -> str:
    return f"`paceline host invite {host_id}`"
