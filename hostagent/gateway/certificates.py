"""The invitations and certificates of hosts, folded from the log: which may be used, and why others may not.

A certificate of the cell's CA counts as long as it stands here: what the log doesn't say was never given.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from events.host_certificates import Given, Invitation, Refusal, refusal, revoked, void_before
from events.records.hosts import HostCertified, HostInvited
from events.records.placement import HostRemoved

KEPT_MS = 86_400_000
"""So long an invitation that is over, or a certificate, is known after its end, for refusals to say why."""


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
        """A host has got a certificate, unless of two that were given for one invitation, or renew one certificate, the
        other is first.
        """
        self._forget(now)
        invitation, renewed = self._invitations.get(event.invite_id), self._given.get(event.renews)
        why = refusal(event, invitation, renewed, now)
        if why is None and event.renews and renewed is not None:
            self._given[event.renews] = renewed._replace(key=event.key)
            self._given[event.serial] = Given(event.host_id, renewed.began, event.until_ms)
        elif why is None and invitation is not None:
            self._invitations[event.invite_id] = invitation._replace(key=event.key)
            self._given[event.serial] = Given(event.host_id, invitation.offset, event.until_ms)
        if (done := self._waiting.pop(event.serial, None)) is not None:
            done(why)

    def refusal(self, event: HostCertified, now: int) -> Refusal | None:
        """Why a certificate isn't given; None: it is."""
        return refusal(event, self._invitations.get(event.invite_id), self._given.get(event.renews), now)

    def known(self, serial: str, host_id: str) -> Refusal | None:
        """Why a certificate of the cell's CA doesn't count; None: it does."""
        certificate = self._given.get(serial)
        return None if certificate is not None and certificate.host_id == host_id else revoked(host_id)

    def wait(self, serial: str, done: Callable[[Refusal | None], None]) -> None:
        """Has somebody told when a certificate is in the log, or why it isn't given."""
        self._waiting[serial] = done

    def removed(self, event: HostRemoved) -> None:
        """A host was removed."""
        before = void_before(event)
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
