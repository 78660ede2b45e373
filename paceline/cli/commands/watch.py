"""`paceline job|pool|host watch`: how things change, live in place on a terminal, a line for each change elsewhere."""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from paceline.cli.commands.common import (
    MomentText,
    cell_option,
    complete,
    examples,
    report_option,
    with_client,
)
from paceline.cli.filter_types import Pair, States
from paceline.client.errors import PacelineError
from paceline.client.models import BOOKMARK
from paceline.output import Column, cores, gib, live, note, one_line, plain, say, table_lines, when

if TYPE_CHECKING:
    from rich.text import Text

    from paceline.client.client import Client
    from paceline.client.events import EventCriteria
    from paceline.client.models import StreamEvent

REFRESH_S = 5.0
"""So often a table is drawn again though nothing came."""
PAUSE_S = 0.25
"""So long many changes at once are waited for, which are drawn together."""
_ID = re.compile(r"\d+:\d+(,\d+:\d+)*(\+\d+:\d+)?", re.ASCII)


POOL_CHANGES = ("PoolDefined", "PoolRemoved", "PoolAnswered")
"""Events that are lines about pools; an answer that says yes isn't, as what was asked stands before it."""


class Position(MomentText):
    """Where to begin: the id of an event, now, start, or a moment of the past."""

    name = "position"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The position as the API takes it."""
        return value if value == "start" or _ID.fullmatch(value) else super().convert(value, param, ctx)


class Watched(NamedTuple):
    """Things of a kind that are watched: the criteria of their events, and how they stand now."""

    kind: str
    criteria: "EventCriteria"
    look: Callable[[int], Sequence[Any]]
    """So many of them at most."""
    columns: Sequence[Column]


def watch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--from` and `-o`, taken by `follow`."""
    return click.option(
        "--from",
        "start",
        type=Position(),
        metavar="POSITION",
        help="Begin after the event with this id (of -o json), after a moment (10m, a time, 0/paceline.lifecycle:57) "
        "or at the start of the log. [default: now]",
    )(report_option(function))


@click.command(
    name="watch",
    epilog=examples(
        "paceline job watch tiles-1f0c",
        "paceline job watch --pool /maps --state FAILED -o json",
        "paceline job watch --owner ann --from 10m",
    ),
)
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("job"))
@click.option("--pool", help="Only jobs of this pool and of those below it.")
@click.option("--owner", "owners", multiple=True, help="Only jobs of this owner; repeatable, any of them.")
@click.option(
    "--label", "labels", multiple=True, type=Pair(), metavar="KEY:VALUE", help="Only jobs with this label; repeatable."
)
@click.option(
    "--actor", metavar="SUBJECT", help="Only jobs that this user submitted; of changes, only those that they asked for."
)
@click.option(
    "--state",
    type=States("job"),
    metavar="STATES",
    help="Only jobs in these states; of changes, only those by which a job comes into one.",
)
@watch_options
@cell_option
@with_client
def job_watch(
    client: "Client",
    ids: tuple[str, ...],
    pool: str | None,
    owners: tuple[str, ...],
    labels: tuple[str, ...],
    actor: str | None,
    state: str | None,
    start: str | None,
    form: str,
) -> int:
    """Show how jobs change until Ctrl-C.

    On a terminal it is a table, drawn over; elsewhere, and with -o json, a line for each change from --from on: none is
    lost or comes twice, also where the connection is cut. With -o json each has an `id`, after which --from goes on. A
    cell that is away is waited for, up to a minute.
    """
    criteria: EventCriteria = {"about": "jobs", "job": ids, "owner": owners, "label": labels, "state": state}
    criteria |= {"pool": [pool] if pool else (), "actor": actor}

    def look(most: int) -> Sequence[Any]:
        if ids:
            return [client.job(job_id) for job_id in ids[:most]]
        return client.jobs_page(state, pool, labels, most, owners=owners, actor=actor)["jobs"]

    columns = [
        Column("JOB", lambda each: each["job_id"]),
        Column("STATE", lambda each: each["state"]),
        Column("REASON", lambda each: each["reason"] and each["reason"]["code"]),
        Column("QUEUED", lambda each: each["tasks"].get("queued"), right=True),
        Column("RUNNING", lambda each: each["tasks"].get("running"), right=True),
        Column("SUCCEEDED", lambda each: each["tasks"].get("succeeded"), right=True),
        Column("FAILED", lambda each: each["tasks"].get("failed"), right=True),
        Column("POOL", lambda each: each["pool"]),
        Column("SUBMITTED", lambda each: when(each["submitted_at"])),
    ]
    return follow(client, Watched("jobs", criteria, look, columns), bool(ids), start, form)


@click.command(
    name="watch",
    epilog=examples("paceline pool watch", "paceline pool watch /maps --from 2026-08-21T10:44:07Z -o json"),
)
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=complete("pool"))
@watch_options
@cell_option
@with_client
def pool_watch(client: "Client", paths: tuple[str, ...], start: str | None, form: str) -> int:
    """Show how pools and those below them change until Ctrl-C.

    As a table or by lines, as `job watch` does it. The lines tell what users and operators change: definitions,
    removals and what was refused. With -o json come also entitlements and the jobs of the pools.
    """

    def look(most: int) -> Sequence[Any]:
        return ([client.pool(path) for path in paths] if paths else client.pools())[:most]

    columns = [
        Column("POOL", lambda each: each["path"]),
        Column("JOBS", lambda each: each.get("open_jobs"), right=True),
        Column("TASKS", lambda each: each.get("open_tasks"), right=True),
        Column("CPU USED", lambda each: cores(each.get("held")), right=True),
        Column("CPU ENTITLED", lambda each: cores(each.get("entitlement")), right=True),
        Column("CPU DEMAND", lambda each: cores(each.get("demand")), right=True),
    ]
    return follow(client, Watched("pools", {"about": "pools", "pool": paths}, look, columns), bool(paths), start, form)


