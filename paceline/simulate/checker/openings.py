"""When windows open, found minute by minute: slower than machines do it, and by other code."""

from datetime import UTC, datetime

from events.records.hosts import MaintenanceWindowSet
from events.records.parts import ZoneOffsets

MINUTES = 8 * 24 * 60
"""So far ahead is looked: a window that opens every week is found."""
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def opening(window: MaintenanceWindowSet, after_ms: int) -> int | None:
    """The first opening after a time, in milliseconds; None: not within `MINUTES`, or it can't be told here."""
    if any(at_s % 60 for at_s in window.zone.from_s[1:]) or any(letter.isalpha() for letter in window.schedule):
        return None
    fields = [_numbers(word, *range_) for word, range_ in zip(window.schedule.split(), RANGES, strict=True)]
    stars = [word.startswith("*") for word in window.schedule.split()]
    first = after_ms // 60_000 + 1
    for minute in range(first, first + MINUTES):
        if _is_due(fields, stars, window.zone, minute * 60):
            return minute * 60_000
    return None


def _is_due(fields: list[set[int]], stars: list[bool], zone: ZoneOffsets, second: int) -> bool:
    """Whether it opens at an instant: its local time is due and has not been before, or was jumped over just now."""
    east, before = _east(zone, second), _east(zone, second - 1)
    jumped = range(second + before, second + east, 60)
    if any(_matches(fields, stars, local) for local in jumped):
        return True
    local = second + east
    again = any(at <= second and local < at + _east(zone, at - 1) for at in zone.from_s[1:])
    return not again and _matches(fields, stars, local)


def _matches(fields: list[set[int]], stars: list[bool], local: int) -> bool:
    at = datetime.fromtimestamp(local, UTC)
    minutes, hours, days, months, weekdays = fields
    in_month, in_week = at.day in days, bool({at.isoweekday() % 7, at.isoweekday()} & weekdays)
    either = in_month or in_week if not stars[2] and not stars[4] else in_month and in_week
    return at.minute in minutes and at.hour in hours and at.month in months and either


def _east(zone: ZoneOffsets, second: int) -> int:
    """Seconds east of UTC."""
    if not zone.offset_s:
        return 0
    so_far = [offset for at, offset in zip(zone.from_s, zone.offset_s, strict=True) if at <= second]
    return so_far[-1] if so_far else zone.offset_s[0]


def _numbers(text: str, low: int, high: int) -> set[int]:
    out: set[int] = set()
    for part in text.split(","):
        body, _, step = part.partition("/")
        first, _, last = body.partition("-")
        begin = low if body == "*" else int(first)
        end = high if body == "*" or (step and not last) else int(last or first)
        out |= {*range(begin, end + 1, int(step or 1))}
    return out
