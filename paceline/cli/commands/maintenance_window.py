"""`paceline maintenance window`: the times at which hosts drain by themselves, or at which campaigns start hosts."""

from typing import TYPE_CHECKING

import click

from events.words import plural
from paceline.cli.commands.common import (
    DECIDED_S,
    at_option,
    cell_option,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.commands.reasons import reason_option
from paceline.cli.groups import CommandGroup
from paceline.output import Column, TableOptions, facts, note, say, show, table, when

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.maintenance_models import MaintenanceWindow

ID = click.argument("window_id", metavar="ID")
COLUMNS = [
    Column("WINDOW", lambda each: each["window_id"]),
    Column("STATE", lambda each: each["state"]),
    Column("OPENS (UTC)", lambda each: _minutes(each["opens_at"])),
    Column("OPENS (LOCAL)", lambda each: _local(each)),
    Column("DURATION", lambda each: each["duration"]),
    Column("LEAD", lambda each: each["lead"]),
    Column("ESCALATE", lambda each: each["escalate"]),
    Column("HOSTS", lambda each: each["hosts"], right=True),
    Column("MISSED (UTC)", lambda each: _minutes(each["missed_at"])),
    Column("REASON", lambda each: each["reason"] or "-"),
]


@click.group(cls=CommandGroup)
def window() -> None:
    """Set the times at which hosts are maintained.

    From its lead before a window opens its hosts drain, and when it closes they are taken back. A campaign that names a
    window starts hosts only while it is open.
    """


@window.command("set", epilog=examples("paceline maintenance window set tuesdays.yaml"))
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option("--reason", default="", help="Reason, in place of that of the file; recorded in the log.")
@output_option
@cell_option
@with_client
def set_(client: "Client", file: str, reason: str, form: str) -> None:
    """Set a window by a file, or change it.

    One that is open goes on where its schedule and its zone stay; else nothing happens before it opens next.
    """
    from events.spec.maintenance import WindowSpec
    from paceline.job_files import read_one

    body = dict(read_one(file, WindowSpec)[1].value)
    if reason:
        body["reason"] = reason
    answer = client.set_maintenance_window(body, wait=DECIDED_S)

    def told() -> None:
        hosts = len(answer.get("host_ids", ()))
        say(f"maintenance window {body['window_id']} of {plural(hosts, 'host')}{_next(answer.get('window'))}")
        if answer.get("message"):
            note(str(answer.get("message")))

    show(form, answer, [body["window_id"]], told)


@window.command("list", epilog=examples("paceline maintenance window list"))
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", form: str, shape: TableOptions) -> None:
    """List the windows: those that are open or open next first, by UTC and by the clocks of their zones."""
    rows = client.maintenance_windows()
    names = (each["window_id"] for each in rows)
    show(form, {"windows": rows}, names, lambda: table(rows, COLUMNS, shape))


@window.command(epilog=examples("paceline maintenance window get tuesdays"))
@ID
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", window_id: str, form: str) -> None:
    """Show a window: when it opens next, whether an opening was missed, and its hosts."""
    body = client.maintenance_window(window_id)
    show(form, body, [window_id], lambda: _print(body))


@window.command(epilog=examples("paceline maintenance window remove tuesdays --reason 'the work is done by day'"))
@ID
@reason_option
@output_option
@cell_option
@with_client
def remove(client: "Client", window_id: str, reason: str, form: str) -> None:
    """Remove a window; hosts that drain for it are taken back."""
    answer = client.remove_maintenance_window(window_id, reason, wait=DECIDED_S)
    show(form, answer, [window_id], lambda: say(f"maintenance window {window_id} removed"))


def _print(body: "MaintenanceWindow") -> None:
    say(f"maintenance window {body['window_id']} {body['state']}{_next(body)}")
    names = body.get("host_ids", [])[:10]
    more = f" and {body['hosts'] - len(names)} more" if body["hosts"] > len(names) else ""
    facts(
        [
            ("schedule", f"{body['schedule']} ({body['time_zone']})"),
            ("duration", body["duration"]),
            ("closes", _minutes(body["closes_at"])),
            ("lead", body["lead"]),
            ("escalate", body["escalate"]),
            ("hosts", f"{', '.join(names)}{more}"),
            ("closed last", _minutes(body["closed_at"])),
            ("missed last", _minutes(body["missed_at"])),
            ("zone known until", _minutes(body["known_until"]) if body["known_until"] else "for good"),
            ("reason", body["reason"] or "none"),
            ("by", body["actor"]["name"] if body["actor"] else "not said"),
            ("set", when(body["set_at"], "utc")),
        ]
    )


def _next(body: "MaintenanceWindow | None") -> str:
    """When a window opens, as the end of a sentence."""
    if body is None:
        return ""
    if not body["opens_at"]:
        return ": it never opens"
    word = "open since" if body["state"] == "OPEN" else "opens"
    return f": {word} {_minutes(body['opens_at'])} UTC, {_local(body)}"


def _minutes(text: str | None) -> str:
    """A time to the minute, as a schedule has it."""
    return text[:16].replace("T", " ") if text else "-"


def _local(body: "MaintenanceWindow") -> str:
    return f"{_minutes(body['opens_local'])} {body['time_zone']}" if body["opens_local"] else "-"
