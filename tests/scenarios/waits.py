"""Waits of a scenario that nobody gave a reason for."""

from pathlib import Path
from tempfile import TemporaryDirectory

from events.codes import Code
from paceline.simulate.world.run import Run
from projections.queries.waits import pool_waits
from projections.views.projector import rebuild

MOST = 0.01


def without_a_reason(run: Run) -> list[str]:
    """What is wrong where more than a hundredth of all waiting has no reason, in words."""
    now_ms = run.cell.clock.ms
    with TemporaryDirectory() as folder:
        engine = rebuild(run.cell.log, Path(folder))
        with engine.connect() as connection:
            total = pool_waits(connection, "week", 0, now_ms, "/", None, 1)["total"]
        engine.dispose()
    waits = {each["code"]: each["task_ms"] for each in total["waiting"]}
    unknown = waits.get(Code.NOT_YET_EVALUATED, 0)
    if unknown <= MOST * total["waiting_ms"]:
        return []
    return [f"{unknown} of {total['waiting_ms']} task-milliseconds of waiting have no reason"]
