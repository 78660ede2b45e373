"""The health of a process that follows the log."""

from typing import NamedTuple

from paceline.client.json_type import Json


class Health(NamedTuple):
    """`started`: it has come up; `ready`: it does its work; `detail` says why not."""

    started: bool
    ready: bool
    detail: Json
