"""Ports that runs hold by locks on a file of their machine (see `hostagent.ports`). For agent and keepers: nothing but
the standard library.
"""

import errno
import fcntl
import os
import socket
import struct

RUN_PORTS = 65_536
"""In the file of ports the byte RUN_PORTS + N stands for port N in the hands of a run."""


def open_ports(path: str) -> int:
    """The file of ports that all agents and runs of the machine share, made by whatever user came first: a system may
    refuse to open another's for creation.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        file = os.open(path, flags | os.O_CREAT, 0o666)
        os.fchmod(file, 0o666)
        return file


def lock_bytes(file: int, start: int, size: int) -> bool:
    """Locks bytes for this open file, not for the process, until it is closed. False: another has one of them."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, size, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def listened_on(port: int) -> bool:
    """Whether anybody listens on a port of this machine."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family)
        except OSError:  # not on this machine
            continue
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return True
    return False


def take(path: str, ports: list[int]) -> tuple[int, str]:
    """Takes all of these ports for a run. Returns the file that holds them until it is closed, -1 where it has none,
    and why it can't have them, empty where it can.
    """
    if not ports:
        return -1, ""
    file = open_ports(path)
    for port in ports:
        holder = "another run of this machine has" if not lock_bytes(file, RUN_PORTS + port, 1) else ""
        if holder or listened_on(port):
            os.close(file)
            return -1, f"{holder or 'a stranger listens on'} port {port}"
    return file, ""
