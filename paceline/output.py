"""Prints answers: data on stdout, notes on stderr. JSON and YAML are the API's bodies; tables are for people."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from unicodedata import combining, east_asian_width

import click

from events.natural_order import natural_key
from events.unsafe_text import UNSAFE

if TYPE_CHECKING:
    from rich.console import Console

FORMS = ("table", "json", "yaml", "name")
COLOURS = {
    "RUNNING": "green",
    "UP": "green",
    "SUCCEEDED": "green",
    "PENDING": "yellow",
    "SILENT": "yellow",
    "SUSPECTED": "yellow",
    "KILLING": "yellow",
    "FAILED": "red",
    "REJECTED": "red",
    "LOST": "red",
}
SGR = {word: {"green": "32", "yellow": "33", "red": "31"}[colour] for word, colour in COLOURS.items()}
"""The same as terminals take them."""
_AS_IS = 100_000
"""Columns of an output that nothing is cut to: rich would fold ids at the width of the terminal."""


class Column(NamedTuple):
    """A column of a table: its title, with the unit where there is one, and the cell of a row. `order` is what rows are
    sorted by, where that is not the cell. `on_request`: it is shown only where it is named.
    """

    title: str
    cell: Callable[[Any], object]
    right: bool = False
    order: Callable[[Any], object] | None = None
    on_request: bool = False

    @property
    def name(self) -> str:
        """The title as it is written on a command line."""
        return self.title.lower().replace(" ", "-")


class TableOptions(NamedTuple):
    """Options of a table: the names of its columns (all: none), the one to sort by (from the largest on: with `-`) and
    whether the titles stand above.
    """

    columns: tuple[str, ...] = ()
    sort: str = ""
    header: bool = True


DEFAULT_TABLE = TableOptions()


def now() -> datetime:
    """The present time, for showing how long ago something was."""
    return datetime.now(UTC)


CELL_MIN = 12
"""A cell isn't shortened to less than this, for want of room."""
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
AS_OF = "paceline.as_of"


def count_ages_to(time: Callable[[], str]) -> None:
    """Ages that this command shows are from now on those at the time that is told then; empty: at present."""
    if context := click.get_current_context(silent=True):
        context.meta[AS_OF] = time


def _age_now() -> datetime:
    context = click.get_current_context(silent=True)
    time = context.meta[AS_OF]() if context and AS_OF in context.meta else ""
    return datetime.fromisoformat(time) if time else now()


