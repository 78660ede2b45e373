"""Schedules of windows: what cron means by them, in zones whose clocks change."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import schedules, time_zones
from events.records.parts import ZoneOffsets
from events.schedules import Schedule, instant_of, last_opening, local, next_opening, parsed, schedule_fault
from events.time_zones import UnknownZone, offsets_of

BERLIN = offsets_of("Europe/Berlin", int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()))
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "UTC")


def openings(schedule: str, zone: ZoneOffsets, after: str, count: int) -> list[str]:
    """The next openings, in UTC."""
    at: int | None = int(datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp())
    out: list[str] = []
    for _ in range(count):
        assert at is not None
        at = next_opening(schedule, zone, at)
        assert at is not None
        out.append(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M"))
    return out


def test_a_window_opens_at_the_local_hour_on_both_sides_of_a_change_of_the_clock() -> None:
    assert openings("0 2 * * 2", BERLIN, "2026-10-14", 2) == ["2026-10-20 00:00", "2026-10-27 01:00"]


def test_a_time_that_is_skipped_in_spring_is_the_first_instant_after_the_gap() -> None:
    assert openings("30 2 * * *", BERLIN, "2026-03-28", 3) == [
        "2026-03-28 01:30",
        "2026-03-29 01:00",
        "2026-03-30 00:30",
    ]


def test_a_time_that_occurs_twice_in_autumn_is_the_first_of_both() -> None:
    assert openings("30 2 * * *", BERLIN, "2026-10-24 12:00", 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]


def test_two_times_in_one_gap_are_one_opening() -> None:
    assert openings("10,40 2 29 3 *", BERLIN, "2026-03-28", 1) == ["2026-03-29 01:00"]
    assert openings("10,40 2 29 3 *", BERLIN, "2026-03-29 01:00", 1) == ["2027-03-29 00:10"]


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        ("0 0 13 * fri", ["2026-11-06", "2026-11-13", "2026-11-20"]),  # either, as in cron
        ("0 0 */2 * fri", ["2026-11-13", "2026-11-27", "2026-12-11"]),  # both, since one begins with a star
        ("0 0 29 feb *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("0 0 * * 7", ["2026-11-08", "2026-11-15", "2026-11-22"]),
        ("0 0 1 1-3/2 *", ["2027-01-01", "2027-03-01", "2028-01-01"]),
    ],
)
def test_days_are_those_of_cron(schedule: str, days: list[str]) -> None:
    assert openings(schedule, offsets_of("UTC", 0), "2026-11-02", 3) == [f"{day} 00:00" for day in days]


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("0 2 * *", "must be five fields"),
        ("60 * * * *", "minute: '60' must be 0 to 59"),
        ("0 24 * * *", "hour: '24' must be 0 to 23"),
        ("0 0 0 * *", "day of the month: '0' must be 1 to 31"),
        ("0 0 * foo *", "month: 'foo' must be 1 to 12"),
        ("0 0 * * 5-3", "day of the week: '5-3' names nothing"),
        ("*/0 * * * *", "minute: '*/0' names nothing"),
        ("0 0 ² * *", "day of the month: '²' must be 1 to 31"),
        ("-1 0 * * *", "minute: '-1' must be *, a number"),
        ("0 0 31 2 *", "names no day that there is"),
        ("0 2 * * 2" + " " * 300, "must be five fields"),
    ],
)
def test_a_fault_of_a_schedule_is_a_sentence(schedule: str, told: str) -> None:
    assert told in schedule_fault(schedule)


instants = st.integers(
    int(datetime(2026, 1, 2, tzinfo=UTC).timestamp()), int(datetime(2035, 1, 1, tzinfo=UTC).timestamp())
)


@given(st.sampled_from(ZONES), instants)
def test_local_times_are_those_of_the_zone(name: str, instant: int) -> None:
    zone = offsets_of(name, BERLIN.from_s[0])
    there = datetime.fromtimestamp(instant, ZoneInfo(name))
    assert local(instant, zone) == int(there.replace(tzinfo=UTC).timestamp())
    first = datetime.fromtimestamp(local(instant, zone), UTC).replace(tzinfo=ZoneInfo(name))
    assert instant_of(local(instant, zone), zone) == int(first.timestamp())  # fold 0 is the first of two


fields = st.tuples(
    st.sampled_from(("0", "*/30", "15,45")),
    st.sampled_from(("*", "2", "1-3", "23,0")),
    st.sampled_from(("*", "1", "10-20", "31")),
    st.sampled_from(("*", "3", "10", "mar,oct")),
    st.sampled_from(("*", "sun", "1-5", "7")),
)


@given(fields, st.sampled_from(ZONES), instants)
def test_an_opening_is_what_looking_at_each_minute_finds(parts: tuple[str, ...], name: str, after: int) -> None:
    text, zone = " ".join(parts), offsets_of(name, BERLIN.from_s[0])
    schedule = parsed(text)
    found = next_opening(text, zone, after)
    seen = {local(after, zone) // 60}
    for minute in range(after // 60 + 1, after // 60 + 3 * 1440):
        at = local(minute * 60, zone)
        passed = range(max(seen) + 1, at // 60 + 1)  # more than one where the clock jumps, none where it is set back
        if any(_is_due(schedule, each) for each in passed):
            assert found == minute * 60
            return
        seen.add(at // 60)
    assert found is None or found >= (after // 60 + 3 * 1440 - 1) * 60


@given(fields, st.sampled_from(ZONES), instants, st.integers(60, 7 * 86_400))
def test_the_last_opening_is_the_last_of_those_one_after_the_other(
    parts: tuple[str, ...], name: str, until: int, duration: int
) -> None:
    text, zone = " ".join(parts), offsets_of(name, BERLIN.from_s[0])
    last, after = None, until - duration
    while (after_it := next_opening(text, zone, after)) is not None and after_it <= until:
        last = after = after_it
    assert last_opening(text, zone, until, until - duration) == last


def test_the_last_opening_of_a_schedule_of_each_minute_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Counter[str]()

    def look(local_s: int, zone: ZoneOffsets) -> int:
        looks["instant"] += 1
        return instant_of(local_s, zone)

    monkeypatch.setattr(schedules, "instant_of", look)
    assert last_opening("* * * * *", BERLIN, 1_700_000_059, 1_700_000_059 - 7 * 86_400) == 1_700_000_040
    assert looks["instant"] < 50


def _is_due(schedule: Schedule, minute: int) -> bool:
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    return schedule.has(day.date()) and minute % 1440 * 60 in schedule.times


def test_an_unknown_zone_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownZone, match=r"no time zone 'Europe/Zurch'; did you mean Europe/Zurich\?"):
        offsets_of("Europe/Zurch", 0)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "Europe", "a\0b", "ü" * 100])
def test_what_is_no_name_of_a_zone_is_told(name: str) -> None:
    with pytest.raises(UnknownZone, match="there is no time zone"):
        offsets_of(name, 0)


def test_a_system_without_zone_data_says_so_and_knows_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_zones, "available_timezones", set)
    monkeypatch.setattr(time_zones, "ZoneInfo", lambda name: (_ for _ in ()).throw(KeyError(name)))
    with pytest.raises(UnknownZone, match="no data about time zones: install its package tzdata, or write UTC"):
        offsets_of("Mars/Olympus", 0)
    assert offsets_of("UTC", 0).offset_s == (0,)
