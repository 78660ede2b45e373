"""`paceline log verify --build PYTHON`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.sides import sides
from paceline.client.json_type import Json
from paceline.output import Column, say, table

if TYPE_CHECKING:
    from paceline.history.build_protocol import Differs, Reached
    from paceline.history.findings import Finding, MachineCounts
    from paceline.history.verify import Progress, RoundRange
    from paceline.history.verify_by_build import BuildResult
    from paceline.services.settings import Settings

ROUNDS_SHOWN = FINDINGS_SHOWN = 20
SIDES_SHOWN = 3


def verify_build(
    settings: "Settings",
    python: str,
    machine: str | None,
    round_range: "RoundRange",
    jobs: int,
    say_progress: "Callable[[Progress], None]",
) -> "tuple[Json, Iterable[str], Callable[[], None], int]":
    """The result of a cell: its body, the names of its machines, what prints it, and the exit code."""
    from paceline.client.errors import PacelineError
    from paceline.history.build_protocol import Span
    from paceline.history.findings import round_body
    from paceline.history.open_log import open_log
    from paceline.history.verify import Progress
    from paceline.history.verify_by_build import verify_by_build
    from processors.cell_machines import machines

    def reached(at: "Reached") -> None:
        say_progress(Progress(at.machine, at.position, at.end, at.round, at.events))

    log = open_log(settings)
    try:
        names = list(machines(log.cell))
        if machine is not None and machine not in names:
            raise click.BadParameter(f"{machine} is none of {', '.join(names)}", param_hint="--machine")
        spans = {name: Span(*round_range) for name in names if machine in (None, name)}
        result = verify_by_build(log, settings, python, spans, jobs, reached)
    finally:
        log.close()
    findings = result.findings
    if not findings.compared and not findings.faults:
        raise PacelineError(f"There is nothing to compare: the log of cell {log.cell} has no such rounds.")
    body = {
        "identical": not findings.differing and not findings.faults,
        "build": result.version,
        "python": python,
        **findings.body(),
        "differences": [round_body(each) for each in findings.rounds],
    }
    return body, spans, partial(_print, result, python), 0 if body["identical"] else 1


def _print(result: "BuildResult", python: str) -> None:
    findings = result.findings
    _machines(findings.machines)
    who = f"Paceline {result.version} ({python})"
    for name, fault in findings.faults.items():
        say(f"{name} stands: {fault}")
    if not findings.differing:
        if not findings.faults:
            say(f"{findings.compared:,} rounds compared: {who} would decide each of them alike")
        return
    say(f"{findings.differing:,} of {findings.compared:,} rounds would differ with {who}: these")
    _rounds(findings.rounds)
    if findings.differing > ROUNDS_SHOWN:
        say(f"and {findings.differing - ROUNDS_SHOWN:,} more; -o json has up to 10,000")
    say("\nby kind, pool and job")
    print_findings(findings.sorted())
    for finding in _firsts(findings.sorted()):
        key = finding.key
        about = " of ".join(filter(None, (key.job, key.pool)))
        say(f"\nfirst {key.kind}{f', {about}' if about else ''}: {key.machine} round {finding.first.round}")
        sides(finding.rows, "FIELD", "BY THE BUILD")


def _machines(machines: "Mapping[str, MachineCounts]") -> None:
    table(
        list(machines.items()),
        [
            Column("MACHINE", lambda each: each[0]),
            Column("COMPARED", lambda each: each[1].compared, right=True),
            Column("DIFFER", lambda each: each[1].differing, right=True),
            Column("OF OTHER LOGIC", lambda each: each[1].other_logic, right=True),
            Column("LAST ROUND", lambda each: each[1].round, right=True),
        ],
    )


def _rounds(rounds: "Sequence[Differs]") -> None:
    from paceline.moments.log_cut import write_time

    table(
        rounds[:ROUNDS_SHOWN],
        [
            Column("MACHINE", lambda each: each.machine),
            Column("ROUND", lambda each: each.round, right=True),
            Column("AT", lambda each: write_time(each.at_ms)),
            Column("DECISION", lambda each: each.index, right=True),
            Column("DIFFERS", _kinds),
        ],
    )


def _kinds(differs: "Differs") -> str:
    from paceline.history.findings import how

    if differs.fault:
        return differs.fault
    return ", ".join(dict.fromkeys(f"{part.kind} {how(part)}" for part in differs.parts)) or "order of decisions"


def print_findings(findings: "Sequence[Finding]") -> None:
    """A line for each of the first findings."""
    from paceline.moments.log_cut import write_time

    table(
        findings[:FINDINGS_SHOWN],
        [
            Column("MACHINE", lambda each: each.key.machine),
            Column("KIND", lambda each: each.key.kind),
            Column("POOL", lambda each: each.key.pool or "-"),
            Column("JOB", lambda each: each.key.job or "-"),
            Column("ROUNDS", lambda each: f"{each.rounds} of {each.of_rounds}", right=True),
            Column("FIRST", lambda each: write_time(each.first.at_ms)),
            Column("LASTS", lambda each: f"{each.seconds:.1f} s", right=True),
            Column("DECISION", lambda each: each.text),
        ],
    )
    if len(findings) > FINDINGS_SHOWN:
        say(f"and {len(findings) - FINDINGS_SHOWN:,} more")


def _firsts(findings: "Iterable[Finding]") -> "list[Finding]":
    """The findings that are shown side by side: the first of each kind."""
    firsts: dict[tuple[str, str], Finding] = {}
    for each in findings:
        key = (each.key.machine, each.key.kind)
        if each.rows and (key not in firsts or each.first.at_ms < firsts[key].first.at_ms):
            firsts[key] = each
    return list(firsts.values())[:SIDES_SHOWN]