def plain(text: str) -> str:
    """A text as a terminal may have it: what is unsafe is written as its escape."""
    return UNSAFE.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    """The escape of a character in JSON, of those beyond 16 bits in two halves."""
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def one_line(text: str) -> str:
    """A text as part of a line: what is unsafe, ends a line or is a tab is written as its escape."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def say(text: str = "") -> None:
    """A line of data for people."""
    click.echo(plain(text))


def note(text: str) -> None:
    """Something for the user that is not data."""
    click.echo(plain(text), err=True)


def show(form: str, body: Any, names: Iterable[str] = (), table: Callable[[], None] | None = None) -> None:
    """Shows an answer in the form asked for; `names` and `table` are what those forms show."""
    if form == "json":
        say(json.dumps(body, indent=2, ensure_ascii=False))  # the escapes are those of JSON
    elif form == "yaml":
        write_yaml(body, sys.stdout)
    elif form == "name":
        for name in names:
            say(name)
    elif table is not None:
        table()


@contextmanager
def answers(form: str, count: int) -> Iterator[Callable[[Any, str, str], None]]:
    """Shows the answers to several requests: each is given with its name and a line for people, which are printed as
    they come. JSON and YAML are one document in the end, a list where there were several requests.
    """
    bodies: list[Any] = []

    def add(body: Any, name: str, line: str) -> None:
        if form in ("json", "yaml"):
            bodies.append(body)
        else:
            say(name if form == "name" else line)

    try:
        yield add
    finally:
        if bodies:
            show(form, bodies if count > 1 else bodies[0])


def table(rows: Iterable[Any], columns: Sequence[Column], shape: TableOptions = DEFAULT_TABLE) -> None:
    """Prints a table, absent values as `-`. Nothing is cut, but on a terminal that is too narrow for it the longest
    cells are shortened in their middle.
    """
    for line in table_lines(rows, columns, shape):
        click.echo(line, color=True)


def table_lines(rows: Iterable[Any], columns: Sequence[Column], shape: TableOptions = DEFAULT_TABLE) -> list[str]:
    """The lines of a table, in colours on a terminal."""
    if shape.sort:
        by = _column(columns, shape.sort.removeprefix("-"), "--sort")
        rows = sorted(rows, key=lambda row: _order(by, row), reverse=shape.sort.startswith("-"))
    columns = [_column(columns, name, "--columns") for name in shape.columns] or [
        column for column in columns if not column.on_request
    ]
    cells = [[_text(column.cell(row)) for column in columns] for row in rows]
    rows_of_text = [[column.title for column in columns]] * shape.header + cells
    if sys.stdout.isatty():
        rows_of_text = fitted(rows_of_text, shutil.get_terminal_size().columns)
    widths = [max(map(_width, each)) for each in zip(*rows_of_text, strict=True)]
    coloured = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    out = []
    for place, line in enumerate(rows_of_text):
        title = shape.header and place == 0
        parts = []
        for cell, column, width in zip(line, columns, widths, strict=True):
            style = "1" if title else SGR.get(cell, "")
            text = f"\x1b[{style}m{cell}\x1b[0m" if coloured and style else cell
            blank = " " * (width - _width(cell))
            parts.append(blank + text if column.right else text + blank)
        out.append("  ".join(parts).rstrip())
    return out


def fitted(rows: list[list[str]], width: int) -> list[list[str]]:
    """Rows that fit into so many columns of a terminal, as far as cells of `CELL_MIN` allow: `tiles-20…-1f0c`."""
    widths = [max(map(_width, each)) for each in zip(*rows, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    while over > 0 and max(widths) > CELL_MIN:
        widths[widths.index(max(widths))] -= 1
        over -= 1
    return [[_shortened(cell, most) for cell, most in zip(row, widths, strict=True)] for row in rows]


def _shortened(cell: str, most: int) -> str:
    if _width(cell) <= most:
        return cell
    begin, end = most // 2, (most - 1) // 2
    return f"{cell[:begin]}…{cell[len(cell) - end :]}"


def _width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def _column(columns: Sequence[Column], name: str, option: str) -> Column:
    column = next((each for each in columns if each.name == name.lower().replace(" ", "-")), None)
    if column is None:
        available = ", ".join(each.name for each in columns)
        raise click.BadParameter(f"there is no column {name}; there are {available}", param_hint=option)
    return column


def _order(column: Column, row: Any) -> tuple[bool, float, str]:
    """Numbers by value, before text, in which numbers count too; what is absent comes first."""
    text = _text((column.order or column.cell)(row))
    try:
        return False, float("-inf" if text == "-" else text), ""
    except ValueError:
        return True, 0.0, natural_key(text)


def lines(renderable: Any) -> None:
    """Prints something of rich's on stdout, without blanks at the ends of lines."""
    out = console(sys.stdout)
    with out.capture() as captured:
        out.print(renderable, soft_wrap=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=True)


def console(file: IO[str]) -> "Console":
    """A console on a stream: colours on a terminal only, and none where NO_COLOR is set."""
    from rich.console import Console

    return Console(file=file, width=_AS_IS, highlight=False, force_terminal=file.isatty() or False)


def live(stream: IO[str]) -> bool:
    """Whether what is printed there may be drawn over."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Prints names and values, one pair a line."""
    texts = [(name, _text(value)) for name, value in pairs]
    width = max(len(name) for name, _ in texts)
    for name, value in texts:
        say(f"{name:<{width}}  {value}".rstrip())


