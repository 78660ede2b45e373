"""The ledger of waits in words: of a job, and of pools and owners (`paceline pool waits`)."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    BeforeEnd,
    Since,
    at_option,
    before,
    cell_option,
    complete,
    examples,
    list_options,
    with_client,
)
from paceline.output import Column, TableOptions, note, say, show, span, table

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.waits_models import WaitGroup, WaitSums

SHOWN = 3
"""Codes in a row of a group."""
_HOUR_MS = 3_600_000
_RUNNING = (
    ("kept", "kept_ms"),
    ("lost to preemption", "lost_to_preemption_ms"),
    ("lost to hosts", "lost_to_hosts_ms"),
    ("lost to failures", "lost_to_failures_ms"),
)


@click.command(
    epilog=examples(
        "paceline pool waits /maps --last 7d",
        "paceline pool waits --by owner --last 90d",
        "paceline pool waits /maps --owner ann --by week --last 365d",
    )
)
@click.argument("path", default="/", shell_complete=complete("pool"))
@click.option(
    "--last",
    "last",
    type=BeforeEnd(),
    default="7d",
    show_default=True,
    metavar="AGO|TIME",
    help="From the Monday (UTC) of the week of this time on. So long before --at, if given.",
)
@click.option("--by", type=click.Choice(("pool", "owner", "week")), help="Sum by this. [default: over all]")
@click.option("--owner", help="Of this owner only.")
@list_options
@at_option
@cell_option
@with_client
def waits(
    client: "Client", path: str, last: str, by: str | None, owner: str | None, form: str, shape: TableOptions
) -> None:
    """Show for how long the tasks of a pool and those below waited, and for what.

    The time of two tasks that wait for an hour is two hours. Running is kept, or lost to preemption, to lost hosts or
    to failures of the run itself. Sums are kept for ever, by week from Monday on in UTC. The answer begins with the
    Monday before: on a Saturday --last 7d covers 12 to 13 days. It says from when until when it counts.
    """
    body = client.waits(by or "week", Since().convert(last, None, None), path, owner)
    if client.as_of and (since := before(last, datetime.fromisoformat(client.as_of))):
        body = client.waits(by or "week", since, path, owner)
    groups = body["groups"]

    def write() -> None:
        note(_stretch(body["since"], body["until"]))
        if by is None:
            print_sums(body["total"], shape)
        else:
            table(groups, _columns(by), shape)
        if by is not None and body["more"]:
            note(f"only the {len(groups)} that waited longest are shown")

    show(form, body, (_name(each, by or "week") for each in groups), write)


def _stretch(since: str, until: str) -> str:
    """The time that the sums cover, in words."""
    begin, end = map(datetime.fromisoformat, (since, until))
    return f"from {begin:%A} {since} until {until} ({span((end - begin).total_seconds())}): sums are kept by week"


def print_sums(sums: "WaitSums", shape: TableOptions | None = None) -> None:
    """Prints what was waited for, and what came of running, each with its part of both."""
    whole = sums["waiting_ms"] + sums["running_ms"]
    rows = [("waiting", each["code"], each["task_ms"]) for each in sums["waiting"]]
    running: Any = sums["running"]
    rows += [("running", word, running[name]) for word, name in _RUNNING if running[name]]
    if not rows:
        say("No task has waited or run.")
        return
    columns = [
        Column("STATE", lambda each: each[0]),
        Column("DETAIL", lambda each: each[1]),
        Column("TIME", lambda each: span(each[2] / 1000), right=True),
        Column("PART", lambda each: f"{100 * each[2] / whole:.1f} %", right=True),
    ]
    table(rows, columns, shape or TableOptions())
    say(f"waited {span(sums['waiting_ms'] / 1000)}, ran {span(sums['running_ms'] / 1000)}")


def _name(group: "WaitGroup", by: str) -> str:
    return "(others)" if group["others"] else str(group[by] or "-")  # type: ignore[literal-required]


def _columns(by: str) -> list[Column]:
    def lost(group: Any) -> str:
        running = group["running"]
        return _hours(sum(running[name] for _, name in _RUNNING[1:]))

    return [
        Column(by.upper(), lambda each: _name(each, by)),
        Column("WAITED HOURS", lambda each: _hours(each["waiting_ms"]), right=True),
        Column("RAN HOURS", lambda each: _hours(each["running_ms"]), right=True),
        Column("LOST", lost, right=True),
        Column("MOSTLY FOR", _codes),
    ]


def _codes(group: Any) -> str:
    whole = group["waiting_ms"]
    parts = (f"{each['code']} {100 * each['task_ms'] / whole:.0f} %" for each in group["waiting"][:SHOWN])
    return ", ".join(parts) or "-"


def _hours(ms: int) -> str:
    return f"{ms / _HOUR_MS:.1f}"
