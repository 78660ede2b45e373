"""The invitations and certificates of hosts, folded from the log: which may be used, and why others may not.

A certificate of the cell's CA counts as long as it stands here: what the log doesn't say was never given. One that
renews another stands or falls with the invitation that began it. `host remove` ends all of what began before it
(decision 102).
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from events.records.hosts import HostCertified, HostInvited
from events.records.placement import HostRemoved
from events.topics import HOSTS

KEPT_MS = 86_400_000
"""So long an invitation that is over, or a certificate, is known after its end, for refusals to say why."""


class Code(StrEnum):
    """Codes of refusals of agents."""

    JOIN_TOKEN_WRONG = "JOIN_TOKEN_WRONG"
    JOIN_TOKEN_FOREIGN = "JOIN_TOKEN_FOREIGN"
    JOIN_TOKEN_USED = "JOIN_TOKEN_USED"
    JOIN_TOKEN_EXPIRED = "JOIN_TOKEN_EXPIRED"
    JOIN_NEEDS_TLS = "JOIN_NEEDS_TLS"
    WRONG_CERTIFICATE_REQUEST = "WRONG_CERTIFICATE_REQUEST"
    CERTIFICATE_NEEDED = "CERTIFICATE_NEEDED"
    CERTIFICATE_FOREIGN = "CERTIFICATE_FOREIGN"
    CERTIFICATE_EXPIRED = "CERTIFICATE_EXPIRED"
    CERTIFICATE_REVOKED = "CERTIFICATE_REVOKED"
    CERTIFICATE_NOT_OURS = "CERTIFICATE_NOT_OURS"


class Invitation(NamedTuple):
    """An invitation, from its offset on. `key`: the hash of the key of who has joined by it; empty: nobody has."""

    host_id: str
    offset: int
    until_ms: int
    key: str = ""


class Given(NamedTuple):
    """A certificate. `began`: the offset of the invitation from which it descends."""

    host_id: str
    began: int
    until_ms: int


class Refusal(NamedTuple):
    """Why something of a host isn't taken: a code, and a sentence with what to do."""

    code: Code
    why: str


class Certificates:
    """The fold. `refusal` and `known` may be asked on any thread."""

    def __init__(self) -> None:
        self._invitations: dict[str, Invitation] = {}
        self._given: dict[str, Given] = {}
        self._waiting: dict[str, Callable[[Refusal | None], None]] = {}
        """Those who wait for a certificate, by its serial number, until it is in the log."""

    def invited(self, event: HostInvited, offset: int, now: int) -> None:
        """A host may join."""
        self._forget(now)
        self._invitations.setdefault(event.invite_id, Invitation(event.host_id, offset, event.until_ms))

    def certified(self, event: HostCertified, now: int) -> None:
        """A host has got a certificate, unless of two that were given for one invitation the other is first."""
        self._forget(now)
        invitation, renewed = self._invitations.get(event.invite_id), self._given.get(event.renews)
        why = self.refusal(event, now)
        if why is None and invitation is not None:
            self._invitations[event.invite_id] = invitation._replace(key=event.key)
            self._given[event.serial] = Given(event.host_id, invitation.offset, event.until_ms)
        elif why is None and renewed is not None:
            self._given[event.serial] = Given(event.host_id, renewed.began, event.until_ms)
        if (done := self._waiting.pop(event.serial, None)) is not None:
            done(why)

    def refusal(self, event: HostCertified, now: int) -> Refusal | None:
        """Why a certificate isn't given; None: it is."""
        again = f"`paceline host invite {event.host_id}` gives another"
        if event.renews:
            return self.known(event.renews, event.host_id)
        invitation = self._invitations.get(event.invite_id)
        if invitation is None:
            return Refusal(Code.JOIN_TOKEN_WRONG, f"this join token is wrong, or the host was removed since: {again}")
        if invitation.host_id != event.host_id:
            return Refusal(Code.JOIN_TOKEN_FOREIGN, f"this join token is of host {invitation.host_id}: {again}")
        if invitation.key and invitation.key != event.key:
            return Refusal(Code.JOIN_TOKEN_USED, f"this join token was used, and holds once: {again}")
        if now >= invitation.until_ms:
            return Refusal(Code.JOIN_TOKEN_EXPIRED, f"this join token has expired: {again}")
        return None

    def known(self, serial: str, host_id: str) -> Refusal | None:
        """Why a certificate of the cell's CA doesn't count; None: it does."""
        certificate = self._given.get(serial)
        if certificate is not None and certificate.host_id == host_id:
            return None
        why = f"this certificate of host {host_id} is revoked, as by `paceline host remove`, or the log doesn't know it"
        return Refusal(Code.CERTIFICATE_REVOKED, f"{why}: `paceline host invite {host_id}` lets the host join again")

    def wait(self, serial: str, done: Callable[[Refusal | None], None]) -> None:
        """Has somebody told when a certificate is in the log, or why it isn't given."""
        self._waiting[serial] = done

    def removed(self, event: HostRemoved) -> None:
        """An operator has removed a host. One that has only stayed away may come back with what it has."""
        if event.cause is None or event.cause.topic != HOSTS.name:
            return
        before = event.cause.offset
        for serial in [key for key, it in self._given.items() if it.host_id == event.host_id and it.began < before]:
            del self._given[serial]
        for key in [key for key, it in self._invitations.items() if it.host_id == event.host_id and it.offset < before]:
            del self._invitations[key]

    def dump(self) -> list[Any]:
        """The fold, as plain values."""
        return [self._invitations, self._given]

    def load(self, state: Any) -> None:
        """Takes what `dump` gave."""
        invitations, certificates = state
        self._invitations = {key: Invitation(*each) for key, each in invitations.items()}
        self._given = {key: Given(*each) for key, each in certificates.items()}

    def _forget(self, now: int) -> None:
        for rows in (self._invitations, self._given):
            for key in list(_ended(rows, now)):
                del rows[key]


def _ended(rows: Mapping[str, Invitation | Given], now: int) -> Iterator[str]:
    return (key for key, each in rows.items() if each.until_ms + KEPT_MS <= now)
