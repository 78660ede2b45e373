"""Helpers of several commands: options that name a cell, output formats, completion of live names."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from events.bounds import INT_MAX
from events.time_units import span_s
from paceline.cli.reach import Reach, reach
from paceline.cli.silent_names import in_time
from paceline.cli.understanding import asking
from paceline.client.json_type import Json
from paceline.output import FORMS, Column, TableOptions, count_ages_to, note

if TYPE_CHECKING:
    from paceline.client.client import Client

COMPLETION_S = 0.3
PAGES_MAX = 1000
"""The most items that a page of a list may have."""
DECIDED_S = 10.0
"""Seconds for which a write waits for its decision, which usually takes some milliseconds."""
F = TypeVar("F", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """The end of a page of help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _ago(text: str) -> str | None:
    """When it was so long ago, in UTC: `10m`, `-10m` or `10m ago`; None where the text is no time with a unit."""
    return before(text, datetime.now(UTC))


def before(text: str, end: datetime) -> str | None:
    """The time so long before another, as `_ago` reads it."""
    return _from(end, text.removeprefix("-").removesuffix("ago").rstrip(), -1)


def _from(start: datetime, text: str, sign: int) -> str | None:
    seconds = span_s(text)
    try:
        return None if seconds is None else _utc(start + timedelta(seconds=sign * seconds))
    except OverflowError:
        return None


@contextmanager
def ends_by_sigterm() -> Iterator[None]:
    """SIGTERM, as CI and `timeout` send it, ends what is within as an exception does: temporary folders, which may hold
    all of a history, are removed. The exit code is the shell's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    handler = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


class Duration(click.ParamType):
    """A time with a unit, in seconds: 500ms, 30s, 5m, 2h, 1d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        if isinstance(value, float):
            return value
        seconds = 0.0 if value == "0" else span_s(str(value))
        if seconds is None:
            raise click.BadParameter(f"{value!r} is no time with a unit, such as 500ms, 30s, 5m, 2h or 1d", ctx, param)
        return seconds


class Since(click.ParamType):
    """So long ago, or a time; without an offset it is local. It becomes RFC 3339."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The time in UTC."""
        with suppress(ValueError, OverflowError):
            return _utc(datetime.fromisoformat(str(value)))
        if (at := _ago(str(value))) is not None:
            return at
        raise click.BadParameter(
            f"{value!r} is neither so long ago, such as 24h or 7d, nor a time, such as 2026-08-21T10:44:07Z", ctx, param
        )


class BeforeEnd(Since):
    """So long before the end of what is looked at, or a time. It stays as it was written, for `before`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        super().convert(value, param, ctx)
        return str(value)


class Later(Since):
    """In so long, or a time as `Since` has it; `10m ago` is past here too. It becomes RFC 3339."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The time in UTC."""
        text = str(value)
        if (at := _from(datetime.now(UTC), text.removeprefix("in").lstrip(), 1)) is not None:
            return at
        with suppress(click.BadParameter):
            return super().convert(value, param, ctx)
        raise click.BadParameter(
            f"{value!r} is neither in so long, such as 12h or 30d, nor a time, such as 2026-08-21T10:44:07Z", ctx, param
        )


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Target(click.Path):
    """A file to be written once the work for it is done: that it can be is checked before."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(
        self, value: "str | os.PathLike[str]", param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            self.fail(f"{path} can't be written: {path.parent} is no folder that takes files", param, ctx)
        return path


FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
"""Files, folders or standard input; what is wrong with them is said when they are read."""
REASON = click.option("--reason", default="", help="Reason, recorded in the log.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only check it; nothing is written.")
FOLDER = click.Path(file_okay=False, writable=True, path_type=Path)
"""A folder to write to, there or not."""


def data_option(function: F) -> F:
    """`--data` and `--config`."""
    function = click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings file. [default: paceline.toml next to the data folder]",
    )(function)
    return click.option(
        "--data", type=click.Path(path_type=Path), metavar="DIR", help="Data folder of the cell. [default: ~/.paceline]"
    )(function)


def file_option(*names: str, help: str) -> Callable[[F], F]:
    """An option that names a file."""
    return click.option(*names, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=help)


def ca_option(function: F) -> F:
    """`--ca`."""
    return file_option("--ca", help="CA certificates to verify servers with, in PEM. [default: those of the machine]")(
        function
    )


def output_option(function: F) -> F:
    """`-o`, passed as `form`."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(FORMS), default="table", show_default=True, help="Output format."
    )(function)


