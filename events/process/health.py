"""The health of a process that follows the log."""

from typing import Any, NamedTuple


class Health(NamedTuple):
    """`started`: it has come up; `ready`: it does its work; `detail` says why not."""

    started: bool
    ready: bool
    detail: dict[str, Any]