def when(text: str | None, zone: str = "") -> str:
    """An RFC 3339 time as time gone by, in `utc`, or in `local` time with its distance from UTC."""
    if not text:
        return "-"
    at = datetime.fromisoformat(text).astimezone(UTC)
    if zone == "local":
        return at.astimezone().isoformat(timespec="seconds")
    if zone == "utc":
        return at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{span((_age_now() - at).total_seconds())} ago"


def timed(text: str, zone: str = "") -> str:
    """A sentence with its RFC 3339 times as people read them: the time of day, and how far from now; as `when` has them
    where a zone is named.
    """

    def written(match: re.Match[str]) -> str:
        at, now_ = datetime.fromisoformat(match[0]).astimezone(UTC), _age_now()
        if zone:
            return when(match[0], zone)
        day = "" if at.date() == now_.date() else f"{at:%Y-%m-%d} "
        seconds = (at - now_).total_seconds()
        return f"{day}{at:%H:%M:%S}Z ({f'in {span(seconds)}' if seconds > 0 else f'{span(-seconds)} ago'})"

    return _TIME.sub(written, text)


def clock(text: str | None, day_of: str | None, zone: str = "") -> str:
    """An RFC 3339 time as the time of day, with its date where that isn't the day of another time."""
    if text is None:
        return "-"
    at, other = (
        datetime.fromisoformat(each).astimezone(UTC if zone == "utc" else None) for each in (text, day_of or text)
    )
    return f"{at:%H:%M}" if at.date() == other.date() else f"{at:%d %b %H:%M}"


def ahead(text: str | None, zone: str = "") -> str:
    """An RFC 3339 time that is still to come, as `when` has it."""
    if text is None or zone:
        return when(text, zone)
    seconds = (datetime.fromisoformat(text) - _age_now()).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else "now"


def span(seconds: float) -> str:
    """3m12s, from the two largest units."""
    remaining = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, remaining = divmod(remaining, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def cores(amounts: Mapping[str, float | str] | None, name: str = "cpu") -> str:
    """The number of CPUs or devices among amounts as the API has them."""
    return f"{float((amounts or {}).get(name, 0)):g}"


def gib(amounts: Mapping[str, float | str] | None, name: str = "memory") -> str:
    """A size among amounts as the API has them, in GiB."""
    text = str((amounts or {}).get(name, "0MiB"))
    return f"{float(text[:-3]) * _GIB[text[-3:]]:.1f}"


_IN_COLUMNS = ("cpu", "memory", "disk")


def others(amounts: Mapping[str, float | str] | None) -> str:
    """GPUs and the resources that the cell defines, among amounts as the API has them; "-" where there are none."""
    return words({name: amount for name, amount in (amounts or {}).items() if name not in _IN_COLUMNS})


def other_columns(rows: Sequence[Any], titles: Mapping[str, str]) -> list[Column]:
    """A column of `others` for each field in `titles`; none where no row has any, so that tables stay narrow."""
    if not any(others(row.get(field)) != "-" for row in rows for field in titles):
        return []
    return [Column(title, partial(_others_of, field)) for field, title in titles.items()]


def _others_of(field: str, row: Any) -> str:
    return others(row.get(field))


_GIB = {"MiB": 1 / 1024, "GiB": 1, "TiB": 1024}


def words(values: Mapping[str, object] | None) -> str:
    """`name value` pairs in one line; what is absent is left out."""
    pairs = ((name, _joined(value)) for name, value in (values or {}).items())
    return ", ".join(f"{name} {value}" for name, value in pairs if value is not None and value != "") or "-"


def _joined(value: object) -> object:
    """A value within a line: lists and pairs of names and values without punctuation."""
    if isinstance(value, Mapping):
        pairs = ((name, _joined(inner)) for name, inner in value.items())
        return " ".join(f"{name} {inner}" for name, inner in pairs if inner is not None and inner != "")
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(_joined(inner)) for inner in value) if isinstance(value, list | tuple) else value


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return one_line(str(value))


def write_yaml(body: Any, file: IO[str]) -> None:
    """Writes a value as block YAML, fields in their order."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = UNSAFE.search(json.dumps(body, ensure_ascii=False)) is None
    yaml.dump(body, file)
