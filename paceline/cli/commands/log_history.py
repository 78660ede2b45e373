"""`paceline log export`, `import` and `bisect`: log ranges as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    FOLDER,
    Since,
    Target,
    data_option,
    ends_by_sigterm,
    examples,
    log_options,
    only_the_file,
    report_option,
)
from paceline.client.json_type import Json
from paceline.output import facts, note, now, say, show

if TYPE_CHECKING:
    from paceline.history.bisection import FirstRound

TIME = "2026-08-21T10:40Z"


@click.command(
    epilog=examples(
        f"paceline log export --from {TIME} --to 2026-08-21T10:50Z outage.avro",
        "paceline log export --from -7d week.avro",
    )
)
@click.argument("file", type=Target(), metavar="FILE")
@data_option
@log_options
@click.option(
    "--from",
    "start",
    type=Since(),
    required=True,
    metavar="TIME",
    help=f"Start of the log range, such as {TIME} or -7d.",
)
@click.option("--to", "end", type=Since(), metavar="TIME", help="End of the log range. [default: now]")
@click.option("--anonymise", is_flag=True, help="Replace all texts of users and operators by names.")
@ends_by_sigterm()
def export(
    file: Path, data: Path | None, config: Path | None, log: Json, start: str, end: str | None, anonymise: bool
) -> None:
    """Export a log range to one file, with the machine states and views at its start.

    They are rebuilt from the log, so the log must be complete, with its archive if needed. The cell may be running.
    With --anonymise all names are others of the same order, so that the machines decide as they did (docs/replay.md).
    Times, amounts and the structure of pools and jobs stay.
    """
    from paceline.client.errors import PacelineError
    from paceline.history import exporter as exporting
    from paceline.history.anonymise.anonymised_log import anonymised
    from paceline.history.importer import history_in
    from paceline.history.open_log import open_log
    from paceline.moments.log_cut import read_time, write_time
    from paceline.services.settings import load
    from processors.cell_machines import machines

    from_ms, to_ms = read_time(start), read_time(end) if end else int(now().timestamp() * 1000)
    if from_ms > to_ms:
        raise click.UsageError("--from is after --to")
    settings = load(config, data=data, **log)
    if history := history_in(settings):
        begins = write_time(history.from_ms)
        raise PacelineError(f"{settings.data} begins at {begins}: export from the log that it was taken from.")
    opened = open_log(settings)
    try:
        factories = machines(opened.cell)
        if anonymise:
            with anonymised(exporting.up_to(opened, from_ms, to_ms), factories, note) as renamed:
                done = exporting.export(renamed.log, factories, from_ms, to_ms, file, note)
        else:
            done = exporting.export(opened, factories, from_ms, to_ms, file, note)
    finally:
        opened.close()
    rounds = ", ".join(f"{name} after round {number}" for name, number in done.rounds.items())
    say(f"{file}: {done.records} records; it starts with {rounds}")
    if anonymise:
        same = renamed.rounds - renamed.copies
        note(f"{same} of {renamed.rounds} rounds replayed with the new names: identical but for these")
        if renamed.copies:
            note(f"{renamed.copies} are written as recorded, without the sentences of machines: see docs/replay.md")


@click.command("import", epilog=examples("paceline log import outage.avro --data /tmp/outage"))
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--data", type=FOLDER, metavar="DIR", required=True, help="An empty folder, or a new one.")
def import_(file: Path, data: Path) -> None:
    """Import an exported log range into a folder, read-only."""
    from paceline.history.importer import import_history
    from paceline.moments.log_cut import write_time

    result = import_history(file, data)
    span = f"{write_time(result.from_ms)} to {write_time(result.to_ms)}"
    say(f"{data}: {result.records} records of cell {result.cell}, {span}")
    note(f"look at it with: paceline log verify --data {data}; paceline up --read-only --data {data}")


@click.command(
    epilog=examples(
        "paceline log bisect --expect 'job tiles tasks RUNNING >= 3'",
        "paceline log bisect --expect 'job web tasks RUNNING >= 3' --first fails --since 2026-08-21T10:40Z",
        "paceline log bisect outage.avro --expect 'pool /maps allocation cpu > 4'",
    )
)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@data_option
@log_options
@click.option(
    "--expect", "text", required=True, metavar="EXPRESSION", help="Expectation, written as in docs/scenarios.md."
)
@click.option(
    "--first", type=click.Choice(("holds", "fails")), help="Kind of change to find. [default: the first of either]"
)
@click.option("--since", metavar="TIME", help="Ignore changes before this time.")
@report_option
@ends_by_sigterm()
def bisect(
    file: Path | None,
    data: Path | None,
    config: Path | None,
    log: Json,
    text: str,
    first: str | None,
    since: str | None,
    form: str,
) -> int:
    """Find the first round after which an expectation holds, or fails.

    The recorded rounds of all machines are applied in order; nothing is decided. Facts become visible with the round
    that applies them: a host that was silent and back between two rounds never appears silent. Counts, such as those of
    preempted tasks, start at the beginning of the log or of the range in FILE. Exits with 1 if there is no such round.
    """
    from paceline.history.importer import imported_history
    from paceline.moments.log_cut import read_time
    from paceline.services.settings import load
    from paceline.simulate.scenario.assertions import Malformed
    from paceline.simulate.scenario.expectations import parse

    only_the_file(file, data, log)
    try:
        expected = parse(text)
    except Malformed as error:
        raise click.BadParameter(str(error), param_hint="--expect") from error
    must_hold = None if first is None else first == "holds"
    since_ms = read_time(since) if since else 0
    with imported_history(file, data) as folder:
        result = _find_first(load(config, data=folder, **log), expected, must_hold, since_ms)
    body = _body(result) if result else {"found": False}
    show(form, body, table=lambda: _print(result, text))
    return 0 if result else 1


def _find_first(settings: Any, expected: Any, must_hold: bool | None, since_ms: int) -> "FirstRound | None":
    from paceline.history.bisection import HistorySearch, find_first
    from paceline.history.heads import ends
    from paceline.history.open_log import open_log
    from paceline.history.start_state import start_of
    from processors.cell_machines import machines

    log = open_log(settings)
    try:
        factories = machines(log.cell)
        starts = {name: start for name in factories if (start := start_of(settings.data, name))}
        return find_first(HistorySearch(log, factories, starts), expected, must_hold, ends(log), since_ms)
    finally:
        log.close()


def _body(result: "FirstRound") -> Json:
    from paceline.moments.log_cut import write_time

    return {
        "found": True,
        "machine": result.machine,
        "round": result.round,
        "position": f"{result.topic}:{result.offset}",
        "at": write_time(result.at_ms),
        "now": write_time(result.now),
        "holds": result.after.holds,
        "before": result.before.what,
        "after": result.after.what,
    }


def _print(result: "FirstRound | None", text: str) -> None:
    if result is None:
        say(f"there is no round after which this changes: {text}")
        return
    body = _body(result)
    facts(
        (
            ("first " + ("holds" if result.after.holds else "fails"), text),
            ("after", f"{result.machine} round {result.round}"),
            ("position", body["position"]),
            ("at", body["at"]),
            ("before it", result.before.what),
            ("after it", result.after.what),
        )
    )
