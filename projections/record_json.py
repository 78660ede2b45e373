"""Records as JSON: columns become lists, hashes hex, times RFC 3339."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from events.codec import CodecError, decode
from events.columns import ints, longs
from events.records.base import Event
from events.records.rounds import RoundCommitted

HASHES = frozenset(("spec_hash", "inputs_hash", "start_hash", "prev_hash", "digest", "digests"))
_LONGS = frozenset(
    ("host_session", "entitlement", "demand", "allocation", "placed", "others", "held", "cpu_ms", "memory_kib")
).union(("daemons", "excess", "giver_entitlement", "reserved", "spare", "credit", "rate", "full"))
PACKED = frozenset(("spec", "content"))
"""An encoded record, and a compressed one."""
JOBS_SHOWN = 100


def at(ms: int) -> str | None:
    """A time of the log; None where it hasn't come."""
    if not ms:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_longs(name: str) -> bool:
    """Whether a column holds int64."""
    return name in _LONGS


def whole(event: Event) -> dict[str, Any]:
    """All of a record."""
    fields = {name: _value(name, getattr(event, name)) for name in event.__struct_fields__}
    if isinstance(event, RoundCommitted):
        fields["decisions"] = [
            {"event": type(decision).__name__, **whole(decision)} for decision in map(decode, event.decisions)
        ]
    return fields


def brief(event: Event) -> dict[str, Any]:
    """A record without its columns: how many items they have stands under `items`."""
    fields: dict[str, Any] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if not isinstance(value, bytes):
            fields[name] = _value(name, value)
        elif name in ("job", "entitlement"):
            fields["items"] = len(value) // (8 if is_longs(name) else 4)
    if len(fields.get("job_ids", ())) > JOBS_SHOWN:
        fields["jobs"] = len(fields["job_ids"])
        fields["job_ids"] = fields["job_ids"][:JOBS_SHOWN]
    return fields


def _value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        if name in HASHES:
            return value.hex()
        if name in PACKED:
            return _packed(value)
        return (longs(value) if is_longs(name) else ints(value)).tolist()
    if name == "skipped":
        return [{**msgspec.to_builtins(each, builtin_types=(bytes,)), "digest": each.digest.hex()} for each in value]
    if name == "decisions":
        return []
    return msgspec.to_builtins(value)


def _packed(value: bytes) -> Any:
    """The record in the bytes; where there is none to be read, how many they are."""
    try:
        return whole(decode(value))
    except CodecError:
        return {"bytes": len(value)}
