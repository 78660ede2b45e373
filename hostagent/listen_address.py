"""The address that a process of a cell listens on. Imports nothing that serves, which would take long."""

import socket

BACKLOG = 256
"""Connections that wait to be accepted, at most: event loops accept all of them in one go."""


def bound(listen: str) -> socket.socket:
    """A socket that listens on HOST:PORT, 0 for any port. Raises `OSError` with a sentence."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    # With the protocol named, asyncio turns Nagle's algorithm off on what it accepts (TCP_NODELAY). Without it every
    # answer on a kept connection waits for the peer's delayed acknowledgement, 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, int(port)))
        listening.listen(BACKLOG)  # who bound it at the same moment may listen first
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else "no such port"
        raise OSError(f"can't listen on {listen}: {why}. Choose another address with --listen.") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """HOST:PORT of a socket that listens."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
