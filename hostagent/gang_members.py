"""Where the members of a gang are: how the gateway tells the agents, and they the processes."""

import binascii
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

ADDRESSES_BYTES_MAX = 64 * 1024
"""Addresses of a larger gang stand in the file only: a process can't be started with so long a variable."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024


class Member(NamedTuple):
    """The address of the host of a member, and its port numbers."""

    host: str
    ports: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.host, *map(str, self.ports[:1])])


def packed(members: Sequence[Member]) -> str:
    """Members by rank as short text: each host of a gang is sent all of them."""
    return binascii.b2a_base64(zlib.compress(msgspec.json.encode(members)), newline=False).decode()


def unpacked(text: str) -> list[Member]:
    """Reads the members from a text that `packed` made. Raises `ValueError`."""
    try:
        plain = zlib.decompressobj().decompress(binascii.a2b_base64(text), UNPACKED_BYTES_MAX)
        return msgspec.json.decode(plain, type=list[Member])
    except (binascii.Error, zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"the members of the gang can't be read: {error}") from error


def variables(members: Sequence[Member], rank: int) -> dict[str, str]:
    """The variables in the environment of a member: its rank, the size of the gang, the first member, and all addresses
    by rank, each with the first of its ports.
    """
    environment = {
        "PACELINE_RANK": str(rank),
        "PACELINE_SIZE": str(len(members)),
        "PACELINE_MASTER_HOST": members[0].host,
    }
    if members[0].ports:
        environment["PACELINE_MASTER_PORT"] = str(members[0].ports[0])
    addresses = ",".join(map(str, members))
    return environment | ({"PACELINE_ADDRESSES": addresses} if len(addresses.encode()) <= ADDRESSES_BYTES_MAX else {})


def listing(job_id: str, members: Sequence[Member]) -> str:
    """The file that a member can read: JSON, a list by rank with task, host and ports."""
    rows = [{"task": f"{job_id}/{rank}", "host": each.host, "ports": each.ports} for rank, each in enumerate(members)]
    return msgspec.json.encode(rows).decode()
