"""`paceline simulate`: a cell in virtual time."""

import json
import math
import secrets
import shlex
from itertools import count
from pathlib import Path

import click
from click.core import ParameterSource

from events.bounds import INT_MAX
from paceline.cli.commands.common import FOLDER, Duration, Target, examples
from paceline.output import note, say

FORMATS = ("swf", "openb", "philly", "alibaba-batch")
UNDER_FAULTS = ("scenario", "seed", "faults", "seeds", "seconds", "failing")
ONLY_UNDER_FAULTS = ("seeds", "seconds", "failing")
ONLY_OPENB = ("seed", "arrivals")
ONLY_TRACES = ("form", "jobs", "hosts", "machines", "arrivals")


@click.command(
    epilog=examples(
        "paceline simulate examples/scenarios/first.yaml",
        "paceline simulate examples/scenarios/first.yaml --until 2m --out report/",
        "paceline simulate --trace kth_sp2_jobs.csv.gz --format swf --hosts 100",
        "paceline simulate --faults all --seeds 50",
        "paceline simulate --schema > scenario.schema.json",
    )
)
@click.argument("scenario", required=False, metavar="[SCENARIO]")
@click.option("--seed", type=click.IntRange(0, INT_MAX), metavar="N", help="Override the seed of the scenario.")
@click.option("--until", type=Duration(), help="Stop at this virtual time and show the state.")
@click.option("--data", type=FOLDER, metavar="DIR", help="Keep log and views in this folder.")
@click.option("--out", type=FOLDER, metavar="DIR", help="Write series, jobs and a report there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a scenario.")
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Run a trace instead of a scenario.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of the trace.")
@click.option("--jobs", type=click.IntRange(1, INT_MAX), metavar="N", help="Traces: only the first N jobs.")
@click.option("--hosts", type=click.IntRange(1, INT_MAX), metavar="N", help="Traces: number of hosts.")
@click.option(
    "--machines", type=click.Path(path_type=Path), metavar="FILE", help="openb and swf: file that lists the hosts."
)
@click.option(
    "--arrivals", type=click.Path(path_type=Path), metavar="FILE", help="openb: file with the order of arrivals."
)
@click.option("--faults", metavar="KINDS", help="Inject faults: all, or kinds of faults, comma-separated.")
@click.option(
    "--seeds",
    type=click.IntRange(1, INT_MAX),
    metavar="N",
    help="Under faults: number of seeds to try, starting at --seed.",
)
@click.option("--for", "seconds", type=Duration(), help="Under faults: try new seeds for this long.")
@click.option(
    "--again",
    "failing",
    type=Target(),
    default=Path("failing.yaml"),
    show_default=True,
    metavar="FILE",
    help="Under faults: file to write a minimal failing scenario to.",
)
def simulate(
    scenario: str | None,
    seed: int | None,
    until: float | None,
    data: Path | None,
    out: Path | None,
    as_json: bool,
    schema: bool,
    trace: Path | None,
    form: str | None,
    jobs: int | None,
    hosts: int | None,
    machines: Path | None,
    arrivals: Path | None,
    faults: str | None,
    seeds: int | None,
    seconds: float | None,
    failing: Path,
) -> int:
    """Run a cell in virtual time: a scenario with simulated hosts, users and faults, or a trace of jobs.

    The machines are the real ones; time jumps from one event to the next. The same scenario and seed give the same
    log, byte for byte. Exits with 1 if an expectation of the scenario doesn't hold.
    """
    from paceline.simulate import play, session, traces
    from paceline.simulate.scenario.parse import read_scenario
    from paceline.simulate.scenario.scenario import json_schema

    parameters = _given()
    if faults is not None:
        _refuse({name: parameters[name] for name in parameters if name not in UNDER_FAULTS}, "not with --faults")
        return _soak(scenario, faults, seed, seeds, seconds, failing)
    _refuse({name: parameters[name] for name in parameters if name in ONLY_UNDER_FAULTS}, "only with --faults")
    if schema:
        _refuse({name: parameters[name] for name in parameters if name != "schema"}, "not with --schema")
        say(json.dumps(json_schema(), indent=2))
        return 0
    if (scenario is None) is (trace is None) or (trace is None) is not (form is None):
        raise click.UsageError("name a scenario, or a trace with --trace FILE --format FORM")
    if trace is None:
        _refuse({name: parameters[name] for name in parameters if name in ONLY_TRACES}, "only with --trace")
    else:
        _refuse_of_traces(parameters, str(form), machines is not None)
    options = session.RunOptions(data=data, out=out, until_ms=None if until is None else round(until * 1000))
    if trace is not None:
        trace_options = traces.TraceOptions(
            trace, str(form), hosts, jobs, machines, arrivals, 42 if seed is None else seed
        )
        observers = traces.session(trace_options, options)
    else:
        read = read_scenario(str(scenario))
        rerun_command = f"paceline simulate {shlex.quote(str(scenario))}"
        if seed is not None:
            read, rerun_command = read.model_copy(update={"seed": seed}), f"{rerun_command} --seed {seed}"
        observers = session.of_scenario(read, rerun_command, options, Path(str(scenario)).stem)
    return play.play(observers, as_json)


