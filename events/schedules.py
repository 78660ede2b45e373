"""The times of windows: five fields of cron in local time, expanded by integers alone.

Machines have no time zones: the offsets come in the fact (`ZoneOffsets`, made by `events/time_zones.py`). All instants
are seconds since 1970, UTC. A local time that is skipped is the first instant after the gap, one that occurs twice the
first of both. A day matches as in cron (IEEE Std 1003.1, crontab): where both the day of the month and the day of the
week are restricted, either is enough.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from events.records.parts import ZoneOffsets

DAY_S = 86_400
EPOCH_DAY = date(1970, 1, 1).toordinal()
DAYS_AHEAD = 8 * 366 + 1
"""A schedule that has no day in so many is never due: the 29th of February is eight years from the next at most."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SCHEDULE_MAX = 256
"""Characters of a schedule."""
_PART = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d{1,4}))?")


class _Field(NamedTuple):
    """A field of a schedule: its name in sentences, its bounds, and names for its numbers from the least on."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 0, 7, WEEKDAYS),
)


class Schedule(NamedTuple):
    """The local times of a day, in seconds from its midnight, ascending, and the days that have them."""

    times: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    """Whether the day of the month isn't restricted."""
    any_weekday: bool

    def has(self, day: date) -> bool:
        """Whether it is due on this day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day or self.any_weekday else in_month or in_week


def schedule_fault(text: str) -> str:
    """The fault of a schedule; empty: there is none."""
    try:
        schedule = parsed(text)
    except ValueError as error:
        return str(error)
    return "" if next(_local_times(schedule, EPOCH_DAY), None) is not None else f"{text!r} names no day that there is"


@lru_cache(1024)
def parsed(text: str) -> Schedule:
    """The meaning of five fields of cron. Raises ValueError with a sentence."""
    words = text.split()
    if len(words) != len(_FIELDS) or len(text) > SCHEDULE_MAX:
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"{text[:80]!r} must be five fields: {names}; such as '0 2 * * 2', Tuesdays at two")
    minutes, hours, days, months, weekdays = (_numbers(word, field) for word, field in zip(words, _FIELDS, strict=True))
    times = tuple(sorted(hour * 3600 + minute * 60 for hour in hours for minute in minutes))
    weekdays = frozenset(each % 7 for each in weekdays)
    return Schedule(times, days, months, weekdays, words[2].startswith("*"), words[4].startswith("*"))


def next_opening(text: str, zone: ZoneOffsets, after_s: int) -> int | None:
    """The first instant after `after_s` at which a schedule is due; None: it never is."""
    first_day = _day_of(after_s, zone) - 1  # the offset may change meanwhile
    instants = (instant_of(local_s, zone) for local_s in _local_times(parsed(text), first_day))
    return next((instant for instant in instants if instant > after_s), None)


def last_opening(text: str, zone: ZoneOffsets, until_s: int, after_s: int) -> int | None:
    """The last instant up to `until_s` at which a schedule is due; None: it isn't after `after_s`."""
    schedule = parsed(text)
    for ordinal in range(_day_of(until_s, zone) + 1, _day_of(after_s, zone) - 2, -1):
        if schedule.has(date.fromordinal(ordinal)):
            midnight = (ordinal - EPOCH_DAY) * DAY_S
            before = bisect_right(schedule.times, until_s, key=lambda time: instant_of(midnight + time, zone))
            if before:
                instant = instant_of(midnight + schedule.times[before - 1], zone)
                return instant if instant > after_s else None
    return None


def instant_of(local_s: int, zone: ZoneOffsets) -> int:
    """The instant of a local time, itself given as if it were UTC."""
    offsets = zone.offset_s or (0,)
    for at, offset in enumerate(offsets):
        instant = local_s - offset
        if at + 1 == len(offsets) or instant < zone.from_s[at + 1]:
            # Where the stretch of this offset begins later, the time is in the gap before it.
            return instant if at == 0 else max(instant, zone.from_s[at])
    raise AssertionError


def local(instant_s: int, zone: ZoneOffsets) -> int:
    """The local time of an instant, as if it were UTC."""
    return instant_s + _offset(zone, instant_s)


def _offset(zone: ZoneOffsets, instant_s: int) -> int:
    return zone.offset_s[max(0, bisect_right(zone.from_s, instant_s) - 1)] if zone.offset_s else 0


def _day_of(instant_s: int, zone: ZoneOffsets) -> int:
    return EPOCH_DAY + local(instant_s, zone) // DAY_S


def _local_times(schedule: Schedule, first_day: int) -> Iterator[int]:
    """The local times at which a schedule is due from a day on, ascending."""
    for ordinal in range(max(1, first_day), min(date.max.toordinal(), first_day + DAYS_AHEAD)):
        if schedule.has(date.fromordinal(ordinal)):
            midnight = (ordinal - EPOCH_DAY) * DAY_S
            yield from (midnight + time for time in schedule.times)


def _numbers(text: str, field: _Field) -> frozenset[int]:
    """The numbers that a field names."""
    out: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if not match:
            raise ValueError(f"{field.name}: {part[:40]!r} must be *, a number, FIRST-LAST, or one of these with /STEP")
        star, first, last, step = match.groups()
        low = field.least if star else _number(first, field)
        high = _number(last, field) if last else field.most if star or step else low
        if low > high or step == "0":
            raise ValueError(f"{field.name}: {part!r} names nothing")
        out.update(range(low, high + 1, int(step or 1)))
    return frozenset(out)


def _number(word: str, field: _Field) -> int:
    name = word.lower()
    if name in field.names:
        return field.least + field.names.index(name)
    if not word.isascii() or not word.isdigit() or not field.least <= int(word[:9]) <= field.most:
        raise ValueError(f"{field.name}: {word[:40]!r} must be {field.least} to {field.most}")
    return int(word)
