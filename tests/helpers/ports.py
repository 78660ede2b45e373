"""Ports of this machine that are kept for those who are told them: brokers and gateways, which cannot say theirs in a
file, and addresses where nobody must answer. Whoever can, listens on port 0 instead.
"""

import random
import socket
from contextlib import suppress

PORTS = 10_000, 20_000
"""Not those that the system gives to whoever connects."""
_held: list[socket.socket] = []


def kept_port() -> int:
    """A port of 127.0.0.1 that nobody else is given while this process lives. Whoever sets SO_REUSEADDR may listen on
    it, as often as it likes: what holds the port is bound and doesn't listen. Until then connections are refused.
    """
    draw = random.SystemRandom()
    while True:
        held = socket.socket()
        with suppress(OSError):
            held.bind(("127.0.0.1", draw.randrange(*PORTS)))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # before, two could hold the same port
            _held.append(held)
            return int(held.getsockname()[1])
        held.close()


def kept_address() -> str:
    """HOST:PORT of a kept port."""
    return f"127.0.0.1:{kept_port()}"
