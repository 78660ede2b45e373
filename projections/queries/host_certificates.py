"""Invitations and certificates of hosts as answers have them."""

from sqlalchemy import Connection

from events.topics import HOSTS
from paceline.client.host_models import HostCertificate, OpenInvitation
from projections.actor_names import actor_json
from projections.queries.access import InvitationRow, certificates
from projections.record_json import at


def open_json(row: InvitationRow) -> OpenInvitation:
    """An open invitation, with who invited the host."""
    return {
        "host_id": row.host_id,
        "invite_id": row.invite_id,
        "until": at(row.until_ms),
        "reason": row.reason,
        "actor": actor_json(row.actor),
        "at": at(row.at_ms),
        "position": f"{HOSTS.name}:{row.offset}",
    }


def newest_certificate(connection: Connection, host_id: str, now_ms: int) -> HostCertificate | None:
    """The newest certificate of a host, at a time; one that still counts before one that doesn't."""
    rows = certificates(connection, host_id)
    if not rows:
        return None
    row = max(rows, key=lambda each: (not each.is_revoked, each.offset))
    return {
        "serial": row.serial,
        "fingerprint": row.fingerprint,
        "state": "REVOKED" if row.is_revoked else "EXPIRED" if row.until_ms <= now_ms else "VALID",
        "from_at": at(row.from_ms),
        "until_at": at(row.until_ms),
        "renews": row.renews or None,
        "at": at(row.at_ms),
    }
