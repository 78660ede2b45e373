"""Words about the state of a host: its shape, since when, why, and what helps."""

from paceline.client.host_models import Host
from projections.ui.format import lasts, moment
from projections.views.rows import HostRow

SHAPES = {
    "UP": "up",
    "SUSPECTED": "warn",
    "SILENT": "silent",
    "LOST": "lost",
    "RETURNING": "ordered",
    "CONNECTING": "pending",
}
COMMANDS = {"SILENT": "confirm-loss", "LOST": "remove", "SUSPECTED": "clear"}
"""The command of an operator for a host in a state, as `paceline host` has it."""


def since(row: HostRow, state: str, now_ms: int) -> str:
    """Says for how long a host has its state; empty: the views don't tell."""
    began = {"LOST": row.lost_ms, "SILENT": row.silent_ms, "UP": row.connected_ms}.get(state, 0)
    return lasts(now_ms - began) if began else ""


def why(body: Host) -> str:
    """Why a host isn't up; empty: it is. `body`: the host as the API shows it."""
    match body["state"]:
        case "LOST":
            return f"given up: {body['lost']['code'] if body['lost'] else ''}"
        case "SILENT":
            return "its gateway hears nothing of it"
        case "SUSPECTED":
            return body["suspected"]["message"] if body["suspected"] else ""
        case "RETURNING":
            return "it is back, its runs are compared with those that the cell knows"
        case "CONNECTING":
            return body["offer_refused"] or "it hasn't said yet what it offers"
    return ""


def until(row: HostRow) -> str:
    """Until when a suspected host takes no new tasks; empty: it takes them."""
    return moment(row.avoided_ms) if row.avoided_ms else ""
