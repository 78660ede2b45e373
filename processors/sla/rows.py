"""The rows of sla's tables."""

import msgspec


class JobRow(msgspec.Struct, array_like=True):
    """A job with an SLA: its place in the arena and how many of its instances may be unavailable."""

    base: int
    instances: int
    max_unavailable: int
