"""The offsets of time zones for facts (decision 097), from the zone data of this system: no other module has any."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from events.nearest import meant
from events.records.parts import ZoneOffsets

YEARS = 10
"""A fact has the offsets of so many years."""
DAY_S = 86_400


class UnknownZone(ValueError):
    """There is no such time zone, or no data about it, here; the text is a sentence about both."""


def offsets_of(name: str, from_s: int) -> ZoneOffsets:
    """The offsets of a time zone from an instant on, in seconds since 1970, for `YEARS`; UTC needs no data.

    Raises `UnknownZone`.
    """
    until_s = from_s + YEARS * 366 * DAY_S
    if name in ("", "UTC"):
        return ZoneOffsets(name="UTC", from_s=(0,), offset_s=(0,), until_s=until_s)
    first_s = from_s - from_s % DAY_S - DAY_S
    changes = [(first_s, _offset(name, first_s)), *_changes(name, first_s, until_s)]
    return ZoneOffsets(name, tuple(at for at, _ in changes), tuple(offset for _, offset in changes), until_s)


def _changes(name: str, first_s: int, until_s: int) -> Iterator[tuple[int, int]]:
    """Each instant at which the offset changes, and the offset from then on. No zone has two changes in a day."""
    for day_s in range(first_s, until_s, DAY_S):
        before, after = _offset(name, day_s), _offset(name, day_s + DAY_S)
        if before != after:
            low, high = day_s, day_s + DAY_S  # low has the offset before the change, high the one after it
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(name, middle) == before else (low, middle)
            yield high, after


def _offset(name: str, instant_s: int) -> int:
    """Seconds east of UTC."""
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=instant_s)).astimezone(_zone(name)).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        pass
    zones = sorted(available_timezones())
    if not zones:
        where = "this system has no data about time zones: install its package tzdata, or write UTC"
        raise UnknownZone(f"{name[:80]!r} isn't known here; {where}")
    near = meant(name, zones) or "; write one such as Europe/Berlin, or UTC"
    raise UnknownZone(f"there is no time zone {name[:80]!r}{near}")
