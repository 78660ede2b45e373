"""The state of a host: the rule, for one host and for the columns of all."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from events.codes import Stage


class HostState(StrEnum):
    """The states of a host."""

    UP = "UP"
    SUSPECTED = "SUSPECTED"
    """It takes only tasks that may run nowhere else."""
    SILENT = "SILENT"
    """Its gateway doesn't hear it."""
    LOST = "LOST"
    """It was given up in its present session."""
    RETURNING = "RETURNING"
    """It is back, and its runs are compared with those that the cell knows."""
    CONNECTING = "CONNECTING"
    """It hasn't said yet what it offers."""


STAGES = tuple(stage.name for stage in Stage if stage != Stage.UP)
"""The stages of maintenance by which hosts are shown and asked for, beside their states."""


def conditions(
    *, lost: Any, silent: Any, offered: Any, avoided: Any, session: Any, reconciled: Any
) -> Mapping[HostState, Any]:
    """The condition of each state: the first that holds is the state of a host, CONNECTING where none does.

    The arguments are numbers of one host, or arrays of all. `lost`: it was given up in this session or a later one;
    `reconciled`: the last session whose runs were compared; of the others 0 means no.
    """
    ready = (offered > 0) & (reconciled >= session)
    return {
        HostState.LOST: lost,
        HostState.SILENT: silent > 0,
        HostState.SUSPECTED: ready & (avoided != 0),
        HostState.UP: ready,
        HostState.RETURNING: (session > 0) & (reconciled > 0),
    }


def host_state_of(conditions_of_host: Mapping[HostState, Any]) -> HostState:
    """The state of one host."""
    return next((state for state, holds in conditions_of_host.items() if holds), HostState.CONNECTING)
