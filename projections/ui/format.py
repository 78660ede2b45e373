"""Numbers, times, amounts and text of users as pages show them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from events.resources import Unit
from events.unsafe_text import UNSAFE

GIB = 1024
PAGES = {"job": "/jobs/", "host": "/hosts/", "pool": "/pools"}


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
    """A duration in words, in two units at most: 41 s, 3 h 26 min, 12 d."""
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


def time_of_day(ms: int) -> str:
    """A time without its date, in UTC: 14:03:27Z."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S}Z"


def iso(ms: int) -> str:
    """A time as ?at= takes it: 2026-11-24T14:03:27.120Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(time: str | None) -> int:
    """The milliseconds of a time of the API; 0: it hasn't come."""
    return int(datetime.fromisoformat(time).timestamp() * 1000) if time else 0


def amount(value: int, unit: Unit) -> str:
    """An amount in cores, devices or GiB: 12,345.5. GiB are to a tenth from 100 on, the others from 1,000 on."""
    whole = value / (GIB if unit is Unit.MIB else 1000)
    return f"{whole:,.{1 if whole >= (100 if unit is Unit.MIB else 1000) else 3}f}".rstrip("0").rstrip(".")


def titled(name: str, unit: Unit) -> str:
    """The head of a column of amounts."""
    return f"{name} GiB" if unit is Unit.MIB else name


def with_unit(value: int, unit: Unit) -> str:
    """An amount beside the name of its resource: 16, 64 GiB."""
    return f"{amount(value, unit)} GiB" if unit is Unit.MIB else amount(value, unit)


def percent(part: int, whole: int) -> float:
    """So much of a whole, for bars; more than all is all."""
    return round(min(100.0, 100 * part / whole), 2) if whole > 0 else 0.0


def plain(value: Any) -> Any:
    r"""Text with control characters, those that change the direction of writing or show nothing, and lone halves of
    characters written as \u202e; all else as it is. Every value that a template shows passes here.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)


def page_of(kind: str, name: str) -> str:
    """The path of the page of a job, host or pool; of a machine that of the rounds."""
    return PAGES[kind] + quote(name, safe="/" if kind == "pool" else "") if kind in PAGES else "/rounds"


def linked(text: str, links: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The pieces of a sentence: text, and the path of the page where it first names something; empty for the rest.
    `links`: kind and name of what it names.
    """
    pages = {name: page_of(kind, name) for kind, name in links if name}
    if pages:
        names = "|".join(map(re.escape, sorted(pages, key=len, reverse=True)))
        text_at = 0
        for match in re.finditer(rf"(?<![\w/.-])(?:{names})(?![\w/-])", text):
            if match[0] in pages:
                yield text[text_at : match.start()], ""
                yield match[0], pages.pop(match[0])
                text_at = match.end()
        text = text[text_at:]
    yield text, ""
