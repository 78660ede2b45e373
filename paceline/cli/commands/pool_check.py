"""`paceline pool apply --checked`: pools are applied only if a what-if of the running cell says so."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.what_if import print_answer
from paceline.output import note, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.client.client import Client
    from paceline.job_files import PoolFile

LOOK_S = 10.0
"""Seconds that one request waits for the answer."""
CLOCKS_S = 1
"""The stretch ends so long ago: a server whose clock is a little behind must not take it for the future."""


def check_options(since: str | None, conditions: "Sequence[str]", dry_run: bool) -> None:
    """Raises `UsageError` where options don't go together, and `InvalidValue` where a condition is none."""
    if conditions and since is None:
        raise click.UsageError("--fail-if is for --checked AGO, the stretch of history that the pools are checked on")
    if since is None:
        return
    if not conditions:
        raise click.UsageError("--checked needs --fail-if, such as --fail-if 'pool /maps mean_wait > +20%'")
    if dry_run:
        raise click.UsageError("--dry-run checks nothing on history: leave out one of --dry-run and --checked")
    from paceline.whatif.conditions import read_condition

    for each in conditions:
        read_condition(each)


def check(client: "Client", pools: "Sequence[PoolFile]", since: str, conditions: "Sequence[str]", form: str) -> int:
    """Has the server decide history since then again with these pools, and prints the answer. Returns 0 where they may
    be applied, 1 where a condition holds, 3 where that can't be told.
    """
    from paceline.client.errors import PacelineError

    until = datetime.now(UTC) - timedelta(seconds=CLOCKS_S)
    file = json.dumps({"pools": [{"path": each.path, **each.body} for each in pools]})
    try:
        what_if = client.ask_what_if(since, until.isoformat(), change_file=file, conditions=conditions)
        while what_if["state"] == "RUNNING":
            what_if = client.what_if(what_if["id"], LOOK_S)
    except PacelineError as error:
        if error.exit_code != 1:  # 1 is that a condition holds
            raise
        note(f"nothing was applied: {error}")
        return 3
    body = what_if["answer"]
    if body is None:
        note(f"nothing was applied: the what-if has no answer: {what_if['error']}")
        return 3
    verdicts = {each["condition"]: each["holds"] for each in body["conditions"]}
    code = 1 if "yes" in verdicts.values() else 3 if "can't tell" in verdicts.values() else 0
    if code or form == "table":
        show(form, body, verdicts, lambda: print_answer(dict(body)))
    if code:
        note(
            "nothing was applied: " + ("a condition holds" if code == 1 else "whether a condition holds can't be told")
        )
    return code
