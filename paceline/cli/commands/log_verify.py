"""`paceline log verify`."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from events.bounds import INT_MAX, LONG_MAX
from events.topics import MACHINES, rounds_of
from paceline.cli.commands.common import (
    Target,
    data_option,
    ends_by_sigterm,
    examples,
    log_options,
    only_the_file,
    output_option,
)
from paceline.cli.commands.log_heads import compare_heads, trusted_key
from paceline.cli.commands.sides import sides
from paceline.client.json_type import Json
from paceline.output import Column, live, note, say, show, table

if TYPE_CHECKING:
    from events.log.port import Log
    from paceline.client.operation_models import RoundDifference
    from paceline.history.heads import Head
    from paceline.history.verify import Progress, RoundRange, VerifiedMachine
    from paceline.services.settings import Settings
    from paceline.witness.notes import PublicKey
    from processors.machine import Machine
    from processors.runtime.replay import Difference

ROWS_SHOWN = 20
LINE_EVERY_S = 5.0
NO_ANSWER = 3
"""The exit code where a head can't be compared."""
MachineFactories = dict[str, "Callable[[], Machine]"]
Verdict = tuple[Json, Iterable[str], Callable[[], None], int]
"""The result of a cell: its body, the names of its machines, what prints it, and the exit code."""
Check = Callable[["Settings"], Verdict]


class HeadsOption(NamedTuple):
    """The heads that a log is compared with: one that was saved, or those of a witness, by its key; and where the head
    of this log goes.
    """

    head: Path | None = None
    save_head: Path | None = None
    heads: str | None = None
    trust: "PublicKey | None" = None
    no_replay: bool = False