def _given() -> dict[str, str]:
    """The parameters on the command line: the name of each and how it is written."""
    context = click.get_current_context()
    names = {each.name: each.opts[0] for each in context.command.params if each.name}
    return {name: names[name] for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _refuse(parameters: dict[str, str], why: str) -> None:
    """Refuses options that would do nothing, or nothing of what is asked."""
    if parameters:
        raise click.UsageError(f"{why}: {', '.join(parameters.values())}")


def _refuse_of_traces(parameters: dict[str, str], form: str, machines: bool) -> None:
    """Refuses what a form of traces has no use for."""
    if machines:
        _refuse(
            {name: parameters[name] for name in parameters if name == "hosts"},
            "not with --machines, which names the hosts",
        )
    if form != "openb":
        _refuse({name: parameters[name] for name in parameters if name in ONLY_OPENB}, "only with --format openb")
    elif "arrivals" not in parameters:
        _refuse(
            {name: parameters[name] for name in parameters if name == "seed"}, "only with --arrivals, orders by seed"
        )
    if form not in ("openb", "swf"):
        _refuse(
            {name: parameters[name] for name in parameters if name == "machines"}, "only with --format openb or swf"
        )


def _soak(
    source: str | None, faults: str, seed: int | None, seeds: int | None, seconds: float | None, rerun_command: Path
) -> int:
    """A scenario, or drawn ones, under faults."""
    from paceline.simulate.faults.injection import CHANCE, KINDS
    from paceline.simulate.faults.soak import soak
    from paceline.simulate.scenario.parse import read_scenario

    requested = [name.strip() for name in faults.split(",")]
    if unknown := [name for name in requested if name not in (*CHANCE, "all")]:
        raise click.UsageError(
            f"there are no faults called {', '.join(unknown)}; there are {', '.join(CHANCE)}, or all"
        )
    kinds = [kind for kind in CHANCE if kind in requested or ("all" in requested and kind in KINDS)]
    if seeds is not None and seconds is not None:
        raise click.UsageError("name --seeds or --for, not both")
    read = None if source is None else read_scenario(source)
    scenario_kinds = dict.fromkeys(each.kind for each in (read.faults if read else None) or ())
    if "all" not in requested and (left_out := [kind for kind in scenario_kinds if kind not in requested]):
        raise click.UsageError(f"the scenario names faults that --faults leaves out: {', '.join(left_out)}")
    if read is not None and read.expect:
        note("what the scenario expects isn't looked at under faults: docs/simulate.md says why")
    first = seed if seed is not None else read.seed if read is not None else 0
    if seconds is not None and seed is None:
        first = secrets.randbelow(1 << 30)
        note(f"seeds from {first} on: with --seed {first} they are the same again")
    if seconds is None:
        return soak(read, kinds, range(first, first + (seeds or 1)), math.inf, rerun_command)
    return soak(read, kinds, count(first), seconds, rerun_command)
