"""Types that msgspec decodes, made known to it by one thread at a time.

msgspec notes how a type is built when it first meets it. A second thread that meets the type in that moment reads notes
that are half written, and the process crashes (seen in 0.22.0).
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_known: set[Any] = set()
_meeting = threading.Lock()


def known(kind: type[T]) -> type[T]:
    """The type itself, once msgspec knows it and all that it is made of."""
    if kind not in _known:
        with _meeting:
            msgspec.msgpack.Decoder(kind)
        _known.add(kind)
    return kind
