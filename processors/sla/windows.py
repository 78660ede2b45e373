"""The windows of jobs: the times at which others may disrupt them."""

import msgspec

from events.records.parts import ZoneOffsets
from events.schedules import last_opening, next_opening
from processors.sla.rows import JobRow


def look(row: JobRow, now_ms: int) -> None:
    """Brings a row to what its windows say now."""
    now = now_ms // 1000
    row.closes_s, row.opens_s = 0, 0
    for window in row.rules.windows:
        zone = msgspec.convert(window.zone, ZoneOffsets, from_attributes=True)
        duration = window.duration_ms // 1000
        opened, opens = (
            last_opening(window.schedule, zone, now, now - duration),
            next_opening(window.schedule, zone, now),
        )
        if opened is not None:
            row.closes_s = max(row.closes_s, opened + duration)
        if opens is not None:
            row.opens_s = min(row.opens_s, opens) if row.opens_s else opens


def is_closed(row: JobRow) -> bool:
    """Whether a job has windows, and none is open."""
    return bool(row.policy and row.policy.windows) and not row.closes_s


def next_ms(row: JobRow) -> int | None:
    """The next time at which its windows close, or one opens."""
    at = row.closes_s or row.opens_s
    return at * 1000 if at else None
