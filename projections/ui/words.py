"""How pages write numbers and times."""

from datetime import UTC, datetime


def short(value: float) -> str:
    """A number in four places at most: 9,999, 12.3k, 4.56M."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g}M"
    if size >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:,.2f}".rstrip("0").rstrip(".") if size < 10 else f"{value:,.0f}"


def grouped(value: int) -> str:
    """A whole number in full: 1,412."""
    return f"{value:,}"


def counted(count: int, noun: str) -> str:
    """So many of something: 1 host, 1,412 hosts."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def lasts(ms: float) -> str:
    """How long something takes, in two units at most: 41 s, 3 h 26 min, 12 d."""
    seconds = max(0, int(ms // 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d"


def moment(ms: int) -> str:
    """A time of day with its date, in UTC: 24 Nov 14:03:27Z."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%d %b %H:%M:%S}Z"


def iso(ms: int) -> str:
    """A time as ?at= takes it: 2026-11-24T14:03:27.120Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(time: str | None) -> int:
    """The milliseconds of a time of the API; 0: it hasn't come."""
    return int(datetime.fromisoformat(time).timestamp() * 1000) if time else 0
