"""The operation of the cell: alarms, machines, the log, gateways and readers, what was skipped, settings, versions."""

from paceline.client.cell_models import Machine
from projections.queries import entities, operations
from projections.record_json import at
from projections.ui.alarms import alarms_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

QUARANTINE_SHOWN = 20


def load(scene: Scene) -> PageValues:
    """Loads what the views say, and in the present what this process knows beside them."""
    cell = scene.first()
    connection, context = cell.connection, cell.context
    context.permits.read("/v1/cell/operations")
    positions = operations.positions(connection)
    process = context.operations() if context.operations and not scene.at else None
    bounds = (process.get("log") if process else None) or {}
    info: dict[str, Machine] = {} if scene.at else context.cell_info().get("machines", {})
    return {
        "machines": operations.machines(connection),
        "hashes": {machine: each.get("hash", "") for machine, each in info.items()},
        "lags": {machine: sum(each["lag"].values()) for machine, each in info.items() if each.get("lag") is not None},
        "gateways": operations.gateways(connection),
        "quarantined": operations.quarantined(connection),
        "quarantine": entities.quarantine_rows(connection, QUARANTINE_SHOWN, None).rows,
        "topics": [(topic, _known(bounds.get(topic), end), end) for topic, end in positions.items()],
        "process": process,
        "alarms": alarms_of(scene, cell, process),
        "alarms_at": at(scene.now_ms) if scene.at or context.has_ended else process["at"] if process else "",
        "asked": context.operations is not None and not scene.at,
        "cell": scene.query.get("cell"),
        "cell_number": context.cell,
        "now_ms": scene.now_ms,
    }


def _known(bounds: list[int] | None, end: int) -> tuple[int, int] | None:
    """Where a topic begins and ends: the views may know a later end than when the log was asked."""
    return (bounds[0], max(bounds[1], end)) if bounds else None


PAGES = (Page("/operations", "operations.html", load, "Operations"),)
