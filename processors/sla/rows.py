"""The rows of sla's tables."""

import msgspec


class JobRow(msgspec.Struct, array_like=True):
    """A job with an SLA: its place in the arena and how many of its instances may be unavailable. `instances`: its
    highest instance plus 1.
    """

    base: int
    instances: int
    max_unavailable: int