@click.command(
    epilog=examples(
        "paceline log verify",
        "paceline log verify --kafka broker:9092 --jobs 2",
        "paceline log verify --machine placement --from 120 --to 180",
        "paceline log verify --save-head head.json",
        "paceline log verify --head head.json -o json",
        "paceline log verify --heads s3://heads/cell --trust witness-1.pub",
        "paceline log verify outage.avro",
        "paceline log verify --build /opt/paceline-next/bin/python",
    )
)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@data_option
@log_options
@click.option("--machine", metavar="MACHINE", help="Only this machine. [default: all]")
@click.option(
    "--from",
    "first",
    type=click.IntRange(1, LONG_MAX),
    metavar="ROUND",
    help="Apply the rounds before this one without replaying them.",
)
@click.option("--to", "last", type=click.IntRange(1, LONG_MAX), metavar="ROUND", help="Last round to replay.")
@click.option(
    "--jobs",
    type=click.IntRange(1, INT_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of machines to verify in parallel.",
)
@click.option("--head", type=click.Path(path_type=Path), metavar="FILE", help="Compare with a head saved earlier.")
@click.option(
    "--save-head", type=Target(), metavar="FILE", help="Save the head of the log to this file; keep it elsewhere."
)
@click.option(
    "--build", metavar="PYTHON", help="Let the Paceline of this interpreter decide the rounds, of any logic number."
)
@click.option("--heads", metavar="DIR|URL", help="Check the heads of a witness, and compare with the newest.")
@click.option("--trust", metavar="KEY|FILE", help="Public key of the witness, for --heads.")
@click.option("--no-replay", is_flag=True, help="Compare with --head or --heads only; replay nothing.")
@output_option
@ends_by_sigterm()
def verify(
    file: Path | None,
    data: Path | None,
    config: Path | None,
    log: Json,
    machine: str | None,
    first: int | None,
    last: int | None,
    jobs: int,
    head: Path | None,
    save_head: Path | None,
    heads: str | None,
    trust: str | None,
    no_replay: bool,
    build: str | None,
    form: str,
) -> int:
    """Replay every round of the log and compare the decisions byte for byte; the cell may be running.

    On Kafka all cells are verified, one after the other, unless --cell names one.

    FILE is a log range that `paceline log export` wrote. Rounds of another logic number, and those before --from, are
    applied only, not replayed. To detect records missing at the end of the log, compare with a head that was saved
    earlier and kept elsewhere, or with the heads that `paceline witness` published. Exits with 1 if anything differs,
    with 3 if the log begins after the newest head of --heads, so that it can't be compared.

    With --build another release decides each round in the state in which the cell was: what it would decide otherwise
    is listed, and what was recorded is applied.
    """
    from paceline.history.importer import imported_history
    from paceline.history.start_state import is_history
    from paceline.history.verify import RoundRange
    from paceline.services.settings import load

    only_the_file(file, data, log)
    if (first or last) and machine is None:
        raise click.UsageError("--from and --to are rounds of one machine: name it with --machine")
    if first and last and first > last:
        raise click.UsageError("--from is after --to")
    if build and (head or save_head or heads):
        raise click.UsageError("--build compares decisions: leave out --head, --save-head and --heads")
    if save_head and (machine or last):
        raise click.UsageError("--save-head is for a whole log: without --machine and --to")
    if (heads is None) != (trust is None):
        raise click.UsageError("--heads needs --trust KEY, and --trust needs --heads")
    if no_replay and (save_head or not (head or heads)):
        raise click.UsageError("--no-replay is for --head and --heads, and saves no head")
    to_compare = HeadsOption(head, save_head, heads, trusted_key(trust) if trust is not None else None, no_replay)
    with imported_history(file, data) as folder:
        settings = load(config, data=folder, **log)
        if (head or save_head or heads) and is_history(settings.data):
            raise click.UsageError("a head is of a complete log; this is an exported log range")
        round_range, cells = RoundRange(first or 1, last), _cells(settings)
        check: Check
        if build:
            check = partial(_by_build, build, machine, round_range, jobs)
        else:
            check = partial(_verify, machine, round_range, jobs, to_compare)
        if len(cells) == 1:
            body, names, print_it, code = check(settings)
            show(form, body, names, print_it)
        elif head or save_head or heads or first or last:
            raise click.UsageError(
                f"a head and rounds are of one cell, and there are {len(cells)}: name it with --cell"
            )
        else:
            code = _verify_each([settings.model_copy(update={"cell": each}) for each in cells], check, form)
    if save_head:
        note(f"no head was saved: {save_head}" if code else f"the head was saved to {save_head}; keep it elsewhere")
    return code


def _cells(settings: "Settings") -> Sequence[int]:
    """The cells to verify: the one that is named, else all that Kafka has."""
    if not settings.kafka or "cell" in settings.model_fields_set:
        return [settings.cell]
    from events.log.kafka.topics import cells

    return range(max(1, cells(settings.kafka, settings.kafka_options)))


def _verify_each(each_cell: "Sequence[Settings]", check: Check, form: str) -> int:
    """Verifies cell after cell, also after one that differs or has no rounds, and returns the first code of such."""
    from paceline.client.errors import InvalidValue, PacelineError

    bodies: list[Json] = []
    code = 0
    for settings in each_cell:
        try:
            body, names, print_it, its_code = check(settings)
        except InvalidValue:
            raise
        except PacelineError as error:
            body, its_code = (
                {"identical": False, "machines": [], "difference": None, "error": str(error)},
                error.exit_code,
            )
            names, print_it = (), partial(say, str(error))
        bodies.append({"cell": settings.cell, **body})
        code = code or its_code
        if form in ("table", "name"):
            say(f"cell {settings.cell}")
            show(form, body, names, print_it)
    if form not in ("table", "name"):
        show(form, bodies)
    return code


def _by_build(build: str, machine: str | None, round_range: "RoundRange", jobs: int, settings: "Settings") -> Verdict:
    from paceline.cli.commands.log_verify_build import verify_build

    with _progress() as say_progress:
        return verify_build(settings, build, machine, round_range, jobs, say_progress)


def _verify(
    machine: str | None,
    round_range: "RoundRange",
    jobs: int,
    to_compare: HeadsOption,
    settings: "Settings",
) -> Verdict:
    """The verdict on a cell."""
    from paceline.client.errors import PacelineError
    from paceline.history import heads
    from paceline.history.open_log import open_log
    from paceline.history.verify import ALL_ROUNDS
    from processors.cell_machines import machines

    expected_head = heads.read(to_compare.head) if to_compare.head else None
    log = open_log(settings)
    try:
        factories = _chosen(machines(log.cell), machine)
        ends = heads.ends(log)
        compared = (
            compare_heads(to_compare.heads, to_compare.trust, log) if to_compare.heads and to_compare.trust else None
        )
        results = [] if to_compare.no_replay else _run(settings, log, factories, round_range, jobs)
        if round_range != ALL_ROUNDS and results:
            _check_range(results[0], round_range)
        differs = _root(results, log, expected_head)
        if differs is None and compared is not None and compared.finding is not None:
            differs = compared.difference
        alone = machine is None and differs is None and to_compare == HeadsOption()
        if alone and not any(each.result.rounds or each.result.folded for each in results):
            raise PacelineError(f"There is nothing to verify: the log of cell {log.cell} has no rounds.")
        if to_compare.save_head and differs is None:
            heads.write(heads.head_of(log, ends, (each.result for each in results)), to_compare.save_head)
    finally:
        log.close()
    unknown = differs is None and compared is not None and bool(compared.lacking)
    body: Json = {
        "identical": differs is None and not unknown,
        "machines": [each.body() for each in results],
        "difference": _body(differs, results, factories) if differs else None,
    }
    if compared is not None:
        body["witness"] = compared.body()

    def tell() -> None:
        if compared is not None:
            compared.print()
        if results or not unknown:
            print_checked(results, differs, factories, replayed=not to_compare.no_replay)

    return body, factories, tell, 1 if differs else NO_ANSWER if unknown else 0


def _check_range(results: "VerifiedMachine", round_range: "RoundRange") -> None:
    """Refuses a stretch of rounds in which there is none: nothing was compared."""
    from paceline.client.errors import PacelineError

    result = results.result
    if result.difference is not None or result.rounds or result.folded:
        return
    if round_range.last is not None and round_range.last <= result.begun:
        available = f"the first round of {result.machine} here is {result.begun + 1}"
    else:
        available = f"the last round of {result.machine} here is {result.begun + result.before}"
    raise PacelineError(f"There is nothing to decide again: {available}.")


def _root(results: "list[VerifiedMachine]", log: "Log", head: "Head | None") -> "Difference | None":
    from paceline.history import heads
    from paceline.history.verify import root_difference

    return root_difference(log, results) or (heads.compare(log, head) if head else None)


def _chosen(factories: MachineFactories, machine: str | None) -> MachineFactories:
    if machine is None:
        return factories
    if machine not in factories:
        raise click.BadParameter(f"{machine} is none of {', '.join(factories)}", param_hint="--machine")
    return {machine: factories[machine]}


def _run(
    settings: "Settings", log: "Log", factories: MachineFactories, round_range: "RoundRange", jobs: int
) -> "list[VerifiedMachine]":
    from paceline.history.start_state import start_of
    from paceline.history.verify import verify as verify_here
    from paceline.history.verify import verify_in_processes

    with _progress() as say:
        if jobs > 1 and len(factories) > 1:
            return verify_in_processes(settings, list(factories), min(jobs, len(factories)), say, round_range)
        starts = {name: start for name in factories if (start := start_of(settings.data, name))}
        return verify_here(log, factories, say, round_range, starts)


@contextmanager
def _progress() -> "Iterator[Callable[[Progress], None]]":
    """A bar for each machine where somebody looks, elsewhere a line now and then."""
    if not live(sys.stderr):
        last_note_s = time.monotonic()

        def line(step: "Progress") -> None:
            nonlocal last_note_s
            if time.monotonic() - last_note_s > LINE_EVERY_S:
                last_note_s = time.monotonic()
                note(f"{step.machine}: round {step.round}, {step.events} events")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[progress_text]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: Json = {}

        def say(step: "Progress") -> None:
            if step.machine not in tasks:
                tasks[step.machine] = bars.add_task(step.machine, total=step.end, progress_text="")
            progress_text = f"round {step.round:,}, {step.events:,} events"
            bars.update(tasks[step.machine], completed=step.position, progress_text=progress_text)

        yield say


def print_checked(
    results: "list[VerifiedMachine]",
    differs: "Difference | None",
    factories: MachineFactories,
    replayed: bool = True,
) -> None:
    """Prints the results of a verification, a line for each machine, then the verdict."""
    if replayed:
        _print_machines(results)
    if differs:
        _print_difference(_body(differs, results, factories), differs, factories)
        for other in (each.result.difference for each in results):
            if other is not None and other is not differs:
                say(f"{other.machine} differs too, at round {other.round}: {other.reason}")
        return
    if not replayed:
        say("the log fits the head; no round was replayed")
        return
    rounds, folded, before = (
        sum(getattr(each.result, name) for each in results) for name in ("rounds", "folded", "before")
    )
    tail = f"; {folded} rounds of another logic were applied only" if folded else ""
    tail += f"; {before} rounds before them were applied only" if before else ""
    say(f"{rounds} rounds replayed: all identical, byte for byte{tail}")


def _print_machines(results: "list[VerifiedMachine]") -> None:
    table(
        results,
        [
            Column("MACHINE", lambda each: each.result.machine),
            Column("REPLAYED", lambda each: each.result.rounds, right=True),
            Column("APPLIED ONLY", lambda each: each.result.folded + each.result.before, right=True),
            Column("DECISIONS", lambda each: each.result.decisions, right=True),
            Column("EVENTS", lambda each: each.result.events, right=True),
            Column("EVENTS/s", lambda each: each.events_per_second, right=True),
            Column("STATE HASH", lambda each: each.result.hash.hex()),
        ],
    )
    for each in results:
        if each.result.begun:
            say(f"{each.result.machine} began after round {each.result.begun}, where this history starts")


def _body(differs: "Difference", results: "list[VerifiedMachine]", factories: MachineFactories) -> "RoundDifference":
    from paceline.history.verify import difference_body

    divergence = next((each.result.divergence for each in results if each.result.difference is differs), None)
    factory = factories.get(differs.machine)
    return difference_body(differs, divergence, factory() if divergence and factory else None)


def _print_difference(body: "RoundDifference", difference: "Difference", factories: MachineFactories) -> None:
    from paceline.history.verify import side_by_side

    where = f" at {difference.machine} round {difference.round}" if difference.machine else ""
    if difference.machine and (body["recorded"] or body["decided"]):
        where += f", decision {difference.index}"
    reason = difference.reason.removeprefix(f"{difference.machine} round {difference.round}: ")
    say(f"the log differs{where}: {reason}")
    if body["places"]:
        one = len(body["places"]) == 1 and "-" not in body["places"][0]
        say(f"the record that differs is {'' if one else 'one of '}{', '.join(body['places'])}")
    if not body["recorded"] and not body["decided"]:
        topics = {each.topic for each in difference.places}
        others = [
            name for name in MACHINES if rounds_of(name) in topics and name not in (difference.machine, *factories)
        ]
        for name in others:
            say(f"rounds of {name} are among them: decide those again too, with --machine {name}")
    rows = side_by_side(difference)
    if rows:
        sides(rows, "FIELD")
        _print_states(body)


def _print_states(body: "RoundDifference") -> None:
    parted, rows = body["states_part_after_round"], body["rows"]
    if parted is None:
        say("both come to the same state after this round and after all that follow")
        return
    fault = f": {body['states_fault']}" if body["states_fault"] else ""
    say(f"the states part after round {parted}{fault}")
    lines = []
    for row in rows[:ROWS_SHOWN]:
        name = f"{row['table']} {row['key']}"
        recorded, decided = row["recorded"], row["decided"]
        for field in list({**(recorded or {}), **(decided or {})})[:ROWS_SHOWN]:
            old, new = ("-" if side is None else json.dumps(side.get(field)) for side in (recorded, decided))
            lines.append(("≠", f"{name} {field}", old, new))
    if lines:
        sides(lines, "ROW")
    if len(rows) > ROWS_SHOWN:
        say(f"... and {len(rows) - ROWS_SHOWN} rows more")
