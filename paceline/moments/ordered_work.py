"""The start of a process that does one piece of work for another."""

import os
import sys
import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_order(kind: type[T], nice: int) -> T:
    """The order that standard input begins with. From now on this process lets others go first, by `nice`, and ends
    when standard input does: then nobody is left who wants its work.
    """
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=kind)
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.nice(nice)
    return order


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not through the buffer, whose lock would be held when this process ends
        pass
    os._exit(1)