def report_option(function: F) -> F:
    """`-o` of commands that report, without names of things to pass on; passed as `form`."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(("table", "json")),
        default="table",
        show_default=True,
        help="Output format.",
    )(function)


def only_the_file(file: Path | None, data: Path | None, log: dict[str, Any]) -> None:
    """Refuses a log named beside a file of history, which is looked at instead of one."""
    if file is not None and (data is not None or any(value is not None for value in log.values())):
        raise click.UsageError("FILE is looked at instead of a log: leave out --data, --kafka and --cell")


def zone_option(function: F) -> F:
    """`--utc` and `--local`, passed as `zone`."""
    function = click.option("--local", "zone", flag_value="local", help="Show times in the local time zone.")(function)
    return click.option(
        "--utc", "zone", flag_value="utc", default="", help="Show absolute times in UTC instead of ages."
    )(function)


def list_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--columns`, `--sort` and `--no-header`, passed together as `shape`, and `-o`."""

    @click.option("--columns", metavar="A,B", default="", help="Show these columns of the table, in this order.")
    @click.option("--sort", metavar="[-]COLUMN", default="", help="Sort by column; prefix with - for descending.")
    @click.option("--no-header", is_flag=True, help="Omit the header row of the table.")
    @output_option
    @wraps(function)
    def command(*args: Any, columns: str, sort: str, no_header: bool, **options_left: Any) -> Any:
        names = tuple(each.strip() for each in columns.split(",") if each.strip())
        return function(*args, shape=TableOptions(names, sort, not no_header), **options_left)

    return command


class Paging(NamedTuple):
    """The part of a list that is asked for: `size` items a page, from a `token` on, `limit` items in all; None: no
    bound, or what `collected` says.
    """

    size: int | None = None
    token: str | None = None
    limit: int | None = None

    def collected(self, page_of: Callable[[Any, str | None], Any], name: str, usual: int | None) -> Json:
        """The part of a list whose pages `page_of` gets by their size and token, as one body with the token that
        goes on. Without any wish it is a page of `usual` items; None: all of the list.
        """
        if self.limit is None and (self.size or usual):
            one: Json = page_of(self.size or usual, self.token)
            return one
        items: list[Any] = []
        token = self.token
        while True:
            rest = PAGES_MAX if self.limit is None else self.limit - len(items)
            body = page_of(min(self.size or PAGES_MAX, rest), token)
            items += body[name]
            token = body.get("next_page_token")
            if not token or (self.limit is not None and len(items) >= self.limit):
                return {**body, name: items}


