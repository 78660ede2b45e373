"""Frames of a command inside a run: what a user types and what the command writes, on one stream each way.

A frame is its kind (1 byte), the length of its data (4 bytes, the highest first) and the data.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

HEAD = struct.Struct(">BI")
DATA_BYTES_MAX = 64 << 10
"""More is sent as several frames: nobody holds much of one before it is passed on."""
SIZE = struct.Struct(">HH")
PING_S = 5.0
"""So often each side is heard, whatever happens inside."""
UNKNOWN_CODE = 255
"""Exit code where nobody knows how a command ended, as of ssh."""


class Kind(IntEnum):
    """Kinds of frames. A reader passes over those that it doesn't know."""

    DATA = 0
    """Standard input, or standard output; with a terminal errors too."""
    ERRORS = 2
    """Standard error."""
    SIZE = 3
    """Rows and columns of the user's terminal, two bytes each."""
    END_OF_INPUT = 4
    CODE = 5
    """The command has ended; its exit code as text. The last frame."""
    SIGNAL = 6
    """The name of a signal for the command, as TERM."""
    PING = 7
    """Nothing: both sides know by it that the connection stands."""
    FAULT = 8
    """A code (`events/codes.py`) and a sentence, why there is no more, and the command's end isn't known, as
    `CODE: sentence`. The last frame.
    """


class Frame(NamedTuple):
    """One frame."""

    kind: int
    data: bytes = b""


class ExecsFull(LookupError):
    """So many commands go on that no more may begin; the message says where and how many."""


class FrameFault(Exception):
    """The bytes are no frames."""


def pack(kind: int, data: bytes = b"") -> bytes:
    """Frames as bytes: more than one where there is more data than one may hold."""
    if len(data) <= DATA_BYTES_MAX:
        return HEAD.pack(kind, len(data)) + data
    pieces = (data[at : at + DATA_BYTES_MAX] for at in range(0, len(data), DATA_BYTES_MAX))
    return b"".join(HEAD.pack(kind, len(piece)) + piece for piece in pieces)


def fault(code: str, sentence: str) -> bytes:
    """The last frame of what hasn't said how it ended."""
    return pack(Kind.FAULT, f"{code}: {sentence}".encode())


def code_of(data: bytes) -> int:
    """The exit code in a frame of the kind `CODE`; what is none isn't known."""
    return code if len(data) <= 3 and data.isdigit() and (code := int(data)) <= UNKNOWN_CODE else UNKNOWN_CODE


class FrameReader:
    """Puts frames together from what comes in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises `FrameFault`."""
        self._rest += data
        while len(self._rest) >= HEAD.size:
            kind, size = HEAD.unpack_from(self._rest)
            if size > DATA_BYTES_MAX:
                raise FrameFault(f"a frame of {size} bytes, at most {DATA_BYTES_MAX} are allowed")
            if len(self._rest) < HEAD.size + size:
                return
            frame = Frame(kind, bytes(self._rest[HEAD.size : HEAD.size + size]))
            del self._rest[: HEAD.size + size]
            yield frame
