"""The actor of a fact: how a name is known, and the bytes of a fact without it.

No machine looks at `actor`: two submissions that differ in nothing else are the same job, of the same size.
"""

import io
import re
from typing import Any

import fastavro
import msgspec

from events.codec import HEADER_BYTES, ID_HEADER_BYTES, MARKER, writer_schema
from events.records.base import Event
from events.records.parts import Actor
from events.topics import POOLS

ENVIRONMENT, SYSTEM_USER, HEADER, SESSION, API = "environment", "system-user", "header", "session", "api"
TOKEN, OIDC, CERTIFICATE, RUN = "token", "oidc", "certificate", "run"
PROVEN = frozenset((TOKEN, OIDC, CERTIFICATE, RUN))
"""The ways in which a server knows a name by proof. Who writes to Kafka may claim any: signatures tell them apart."""
SUBJECT_MAX = 128
SIZES_MAX = 4096
OF_RUN = re.compile(r"job/(.+)/task/(\d+)/run/(\d+)")
"""The subject of a run."""
_sizes: dict[tuple[bytes, Actor | None], int] = {}


def writer_of(event: Event) -> str:
    """The subject of who has written a fact; empty: it doesn't say."""
    actor: Actor | None = getattr(event, "actor", None)
    return "" if actor is None else actor.subject


def binding_of(actor: Actor) -> str:
    """The position of the role that allowed a fact; empty: none was needed."""
    return "" if actor.binding is None else f"{POOLS.name}:{actor.binding}"


def body_without_actor(data: bytes, actor: Actor | None) -> bytes:
    """The value of an encoded record up to its `actor`, which is the last field of all records that have one. The same
    for each build, and for records of before there was one.
    """
    start = HEADER_BYTES if data[:2] == MARKER else ID_HEADER_BYTES
    if actor is not None and actor.signature:  # differs in each fact, and is as long in all
        actor = msgspec.structs.replace(actor, signature=bytes(len(actor.signature)))
    try:
        size = _sizes[data[:start], actor]
    except KeyError:
        size = _size(writer_schema(data), actor)
        if len(_sizes) >= SIZES_MAX:
            _sizes.clear()
        _sizes[data[:start], actor] = size
    return data[start : -size or None]


def _size(schema: Any, actor: Actor | None) -> int:
    """Bytes of an actor, as a schema has it."""
    last = schema["fields"][-1]
    if last["name"] != "actor":
        return 0
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(last["type"]), msgspec.to_builtins(actor, builtin_types=(bytes,))
    )
    return len(out.getvalue())
