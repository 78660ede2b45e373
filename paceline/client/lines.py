"""A stream of bytes divided at newlines, and text that holds no other line separator."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec


class Lines:
    """Divides chunks of bytes at newlines and at nothing else: U+2028, U+0085 and the like are part of a line."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are complete with this chunk, without their newline."""
        first, *more = chunk.split(b"\n")
        self._partial.append(first)
        for each in more:
            yield b"".join(self._partial)
            self._partial = [each]


def ascii_json(value: Any) -> bytes:
    """JSON in which everything but ASCII is escaped, so that no reader takes a part of it for the end of a line."""
    text = msgspec.json.encode(value)
    return text if text.isascii() else json.dumps(json.loads(text), separators=(",", ":")).encode("ascii")
