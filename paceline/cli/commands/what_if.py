"""`paceline what-if`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from events.words import plural
from paceline.cli.commands.common import (
    FOLDER,
    Duration,
    Since,
    data_option,
    ends_by_sigterm,
    examples,
    log_options,
    only_the_file,
    output_option,
)
from paceline.client.json_type import Json
from paceline.output import Column, live, note, say, show, span, table

if TYPE_CHECKING:
    from events.log.port import Log
    from paceline.services.settings import Settings
    from paceline.whatif.branch import Branch
    from paceline.whatif.stretch import Stretch

RUNS_MAX = 1000
LINE_EVERY_S = 5.0
JOBS_SHOWN = 3
ANSWERS_SHOWN = 3


def keeps_1_free(command: Callable[..., int]) -> Callable[..., int]:
    """Wraps a command whose exit code 1 is that a condition holds: what fails has another one, whatever it is."""

    @wraps(command)
    def run(**options: Any) -> int:
        from events.log.port import LogError
        from paceline.cli.main import error_text
        from paceline.client.errors import PacelineError
        from paceline.whatif.stretch import NoHistory, Unanswered

        try:
            return command(**options)
        except (click.ClickException, click.Abort, BrokenPipeError):
            raise
        except (LogError, PacelineError) as error:
            if isinstance(error, PacelineError) and error.exit_code != 1:
                raise
            raise NoHistory(str(error)) from error
        except Exception as error:
            raise Unanswered(error_text(error)[0]) from error

    return run


@click.command(
    epilog=examples(
        "paceline what-if --from -7d --set /maps:share=2",
        "paceline what-if --from -2d --to -1d --set /a:reservation:gpu=4 --out a/",
        "paceline what-if --from -7d --file pools.yaml --fail-if 'cell use < -5%'",
        "paceline what-if --from -24h --set cell:preemption_delay=60s -o json",
    )
)
@click.argument("history", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@data_option
@log_options
@click.option(
    "--from", "start", type=Since(), metavar="TIME", help="Start of the stretch: a time, or -7d. [default: of FILE]"
)
@click.option("--to", "end", type=Since(), metavar="TIME", help="End of the stretch. [default: of FILE, or of the log]")
@click.option(
    "--set", "settings", multiple=True, metavar="PATH:FIELD[:RESOURCE]=VALUE",
    help="What is otherwise: a field of a pool, or cell:NAME=VALUE. May be repeated.",
)  # fmt: skip
@click.option(
    "--file", type=click.Path(path_type=Path), metavar="FILE",
    help="A change file, or pools as `pool apply` takes them.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(1, RUNS_MAX), default=5, show_default=True, metavar="N", help="Pairs of runs."
)
@click.option(
    "--seed", type=click.IntRange(0, INT_MAX), default=1, show_default=True, metavar="N", help="Of the first pair."
)
@click.option(
    "--jitter", type=Duration(), default="50ms", show_default=True, metavar="TIME",
    help="Runs start and end up to so much later than history says, so that pairs tell chance from effect.",
)  # fmt: skip
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="CONDITION",
    help="Exit with 1 if this holds: 'pool /maps mean_wait > +20%'. May be repeated.",
)  # fmt: skip
@click.option(
    "--min-calibration", type=click.FloatRange(0, 1), default=0.8, show_default=True, metavar="SHARE",
    help="Tell no effect if fewer first starts than this come within 60 s of history.",
)  # fmt: skip
@click.option(
    "--resolution", type=Duration(), default="1ms", show_default=True, metavar="TIME",
    help="Runs report at multiples of this: 1s is faster where there are many.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the first pair as data folders again and changed in --out.")
@click.option("--build", metavar="PYTHON", help="Let the Paceline of this interpreter decide the changed side.")
@click.option("--out", type=FOLDER, metavar="DIR", help="Write report.html, report.md and summary.json there.")
@output_option
@ends_by_sigterm()
@keeps_1_free
def what_if(
    history: Path | None,
    data: Path | None,
    config: Path | None,
    log: Json,
    start: str | None,
    end: str | None,
    settings: tuple[str, ...],
    file: Path | None,
    runs: int,
    seed: int,
    jitter: float,
    conditions: tuple[str, ...],
    min_calibration: float,
    resolution: float,
    keep: bool,
    build: str | None,
    out: Path | None,
    form: str,
) -> int:
    """Decide a stretch of history again with something changed.

    Each pair of runs decides it once without the change and once with it, on the recorded facts and lengths of runs.
    The cell may be running; nothing is written to it. FILE is a log range that `paceline log export` wrote.

    Exit codes with --fail-if: 0: none holds; 1: one holds; 3: one can't be told; 2: there is nothing to compare.
    """
    from paceline.history.start_state import start_of
    from paceline.whatif import report
    from paceline.whatif.build_side import SideOrder, elsewhere
    from paceline.whatif.change_file import ReadFile, read_change, whole_change
    from paceline.whatif.compare import compare
    from paceline.whatif.conditions import answers, check, read_condition, worst
    from paceline.whatif.files import check_writable, write
    from paceline.whatif.settings import read_setting
    from paceline.whatif.stretch import read_stretch

    only_the_file(history, data, log)
    if not settings and file is None and build is None:
        raise click.UsageError("say what is otherwise: --set PATH:FIELD=VALUE, --file FILE or --build PYTHON")
    if keep:
        _check_keeping(out, build)
    changes, bounds = [read_setting(each) for each in settings], [read_condition(each) for each in conditions]
    read = read_change(file) if file is not None else ReadFile({}, [])
    if out is not None:
        check_writable(out)
    with _history(history, data, config, log) as (base, opened):
        folder = opened.data
        from_ms, to_ms = _times(history, start, end, base)
        stretch = read_stretch(base, from_ms, to_ms, lambda name: start_of(folder, name))
        change = whole_change(stretch, read, changes)
        check(bounds, stretch, change)
        take = partial(_keep, stretch, folder, out) if keep and out is not None else None
        say_it, unit_ms, jitter_ms = _say(from_ms, to_ms, runs), max(1, round(resolution * 1000)), round(jitter * 1000)
        order = SideOrder.of(opened, base, stretch, settings, file, range(seed, seed + runs), jitter_ms, unit_ms)
        with elsewhere(build, order) as other:
            change = replace(change, lines=[*change.lines, *other.lines])
            done = compare(stretch, change, runs, seed, jitter_ms, say_it, unit_ms, take, other.run)
    verdicts = answers(done, bounds, report.is_calibrated(done, min_calibration))
    body = report.body_of(stretch, change, done, verdicts, min_calibration)
    if out is not None:
        write(body, out)
    show(form, body, change.lines, lambda: print_answer(body))
    if out is not None:
        note(f"{out}: report.html, report.md, summary.json, jobs.csv")
    if keep:
        note(f"look into the branch: paceline up --read-only --data {out}/changed")
    return int(worst(verdicts))


def _times(file: Path | None, start: str | None, end: str | None, log: "Log") -> tuple[int, int]:
    """The start and end of the stretch in milliseconds since 1970: of a file all of it, of a log up to its last record,
    unless they are given.
    """
    from paceline.history.history_file import read
    from paceline.moments.log_cut import read_time, write_time
    from paceline.whatif.stretch import begin_ms, end_ms

    if start is None and file is None:
        raise click.UsageError("say where the stretch starts: --from TIME")
    whole = next(read(file)).fields if file is not None else {}
    from_ms = read_time(start) if start else int(whole["from_ms"])
    to_ms = read_time(end) if end else whole.get("to_ms") or end_ms(log)
    if from_ms < whole.get("from_ms", from_ms):
        raise click.UsageError(f"{file} begins at {write_time(whole['from_ms'])}: --from can't be earlier")
    if from_ms >= to_ms:
        late = f"nothing was recorded since --from: the last record is of {write_time(to_ms)}"
        raise click.UsageError("--from isn't before --to" if end else late)
    if file is None and from_ms < (begins_ms := begin_ms(log)) < to_ms:  # else its figures would be those of no cell
        note(f"history begins at {write_time(begins_ms)}, and so does the stretch")
        return begins_ms, to_ms
    return from_ms, to_ms


@contextmanager
def _history(file: Path | None, data: Path | None, config: Path | None, log: Json) -> "Iterator[tuple[Log, Settings]]":
    """The log that is asked, and the settings that name it."""
    from paceline.history.importer import imported_history
    from paceline.history.open_log import open_log
    from paceline.services.settings import load

    with imported_history(file, data) as folder:
        opened = load(config, data=folder, **log)
        base = open_log(opened)
        try:
            yield base, opened
        finally:
            base.close()


def _check_keeping(out: Path | None, build: str | None) -> None:
    from paceline.whatif.kept import check_room

    if out is None:
        raise click.UsageError("--keep needs --out DIR, where the branches are kept")
    if build:
        raise click.UsageError("--keep is for branches of this build: leave out --build")
    check_room(out)


def _keep(stretch: "Stretch", data: Path, out: Path, branch: "Branch", changed: bool) -> None:
    from paceline.whatif.kept import SIDES
    from paceline.whatif.kept import keep as keep_branch

    keep_branch(stretch, branch, data, out / SIDES[changed])


def _say(from_ms: int, to_ms: int, runs: int) -> Callable[[int, bool, int], None]:
    """Progress on stderr: on a terminal one line that changes."""
    last = [time.monotonic()]
    drawn = live(sys.stderr)

    def say_it(pair: int, changed: bool, at_ms: int) -> None:
        if time.monotonic() - last[0] < (0.2 if drawn else LINE_EVERY_S):
            return
        last[0] = time.monotonic()
        share = (pair + (changed + (at_ms - from_ms) / (to_ms - from_ms)) / 2) / runs
        text = f"pair {pair + 1} of {runs}, {'with' if changed else 'without'} the change: {share:.0%}"
        if drawn:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
        else:
            note(text)

    return say_it


def print_answer(body: Json) -> None:
    """Prints an answer as tables."""
    from datetime import datetime

    from paceline.whatif import report

    if live(sys.stderr):
        sys.stderr.write("\r\033[K")
    seconds = (datetime.fromisoformat(body["to_at"]) - datetime.fromisoformat(body["from_at"])).total_seconds()
    say(f"{'; '.join(body['change'])}, from {body['from_at']} on; {span(seconds)}, {report.pairs_text(body)}")
    say(f"trust    {report.trust_text(body)}")
    say(f"lengths  {report.lengths_text(body)}")
    if guesses := report.guesses_text(body):
        say(f"guessed  {guesses}")
    of_figure = [Column("OF", report.name_of), Column("FIGURE", report.figure_name)]
    verdict = Column("", lambda row: row["verdict"])
    table(report.shown(body), [*of_figure, *_effect_columns(), verdict])
    gains, losses = ([row for row in body["jobs"] if row["effect"] * sign > 0][:JOBS_SHOWN] for sign in (-1, 1))
    if jobs := [*gains, *losses]:
        say("")
        of_job = [Column(name.removesuffix("_id").upper(), itemgetter(name)) for name in ("job_id", "pool", "owner")]
        table(jobs, [*of_job, Column("FIGURE", lambda row: "wait s"), *_effect_columns(), verdict])
    if body["preemptions"]:
        say("")
        of_pools = [Column("PREEMPTED IN", itemgetter("from_pool")), Column("FOR", itemgetter("for_pool"))]
        table(body["preemptions"], [*of_pools, *_effect_columns()])
    if answers := body["answers"]:
        say("")
        say(f"{plural(len(answers), 'answer')} to facts differ:")
        for each in answers[:ANSWERS_SHOWN]:
            say(f"  {report.answer_text(each)}")
    for each in body["conditions"]:
        say(f"{each['condition']}: {each['holds']}")


def _effect_columns() -> list[Column]:
    from paceline.whatif import report

    sides = [Column(name.upper(), _number(name), right=True) for name in report.SIDES]
    return [*sides, Column("EFFECT", report.effect_text, right=True)]


def _number(name: str) -> Callable[[Any], str]:
    from paceline.whatif.report import number

    return lambda row: number(row[name])
