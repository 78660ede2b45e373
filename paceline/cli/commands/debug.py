"""`paceline debug`: what a maintainer needs to find a bug."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from paceline.cli.commands.common import Target, client_of, data_option, examples, kafka_options
from paceline.cli.groups import CommandGroup
from paceline.cli.reach import reach_of
from paceline.output import note, say

if TYPE_CHECKING:
    from paceline.services.debug_bundle import Entry, Part
    from paceline.services.settings import Settings

ANSWER_S = 10.0
"""Seconds for each answer of a cell that may be ill."""


@click.group(cls=CommandGroup)
def debug() -> None:
    """Collect what a maintainer needs to find a bug."""


@debug.command(
    epilog=examples(
        "paceline debug bundle",
        "paceline debug bundle /tmp/cell.tar.gz --server api-1:7117",
        "paceline debug bundle --data /var/lib/paceline",
    )
)
@click.argument("file", required=False, type=Target())
@click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
@click.option("--token", metavar="TOKEN", help="Token of the cell. [default: the one in the data folder]")
@data_option
@kafka_options
@click.option(
    "--cell", type=click.IntRange(0, INT_MAX), metavar="N", help="Query this cell. [default: found by the server]"
)
def bundle(
    file: Path | None,
    server: str | None,
    token: str | None,
    data: Path | None,
    config: Path | None,
    kafka: dict[str, Any],
    cell: int | None,
) -> int:
    """Write versions, settings, positions, lags, state hashes, checks and the newest rounds of a cell to a .tar.gz.

    FILE is paceline-debug-TIME.tar.gz here where none is named. The cell is asked over its API; where that doesn't
    answer, the bundle has what its log and data folder tell. It holds no tokens, passwords or secrets, no environments,
    commands or output of jobs; it does hold the names of jobs, pools, hosts, owners and labels. It has at most 16 MiB
    before it is compressed.
    """
    from paceline.services import debug_bundle
    from paceline.services.settings import load

    settings = load(config, server=server, token=token, data=data, **kafka)
    now = datetime.now(UTC)
    target = file or Path(f"paceline-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    parts = chain(debug_bundle.of_machine(settings), [_check(settings, cell)], _of_cell(settings, cell))
    try:
        entries = debug_bundle.write(target, parts, debug_bundle.secrets_of(settings), now)
    except FileExistsError as error:
        raise click.UsageError(f"{target} is there already: name another file") from error
    _print(target, entries)
    return 0


def _check(settings: "Settings", cell: int | None) -> "Part":
    from paceline.cli.commands.cell import judged
    from paceline.services.debug_bundle import Part

    return Part("check.json", "what `paceline cell check` says", lambda: judged(settings, cell).body())


def _of_cell(settings: "Settings", cell: int | None) -> "Iterator[Part]":
    """Yields what the API tells, or the log where that doesn't answer."""
    from paceline.services import debug_bundle
    from paceline.services.cell_log import bare_log

    try:
        with client_of(reach_of(settings), cell, ANSWER_S) as client:
            yield from debug_bundle.of_api(client)
            return
    except Exception as error:  # who answers may be anybody, and ill
        yield debug_bundle.missing("the API", error)
    try:
        yield from debug_bundle.of_log(lambda: bare_log(settings))
    except Exception as error:
        yield debug_bundle.missing("the log", error)


def _print(target: Path, entries: "list[Entry]") -> None:
    say(f"wrote {target} ({target.stat().st_size / 1024:,.0f} KiB)")
    for each in entries:
        if each.size and each.about:
            say(f"  {each.name}: {each.about}")
    rounds = sum(each.name.startswith("rounds/") and each.size > 0 for each in entries)
    say(f"  rounds/: {rounds} rounds, the newest of each machine")
    for each in entries:
        if each.fault:
            note(f"not got: {each.name}: {each.fault}")
    note("Add what the processes logged: journalctl -u 'paceline-*', or stderr of `paceline up`.")
