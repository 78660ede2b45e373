"""Room on hosts that is kept for units: what others leave for one, and what is drained for one."""

from typing import NamedTuple

from events.codes import Code
from events.columns import I64


class OwnRoom(NamedTuple):
    """The room kept for one unit."""

    hosts: I64
    """Numbers of hosts, ascending."""
    amounts: I64
    """The amounts kept on each of them, [kinds + 1, hosts] with ports behind the kinds; part of what is free there now.
    """
    complete: bool
    """Whether all is there that it needs."""
    code: Code
    """The reason of its wait while it finds no place: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""


class KeptRoom(NamedTuple):
    """The room kept for all units. Others see what is free less that; a unit sees its own too."""

    amounts: I64
    """[kinds + 1, hosts]: the sum of what is kept."""
    own: dict[int, OwnRoom]
    """By the slot of the first task of a unit."""
    ports: dict[int, list[int]]
    """The hosts on which a port number is kept for a unit."""