@click.command(name="watch", epilog=examples("paceline host watch", "paceline host watch worker-7 worker-8 -o json"))
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("host"))
@watch_options
@cell_option
@with_client
def host_watch(client: "Client", ids: tuple[str, ...], start: str | None, form: str) -> int:
    """Show how hosts change until Ctrl-C, and what runs on them.

    As a table or by lines, as `job watch` does it. How much their runs use isn't a change; `host top` shows it.
    """

    def look(most: int) -> Sequence[Any]:
        hosts = (client.host(host_id) for host_id in ids) if ids else client.hosts()
        return [host for host, _ in zip(hosts, range(most), strict=False)]

    columns = [
        Column("HOST", lambda each: each["host_id"]),
        Column("STATE", lambda each: each["state"]),
        Column("RUNS", lambda each: each["runs"], right=True),
        Column("CPU USED", lambda each: cores(each["allocated"]), right=True),
        Column("CPU", lambda each: cores(each["capacity"]), right=True),
        Column("GiB USED", lambda each: gib(each["allocated"]), right=True),
        Column("GiB", lambda each: gib(each["capacity"]), right=True),
    ]
    return follow(client, Watched("hosts", {"about": "hosts", "host": ids}, look, columns), bool(ids), start, form)


def follow(client: "Client", watched: Watched, by_name: bool, start: str | None, form: str) -> int:
    """Watches until Ctrl-C."""
    if by_name and start is None:
        watched.look(len(sys.argv) + 100)  # what isn't there is told at once
    try:
        if form == "table" and start is None and live(sys.stdout):
            draw(client, watched)
        else:
            print_changes(client, watched, start, form)
    except KeyboardInterrupt:
        return 130
    return 0


def print_changes(client: "Client", watched: Watched, start: str | None, form: str) -> None:
    """Prints a line for each change, without end."""
    is_id = start is None or start == "start" or _ID.fullmatch(start)
    criteria = watched.criteria if is_id else {**watched.criteria, "at": start}
    last = ""
    try:
        for event in client.watch(start if is_id else None, bookmarks=True, **criteria):
            last = event.id
            if form == "json":
                say(json.dumps({"id": event.id, **event.data}, ensure_ascii=False))
            elif event.event != BOOKMARK:
                for line in lines_of(event, watched.kind):
                    say(one_line(line))
    finally:
        if last and form != "json":
            with suppress(OSError):
                note(f"go on with: --from {last}")


def lines_of(event: "StreamEvent", kind: str) -> Iterator[str]:
    """An event about things of a kind, a line for each; of pools those by which a user or operator changes one."""
    from events.codes import IN_EFFECT

    about, text = event.data["about"], event.data.get("text", "")
    if kind == "pools" and (event.event not in POOL_CHANGES or event.data["data"].get("code") in IN_EFFECT):
        return
    for name in about[kind]:
        sentence = event.data["job_texts"].get(name, text) if kind == "jobs" else text
        yield f"{when(event.data['at'], 'utc')}  {name}  {event.event}  {sentence.removeprefix(f'{name} ')}"


@contextmanager
def _heard(client: "Client", watched: Watched) -> Iterator[tuple[threading.Event, list[PacelineError]]]:
    """A thread that says when something has changed, and why it has ended."""
    changed, ends = threading.Event(), list[PacelineError]()
    criteria: EventCriteria = {**watched.criteria, "state": None, "actor": None}  # what leaves a state leaves the table

    def hear() -> None:
        try:
            for _ in client.watch(None, bookmarks=True, **criteria):
                changed.set()
        except PacelineError as error:
            ends.append(error)
        except RuntimeError:  # the client was closed, as the command ends
            return
        finally:
            changed.set()

    threading.Thread(target=hear, daemon=True).start()
    yield changed, ends


def _fitting(rows: Sequence[Any], columns: Sequence[Column], width: int) -> "Text":
    """A table of as many columns as there is room for, so that nothing in them is cut."""
    from rich.text import Text

    text = Text.from_ansi("\n".join(table_lines(rows, columns)))
    while len(columns) > 2 and max(map(len, text.plain.splitlines())) > width:
        columns = columns[:-1]
        text = Text.from_ansi("\n".join(table_lines(rows, columns)))
    return text


def draw(client: "Client", watched: Watched) -> None:
    """Draws a table over and over, whenever something has changed."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)

    def view() -> Group:
        most = max(1, console.height - 4)
        try:
            rows = watched.look(min(most, 1000))
        except PacelineError as error:
            if error.exit_code != 6:
                raise
            return Group(Text(plain(f"the cell does not answer; waiting for it ({str(error).splitlines()[0]})")))
        return Group(_fitting(rows, watched.columns, console.width), Text(f"{len(rows)} shown; Ctrl-C ends"))

    with _heard(client, watched) as (changed, ends), Live(view(), console=console, auto_refresh=False) as screen:
        while True:
            changed.wait(REFRESH_S)
            if ends:
                raise ends[0]
            changed.clear()
            screen.update(view(), refresh=True)
            threading.Event().wait(PAUSE_S)
