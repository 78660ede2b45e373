"""`paceline usage`: what ended runs asked for and used."""

import csv
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from events.csv_cells import harmless
from paceline.cli.commands.common import (
    Since,
    at_option,
    cell_option,
    complete,
    examples,
    with_client,
)
from paceline.output import Column, note, show, table

if TYPE_CHECKING:
    from paceline.client.client import Client

BY = ("job", "pool", "owner", "month")
_KEYS = {"job": ("job_id", "pool", "owner")} | {name: (name,) for name in BY[1:]}
_HOUR_MS, _GIB_HOUR = 3_600_000, 1024 * 3600


class Month(Since):
    """A month, or a time in it, or so long ago."""

    name = "month"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The month, as 2026-11."""
        text = str(value)
        if re.fullmatch(r"\d{4}-\d{2}", text):
            if not "01" <= text[5:] <= "12":
                raise click.BadParameter(f"{text} is no month: they go from 01 to 12, as in 2026-11", ctx, param)
            return text
        return super().convert(text, param, ctx)[:7]


@click.command(
    epilog=examples(
        "paceline usage --by owner --since 2026-10", "paceline usage --by job --pool /research", "paceline usage -o csv"
    )
)
@click.option("--by", type=click.Choice(BY), default="pool", show_default=True, help="Sum by this.")
@click.option("--since", type=Month(), metavar="MONTH|AGO", help="From this month on. [default: all]")
@click.option(
    "--pool", default="", metavar="PATH", help="Of this pool and those below.", shell_complete=complete("pool")
)
@click.option("--owner", default="", help="Of this owner only.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(("table", "json", "csv")),
    default="table",
    show_default=True,
    help="Output format.",
)
@at_option
@cell_option
@with_client
def usage(client: "Client", by: str, since: str | None, pool: str, owner: str, form: str) -> None:
    """Show what runs asked for and used: CPU and memory, summed by job, pool, owner or month.

    Counts runs that have ended, in the month (UTC) of their end; `job top` shows those that go on. A job counts here
    until the cell forgets it, a week after its end; pools, owners and months stay. Memory used is the most that a run
    had at a time, for as long as it ran.
    """
    body = client.usage(by, since or "", pool, owner)
    rows = body["usage"]
    if form == "csv":
        amounts = [name for name in (rows[0] if rows else ()) if name not in (*_KEYS["job"], "month")]
        names = [*_KEYS[by], *amounts]
        writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    else:
        show(form, body, (), lambda: table(rows, _columns(by)))
    if body["more"]:
        note(f"only the {len(rows)} that asked for most are shown")


def _columns(by: str) -> list[Column]:
    def key(name: str) -> Column:
        return Column(name.removesuffix("_id").upper(), lambda each: each[name] or "-")

    return [
        *map(key, _KEYS[by]),
        Column("RUNS", lambda each: each["runs"], right=True),
        Column("RUN HOURS", lambda each: f"{each['run_s'] / 3600:.1f}", right=True),
        Column("CPU HOURS", lambda each: f"{each['used_cpu_ms'] / _HOUR_MS:.2f}", right=True),
        Column("ASKED", lambda each: f"{each['asked_cpu_ms'] / _HOUR_MS:.2f}", right=True),
        Column("CPU %", lambda each: _percent(each["used_cpu_ms"], each["asked_cpu_ms"]), right=True),
        Column("GiB HOURS", lambda each: f"{each['peak_memory_mib_s'] / _GIB_HOUR:.2f}", right=True),
        Column("ASKED GiB", lambda each: f"{each['asked_memory_mib_s'] / _GIB_HOUR:.2f}", right=True),
        Column("MEMORY %", lambda each: _percent(each["peak_memory_mib_s"], each["asked_memory_mib_s"]), right=True),
        Column("PEAK MiB", lambda each: each["peak_memory_kib"] >> 10, right=True),
        Column("NOT MEASURED", lambda each: each["runs"] - each["measured_runs"], right=True),
    ]


def _percent(amount: int, whole: int) -> int | None:
    return round(100 * amount / whole) if whole else None
