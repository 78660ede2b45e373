"""The records of `schemas/placements`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import PlacedDevice


class TaskPlaced(Event, frozen=True, kw_only=True):
    """A run was assigned to a host. Key: JOB/INSTANCE."""

    topic: ClassVar[str] = "paceline.placements"

    event_id: str
    """CELL/MACHINE/ROUND/INDEX/ITEM, here and in the header paceline-event-id; the same for a repeat and for no other
    event.
    """

    cell: int
    """The cell."""

    machine: str
    """placement."""

    round: int
    """Number of the round, growing."""

    index: int
    """Place of the decision in its round, from 0."""

    item: int
    """Place of the run in the decision, from 0."""

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    job_id: str
    """The job."""

    instance: int
    """Instance of the job, from 0."""

    run: int
    """Number of the run, from 1."""

    host_id: str
    """The host."""

    host_session: int
    """Number of the connection of the agent of that host, growing."""

    ports: tuple[int, ...]
    """Port numbers that it was given, in the order of the ports of its job."""

    devices: tuple[PlacedDevice, ...] = ()
    """The devices and whole cores that it was given."""


ALL: tuple[type[Event], ...] = (TaskPlaced,)
