"""When something happens to a job by itself next, and what."""

from sqlalchemy import Connection

from events.bounds import PULL_MS
from events.codes import UpdateState
from paceline.client.models import WakeUp
from projections.queries.throttled import next_due
from projections.record_json import at
from projections.views.rows import JobRow
from projections.views.update_rows import UpdateRow


def next_wake_up(connection: Connection, job: JobRow, update: UpdateRow | None) -> WakeUp | None:
    """The time of it and a sentence; None: nothing waits for a time."""
    times: list[tuple[int, str]] = []
    if not job.held_ms and (due := next_due(connection, job)) is not None:
        at_ms, instance, tasks = due
        others = f", {tasks - 1} more wait for their time" if tasks > 1 else ""
        times.append((at_ms, f"task {instance} is run again{others}"))
    if update is not None and update.state == UpdateState.CANARY and not update.paused_ms and update.promoted_ms():
        times.append((update.promoted_ms(), f"update {update.number} goes on from its canary"))
    if update is not None and update.image_ms:
        times.append((update.image_ms + PULL_MS, f"update {update.number} begins, whoever lacks its image"))
    if not times:
        return None
    at_ms, why = min(times)
    return {"at": at(at_ms), "why": why}
