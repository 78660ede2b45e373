"""Whether the SLA of a submitted job makes sense."""

import re
from collections.abc import Iterator

from events.bounds import INSTANCES_MAX, MS_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS, WINDOWS_MAX
from events.schedules import schedule_fault
from events.sla import GROUP_PATTERN, replace_fault
from processors.lifecycle.rows import SubmittedRow
from processors.state.record_rows import SlaRow


def sla_problems(job: SubmittedRow) -> Iterator[str]:
    """The problems of the SLA of a job."""
    most = job.instances if job.kind != "daemon" else INSTANCES_MAX
    sla = job.sla or SlaRow()
    for name, value in (("max_unavailable", job.max_unavailable), ("min_available", sla.min_available)):
        if value is not None and not 0 <= value <= most:
            yield f"{name} is {value}, it must be 0 to {most}"
    if job.sla is None:
        return
    if job.max_unavailable is not None and sla.max_unavailable_percent is not None:
        yield "max_unavailable and max_unavailable_percent exclude each other"
    for name in ("max_unavailable_percent", "min_available_percent", "per_hour_percent"):
        if (percent := getattr(sla, name)) is not None and not 0 <= percent <= 100:
            yield f"{name} is {percent}, it must be 0 to 100"
    if sla.per_hour is not None and not 0 <= sla.per_hour <= INSTANCES_MAX:
        yield f"per_hour is {sla.per_hour}, it must be 0 to {INSTANCES_MAX}"
    for name in ("min_healthy_ms", "replace_wait_ms"):
        if not 0 <= getattr(sla, name) <= MS_MAX:
            yield f"{name} is {getattr(sla, name)}, it must be 0 to {MS_MAX}"
    yield from _replacement(job, sla)
    if sla.group and not re.fullmatch(GROUP_PATTERN, sla.group):
        yield f"group {sla.group[:140]!r} must be 1 to 128 of a-z, 0-9, dot, dash, underscore"
    if len(sla.windows) > WINDOWS_MAX:
        yield f"the SLA has {len(sla.windows)} windows, at most {WINDOWS_MAX} are allowed"
    for window in sla.windows:
        if fault := schedule_fault(window.schedule):
            yield f"the schedule of a window: {fault}"
        if len(window.zone.from_s) != len(window.zone.offset_s) or list(window.zone.from_s) != sorted(
            window.zone.from_s
        ):
            yield "the zone of a window must have an offset for each instant, ascending"
        if not WINDOW_MIN_MS <= window.duration_ms <= WINDOW_MAX_MS:
            bounds = f"{WINDOW_MIN_MS} to {WINDOW_MAX_MS}"
            yield f"duration_ms of a window is {window.duration_ms}, it must be {bounds}"


def _replacement(job: SubmittedRow, sla: SlaRow) -> Iterator[str]:
    if sla.replace not in ("", "before"):
        yield f"replace is {sla.replace[:40]!r}, it must be before, or empty"
    elif sla.replace and (why := replace_fault(job.kind, bool(job.port_numbers))):
        yield f"replace {why}"
    if not 1 <= sla.surge <= INSTANCES_MAX:
        yield f"surge is {sla.surge}, it must be 1 to {INSTANCES_MAX}"
