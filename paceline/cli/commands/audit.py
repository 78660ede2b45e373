"""`paceline audit`: whether who wrote a fact was allowed to."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import data_option, examples, log_options, report_option
from paceline.client.json_type import Json
from paceline.moments.log_cut import write_time
from paceline.output import Column, live, note, say, show, table

if TYPE_CHECKING:
    from paceline.audit.verify import Verdict


@click.command(
    epilog=examples("paceline audit --verify", "paceline audit --verify --kafka broker:9092 --cell 1 -o json")
)
@click.option(
    "--verify", "verifies", is_flag=True, help="Check that each fact was allowed by the binding that it names."
)
@data_option
@log_options
@report_option
def audit(verifies: bool, data: Path | None, config: Path | None, log: Json, form: str) -> int:
    """Verify that who wrote a fact was allowed to; the cell may be running.

    Facts of actors that are known by proof are checked by bindings and tokens as they stood where the fact was allowed.
    Facts that landed after the end of their binding are listed, and fail above the setting late_after. Facts without
    proof are counted by how the name was known. Exits with 1 if a fact wasn't allowed.
    """
    if not verifies:
        raise click.UsageError("say what is to be done: --verify")
    from paceline.audit.verify import verify
    from paceline.history.open_log import open_log
    from paceline.services.settings import load

    def step(topic: str, offset: int) -> None:
        if offset and live(sys.stderr):
            note(f"{topic}: {offset:,} records")

    with closing(open_log(load(config, data=data, **log))) as opened:
        verdict = verify(opened, step)
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
