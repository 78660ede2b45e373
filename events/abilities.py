"""Abilities of agents beside running a process: attributes that they offer, and that jobs which need it wait for."""

from collections.abc import Sequence
from typing import Protocol

HEALTH = "paceline/health"
STOP_SIGNAL = "paceline/stop-signal"
OPEN_FILES = "paceline/open-files"
VOLUMES = "paceline/volumes"
OUT_OF_MEMORY = "paceline/out-of-memory"
"""The host tells processes that were killed for want of memory from others; no job needs it."""
NEEDED = {HEALTH: "health check", STOP_SIGNAL: "stop_signal", OPEN_FILES: "open_files", VOLUMES: "volumes"}
"""The field of a job that needs each ability. This build's agents have all of them."""
VALUE = "yes"


class _Asks(Protocol):
    """The fields of a job that need abilities of agents."""

    @property
    def health(self) -> object | None: ...
    @property
    def stop_signal(self) -> str: ...
    @property
    def open_files(self) -> int: ...
    @property
    def volumes(self) -> Sequence[str]: ...


def abilities() -> dict[str, str]:
    """The attributes of a host whose agent is of this build."""
    return dict.fromkeys(NEEDED, VALUE)


def needed(job: _Asks) -> list[str]:
    """The attributes that a host must offer to run tasks of a job."""
    asks = {
        HEALTH: job.health is not None,
        STOP_SIGNAL: job.stop_signal != "TERM",
        OPEN_FILES: job.open_files > 0,
        VOLUMES: len(job.volumes) > 0,
    }
    return [attribute for attribute, uses in asks.items() if uses]
