"""Words about the state of a host: its shape, since when, why, and what helps."""

from paceline.client.host_models import Host
from projections.host_states import HostState
from projections.ui.format import lasts, moment
from projections.views.rows import HostRow

SHAPES: dict[str, str] = {
    HostState.UP: "up",
    HostState.SUSPECTED: "warn",
    HostState.SILENT: "silent",
    HostState.LOST: "lost",
    HostState.RETURNING: "ordered",
    HostState.CONNECTING: "pending",
}
DEVICE_SHAPES = {"OK": "up", "UNHEALTHY": "warn", "DISABLED": "killed", "EMPTYING": "stopping", "GONE": "lost"}
"""By the state of a device."""
COMMANDS: dict[str, tuple[str, ...]] = {
    HostState.SILENT: ("confirm-loss", "remove"),
    HostState.LOST: ("remove",),
    HostState.SUSPECTED: ("clear",),
}
"""The commands of an operator for a host in a state, as `paceline host` has them, the usual one first."""


def commands_for(body: Host) -> tuple[str, ...]:
    """The commands of an operator for a host: by how it is heard, then by its stage."""
    maintenance = body["maintenance"]
    stage = maintenance["stage"] if maintenance is not None else "UP"
    of_stage = {"UP": ("drain", "cordon"), "CORDONED": ("drain", "uncordon")}.get(stage, ("resume",))
    return (*COMMANDS.get(body["state"], ()), *of_stage)


def since(row: HostRow, state: str, now_ms: int) -> str:
    """Says for how long a host has its state; empty: the views don't tell."""
    began_ms: dict[str, int] = {
        HostState.LOST: row.lost_ms,
        HostState.SILENT: row.silent_ms,
        HostState.UP: row.connected_ms,
    }
    began = began_ms.get(state, 0)
    return lasts(now_ms - began) if began else ""


def why(body: Host) -> str:
    """Why a host isn't up; empty: it is. `body`: the host as the API shows it."""
    match body["state"]:
        case HostState.LOST:
            return f"lost: {body['lost']['code'] if body['lost'] else ''}"
        case HostState.SILENT:
            return "its gateway hears nothing of it"
        case HostState.SUSPECTED:
            return body["suspected"]["message"] if body["suspected"] else conditions_words(body)
        case HostState.RETURNING:
            return "it is back, its runs are compared with those that the cell knows"
        case HostState.CONNECTING:
            return body["offer_refused"] or "it hasn't said yet what it offers"
    return body["shrunk"]["message"] if body["shrunk"] else ""


def conditions_words(body: Host) -> str:
    """The conditions of a host that isn't well; empty: it is."""
    words = ", ".join(f"{each['name']} ({each['code']})" for each in body["conditions"])
    return f"it isn't well: {words}" if words else ""


def until(row: HostRow) -> str:
    """Until when a suspected host takes no new tasks; empty: it takes them."""
    return moment(row.avoided_ms) if row.avoided_ms > 0 else "it is well" if row.avoided_ms else ""
