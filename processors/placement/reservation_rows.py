"""The rows of reservations."""

import msgspec


class ReservationRow(msgspec.Struct, array_like=True):
    """Hosts that are drained for a unit: `count` instances at a run.

    Invariant: a host is in one reservation only, so that no two units hold halves of what both need.
    """

    count: int
    run: int
    hosts: list[str]
    tasks: list[int]
    """The number of its tasks that each host is to hold."""
    shapes: list[int]
    """The index of their shape among those of the unit."""
    until_ms: int
    reported: dict[str, int]
    """The amounts that were last reported to be kept."""
    over: str = ""
    """Why it is no more, while that isn't said yet."""


class PauseRow(msgspec.Struct, frozen=True, array_like=True):
    """A pause after a reservation found no use, until a time; `times` in a row."""

    times: int
    until_ms: int
