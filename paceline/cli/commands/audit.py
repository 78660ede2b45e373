"""`paceline audit`: who did what, allowed by what; and whether they were."""

import csv
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from events.csv_cells import harmless
from paceline.cli.commands.common import (
    Since,
    ca_option,
    client_of,
    data_option,
    examples,
    log_options,
    note_moment,
    zone_option,
)
from paceline.cli.reach import reach
from paceline.client.json_type import Json
from paceline.moments.log_cut import write_time
from paceline.output import Column, live, note, say, show, table, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paceline.audit.verify import Verdict
    from paceline.client.cell_models import AuditedFact

SHOWN = 100
FIELDS = ("at", "actor", "how", "credential", "address", "event", "text", "pools", "role", "role_pool", "role_position")
"""The columns of CSV, before the reason and the position."""


@click.command(
    epilog=examples(
        "paceline audit --since 24h",
        "paceline audit --actor ann --pool /maps -o csv --limit 10000",
        "paceline audit --verify",
        "paceline audit --verify --kafka broker:9092 --cell 1 -o json",
    )
)
@click.option("--actor", default="", metavar="NAME", help="Facts of this user.")
@click.option("--kind", default="", metavar="FACT", help="Facts of this kind, such as JobStopRequested.")
@click.option("--pool", default="", metavar="PATH", help="Facts about this pool, those below it, and their jobs.")
@click.option("--job", default="", metavar="JOB", help="Facts about this job.")
@click.option("--host", default="", metavar="HOST", help="Facts about this host.")
@click.option("--since", type=Since(), metavar="TIME|AGO", help="From this time on.")
@click.option("--until", type=Since(), metavar="TIME|AGO", help="Before this time.")
@click.option(
    "--limit", type=click.IntRange(1, INT_MAX), default=SHOWN, show_default=True, metavar="N", help="At most so many."
)
@click.option(
    "--verify", "verifies", is_flag=True, help="Read the log, and check each fact by the binding that it names."
)
@click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
@click.option("--token", metavar="TOKEN", help="Token to read with. [default: the one in the data folder]")
@ca_option
@data_option
@log_options
@zone_option
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(("table", "json", "csv")),
    default="table",
    show_default=True,
    help="Output format.",
)
def audit(
    verifies: bool,
    server: str | None,
    token: str | None,
    ca: Path | None,
    data: Path | None,
    config: Path | None,
    log: Json,
    zone: str,
    form: str,
    limit: int,
    **filters: str | None,
) -> int:
    """Show who did what, when, allowed by which binding: facts of users and operators, the newest first.

    --verify reads the log itself, of a running cell too, and shares no code with the API that wrote the facts. Facts of
    actors that are known by proof are checked by bindings and tokens as they stood where the fact was allowed. Facts
    that landed after the end of their binding are listed, and fail above the setting late_after. Facts without proof
    are counted by how the name was known. Exits with 1 if a fact wasn't allowed.
    """
    criteria = {name: value for name, value in filters.items() if value}
    if verifies:
        if criteria or form == "csv":
            raise click.UsageError("--verify checks all of the log: leave out filters, and -o csv")
        return _verify(data, config, log, form)
    with client_of(reach(config, server, token, data, ca), log["cell"]) as client:
        facts = list(islice(client.audit(**criteria), limit + 1))
        note_moment(client)
    _show(facts[:limit], form, zone)
    if len(facts) > limit:
        note(f"only the newest {limit} are shown; more with --limit")
    return 0


def _show(facts: "list[AuditedFact]", form: str, zone: str) -> None:
    if form == "csv":
        writer = csv.DictWriter(sys.stdout, (*FIELDS, "reason", "position"), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: harmless(value) for name, value in row.items()} for row in _flat(facts))
        return
    columns = [
        Column("AT", lambda each: when(each["at"], zone)),
        Column("WHO", lambda each: each["actor"]["name"]),
        Column("FACT", lambda each: each["event"]),
        Column("WHAT", lambda each: each["text"]),
        Column("ALLOWED BY", _allowed_by),
        Column("POSITION", lambda each: each["position"]),
    ]
    show(form, {"facts": facts}, table=lambda: table(facts, columns))


def _allowed_by(fact: "AuditedFact") -> str | None:
    if fact["role"]:
        return f"{fact['role']} of {fact['role_pool']} ({fact['role_position']})"
    return fact["role_position"]


def _flat(facts: "list[AuditedFact]") -> "Iterator[dict[str, Any]]":
    for each in facts:
        actor: Any = each["actor"]
        row: dict[str, Any] = {**each, "pools": " ".join(each["pools"]), "actor": actor["subject"]}
        yield {**row, **{name: actor[name] for name in ("how", "credential", "address", "reason")}}


def _verify(data: Path | None, config: Path | None, log: Json, form: str) -> int:
    from paceline.audit.verify import verify
    from paceline.history.open_log import open_log
    from paceline.services.data_folder import kept_hashes
    from paceline.services.settings import load

    def step(topic: str, offset: int) -> None:
        if offset and live(sys.stderr):
            note(f"{topic}: {offset:,} records")

    settings = load(config, data=data, **log)
    with closing(open_log(settings)) as opened:
        verdict = verify(opened, step, kept_hashes(settings.data))
    show(form, _body(verdict), table=lambda: _print(verdict))
    return 1 if verdict.failed else 0


def _body(verdict: "Verdict") -> Json:
    counts = ("facts", "verified", "allowed", "late", "unknown", "failed")
    findings = [{**each._asdict(), "at": write_time(each.at_ms)} for each in verdict.findings]
    return {
        "well": not verdict.failed,
        **{name: getattr(verdict, name) for name in counts},
        "unverified": dict(sorted(verdict.unverified.items())),
        "findings": findings,
    }


def _print(verdict: "Verdict") -> None:
    if verdict.findings:
        columns = [
            Column("POSITION", lambda each: each.position),
            Column("TIME", lambda each: write_time(each.at_ms)),
            Column("FACT", lambda each: each.event),
            Column("ACTOR", lambda each: each.subject),
            Column("FAULT", lambda each: each.code if each.fails else f"{each.code}, within late_after"),
            Column("WHY", lambda each: each.message),
        ]
        table(verdict.findings, columns)
        if (more := verdict.failed + verdict.late - len(verdict.findings)) > 0:
            say(f"... and {more:,} more")
    unverified = ", ".join(f"{count:,} {how}" for how, count in sorted(verdict.unverified.items()))
    say(
        f"{verdict.facts:,} facts of users and operators: {verdict.verified:,} by a verified actor, of which "
        f"{verdict.allowed:,} were allowed, {verdict.late:,} of them late, {verdict.failed:,} were not, and "
        f"{verdict.unknown:,} can't be told; unverified: {unverified or 'none'}"
    )
