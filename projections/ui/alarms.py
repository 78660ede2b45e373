"""The alarms of the moment that a page shows."""

from collections.abc import Sequence

from paceline.client.operation_models import Alarm, ProcessOperations
from projections.api.all_cells import OpenCell
from projections.queries import alarms
from projections.queries.alarms import CIRCLES, STALLS
from projections.ui.scene import Scene


def alarms_of(scene: Scene, cell: OpenCell, process: ProcessOperations | None) -> Sequence[Alarm] | None:
    """The alarms of a cell: in the past those that the views tell, else those that the process has found; None: it
    hasn't yet.
    """
    if not scene.at:
        return process.get("alarms") if process else None
    then = alarms.alarms(cell.connection, cell.context.cell, scene.now_ms, {}, ())
    return [Alarm(name=each.name, severity=each.severity, text=each.text) for each in then]


def circles_and_stalls(scene: Scene, cell: OpenCell) -> list[str]:
    """Sentences about work that goes in circles or is forgotten, for who may read alarms."""
    if not cell.context.permits.may_read("/v1/cell/operations"):
        return []
    process = cell.context.operations() if cell.context.operations and not scene.at else None
    return [each["text"] for each in alarms_of(scene, cell, process) or () if each["name"] in (CIRCLES, STALLS)]
