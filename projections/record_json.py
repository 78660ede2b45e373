"""Records as JSON: columns become lists, hashes hex, times RFC 3339."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from events.codec import CodecError, decode
from events.records.base import Event
from events.records.parts import Actor
from events.records.rounds import RoundCommitted
from paceline.client.json_type import Json
from projections.actor_names import actor_json

HASHES = frozenset(
    ("spec_hash", "inputs_hash", "start_hash", "prev_hash", "digest", "digests", "token_hash", "public_key")
)
PACKED = frozenset(("spec", "content"))
"""An encoded record, and a compressed one."""
JOBS_SHOWN = 100


def at(ms: int) -> str | None:
    """A time of the log; None where it hasn't come."""
    if not ms:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole(event: Event) -> Json:
    """All of a record."""
    fields = {name: _value(event, name) for name in event.__struct_fields__}
    if isinstance(event, RoundCommitted):
        fields["decisions"] = [
            {"event": type(decision).__name__, **whole(decision)} for decision in map(decode, event.decisions)
        ]
    return fields


def brief(event: Event) -> Json:
    """A record without its columns: how many items they have stands under `items`."""
    fields: Json = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if not isinstance(value, bytes):
            fields[name] = _value(event, name)
        elif name in ("job", "entitlement"):
            fields["items"] = len(value) // event.columns[name].itemsize
    if len(fields.get("job_ids", ())) > JOBS_SHOWN:
        fields["jobs"] = len(fields["job_ids"])
        fields["job_ids"] = fields["job_ids"][:JOBS_SHOWN]
    return fields


def _value(event: Event, name: str) -> Any:
    value = getattr(event, name)
    if isinstance(value, bytes):
        if name in HASHES:
            return value.hex()
        if name in PACKED:
            return _packed(value)
        kind = event.columns[name]
        return np.frombuffer(value, kind, len(value) // kind.itemsize).tolist()
    if isinstance(value, Actor):
        return actor_json(value)
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