def paging_options(what: str, usual: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--limit`, `--page-size` and `--page-token` of a list, passed together as `paging`; `usual`: how many it has
    without them.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--limit", type=click.IntRange(1, INT_MAX), metavar="N", help=f"At most so many {what}. [default: {usual}]"
        )
        @click.option(
            "--page-size",
            type=click.IntRange(1, PAGES_MAX),
            metavar="N",
            help=f"{what.capitalize()} per request; without --limit only these are shown.",
        )
        @click.option("--page-token", help="Continue after the last page.")
        @wraps(function)
        def command(
            *args: Any, limit: int | None, page_size: int | None, page_token: str | None, **options_left: Any
        ) -> Any:
            return function(*args, paging=Paging(page_size, page_token, limit), **options_left)

        return command

    return add


def note_rest(body: Mapping[str, Any]) -> None:
    """Says how to go on with a list, where there is more of it."""
    if body.get("next_page_token"):
        note(f"there are more; go on with: --page-token {body['next_page_token']}")


def kafka_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--kafka` and `--kafka-option`, passed together as `kafka`: what `settings.load` takes of them."""

    @click.option("--kafka", "address", metavar="HOST:PORT,...", help="Brokers of the log. [default: no Kafka]")
    @click.option(
        "--kafka-option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs,
        help="librdkafka setting, such as security.protocol=SASL_SSL; may be repeated.",
    )
    @wraps(function)
    def command(*args: Any, address: str | None, options: dict[str, str] | None, **options_left: Any) -> Any:
        return function(*args, kafka={"kafka": address, "kafka_options": options}, **options_left)

    return command


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that name the log of a cell: `--cell` and those of `kafka_options`, passed together as `log`."""

    @kafka_options
    @click.option(
        "--cell",
        type=click.IntRange(0, INT_MAX),
        metavar="N",
        help="Cell number. [default: that of the embedded log; 0 on Kafka]",
    )
    @wraps(function)
    def command(*args: Any, kafka: dict[str, Any], cell: int | None, **options_left: Any) -> Any:
        return function(*args, log={**kafka, "cell": cell}, **options_left)

    return command


def _pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    pairs = dict(each.partition("=")[::2] for each in texts)
    if any("=" not in each for each in texts):
        raise click.BadParameter("write NAME=VALUE, such as security.protocol=SASL_SSL", ctx, param)
    return pairs or None


def cell_option(function: F) -> F:
    """`--cell`, taken by `with_client`."""
    return click.option(
        "--cell", type=click.IntRange(0, INT_MAX), metavar="N", help="Query this cell. [default: found by the server]"
    )(function)


class MomentText(click.ParamType):
    """A moment in the past; a time without a zone is local."""

    name = "moment"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment as the API takes it."""
        with suppress(ValueError, OverflowError):
            return _utc(datetime.fromisoformat(value))
        if ":" in value or "/" in value:  # a position or a round, which the API reads
            return value
        if (ago := _ago(value)) is not None:
            return ago
        raise click.BadParameter(
            f"{value!r} names no moment: write how long ago it was (10m), a time (2026-08-21T10:44:07Z), a round "
            "(0/placement/round/812) or a position (0/paceline.lifecycle:57)",
            ctx,
            param,
        )


def drain_options(function: F) -> F:
    """Adds `--batch` and `--deadline`: what batch tasks do on hosts that are emptied, and until when."""
    batch = click.option(
        "--batch",
        type=click.Choice(["wait", "move"]),
        default="wait",
        show_default=True,
        help="wait: batch tasks run to their end; move: preemptible ones leave at once.",
    )
    text = "The deadline, from now on, such as 2h."
    return batch(click.option("--deadline", type=Duration(), metavar="TIME", help=text)(function))


def at_option(function: F) -> F:
    """`--at`, taken by `with_client`."""
    return click.option(
        "--at",
        type=MomentText(),
        metavar="MOMENT",
        help="Show it as of a time, of so long ago (10m), a round (0/placement/round/812) or a log position "
        "(0/paceline.lifecycle:57).",
    )(function)


def actor_option(function: F) -> F:
    """`--actor` of a history."""
    text = "Only what this user wrote, by the name that PACELINE_ACTOR, a token or an issuer gave."
    return click.option("--actor", metavar="SUBJECT", help=text)(function)


def with_client(function: Callable[..., Any]) -> Callable[..., None]:
    """Adds what names a cell, and calls the command with a `Client` before its own parameters."""

    @click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
    @click.option(
        "--token", metavar="TOKEN", help="Token for writes. [default: without --server, the one in the data folder]"
    )
    @ca_option
    @data_option
    @wraps(function)
    def command(
        *args: Any,
        server: str | None,
        token: str | None,
        ca: Path | None,
        data: Path | None,
        config: Path | None,
        cell: int | None = None,
        at: str | None = None,
        **options_left: Any,
    ) -> Any:
        with client_of(reach(config, server, token, data, ca), cell, at=at) as client:
            try:
                return function(client, *args, **options_left)
            finally:
                note_moment(client)

    return command


def complete(kind: str) -> Callable[..., list[str]]:
    """A completion of names of a kind, which the server finds: soon, or silently none."""

    def completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        def names() -> list[str]:
            with client_of_context(ctx) as client:
                if kind == "secret":
                    return sorted({each["name"] for each in client.secrets() if each["name"].startswith(incomplete)})
                return client.names(kind, incomplete)

        return in_time(names)

    return completed


def complete_file_or(kind: str) -> Callable[..., list[Any]]:
    """A completion where either a name or a file stands: of names where some begin so, else of files."""
    names = complete(kind)

    def completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return names(ctx, param, incomplete) or click.Path().shell_complete(ctx, param, incomplete)

    return completed


def client_of_context(ctx: click.Context) -> "Client":
    """The client that the words before the cursor name."""
    params = ctx.params
    reached = reach(*(params.get(name) for name in ("config", "server", "token", "data", "ca")))
    return client_of(reached, params.get("cell"), COMPLETION_S)


def note_moment(client: "Client") -> None:
    """Says of which moment the answers were, where they were of one, and that something may have been left out."""
    if client.moment:
        note(f"as of {client.moment}")
    if client.limited:
        note(client.limited)


def _note_making(done: int, of: int) -> None:
    note(f"the views of that moment are being made: {done:,} of {of:,} records")


def client_of(reached: Reach, cell: int | None = None, timeout: float | None = None, at: str | None = None) -> "Client":
    """The client of a cell. `timeout`: seconds for an answer, None: the client's default; `at`: the moment
    that is looked at.
    """
    from paceline.client.api_requests import TIMEOUT_S
    from paceline.client.client import Client

    server, token, data, ca = reached
    client = Client(server, token, data, timeout or TIMEOUT_S, cell=cell, at=at, on_making=_note_making, ca=ca)
    count_ages_to(lambda: client.as_of)
    asking(client)
    return client


def cell_column(items: Sequence[Any]) -> list[Column]:
    """The column of cells, where there are several."""
    several = len({each.get("cell") for each in items}) > 1
    return [Column("CELL", lambda each: each["cell"], right=True)] if several else []


def pool_paths(client: "Client") -> Iterator[str]:
    """Paths of all pools."""
    return (pool["path"] for pool in client.pools())
