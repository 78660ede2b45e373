"""What the process that makes views is told, and what it tells."""

import msgspec

GONE = 3
"""Exit code: the log no longer has what the views are made of."""


class LogAddress(msgspec.Struct, frozen=True):
    """Where a process opens the log of a cell, as settings name it."""

    data: str
    cell: int
    kafka: str = ""
    kafka_options: dict[str, str] = {}
    schema_registry_url: str = ""
    archive: str = ""


class Order(msgspec.Struct, frozen=True):
    """What the process that makes views gets: the log, where its topics shall end, the file to make, and the folder
    with what it may begin from.
    """

    log: LogAddress
    ends: dict[str, int]
    target: str
    folder: str


class Progress(msgspec.Struct, frozen=True):
    """How many records of how many are folded."""

    done: int
    of: int
