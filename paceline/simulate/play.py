"""Runs a session to its end: shows progress, writes and prints the report, returns the exit code."""

import json
import sys
import time
from pathlib import Path

import click

from events.log.port import Log
from paceline.output import live, span
from paceline.simulate.report import terminal
from paceline.simulate.report.results import write_series
from paceline.simulate.session import Session
from paceline.simulate.world.run import Run

BAR_S = 0.1
"""Seconds between refreshes of the progress bar."""


def play(session: Session, as_json: bool) -> int:
    """Runs a session to its end and tells of it; returns the exit code."""
    run, options = session.run, session.options
    _run_with_progress(session)
    session.finish()
    if options.out is not None:
        from paceline.simulate.report.html import write_report

        write_series(session.series.samples, session.jobs, options.out)
        (options.out / "summary.json").write_text(json.dumps(session.body(), indent=2) + "\n")
        write_report(session, options.out / "report.html")
    if as_json:
        click.echo(json.dumps(session.body(), indent=2))
    else:
        terminal.summary(session)
    if options.data is not None:
        _keep_views(run.cell.log, options.data)
    run.cell.close()
    return 1 if session.failed() else 0


def _run_with_progress(session: Session) -> None:
    """Runs, with a bar of virtual time where somebody looks."""
    if not live(sys.stderr):
        session.run.run_to_end()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status_text]}"))
    # without its thread for refreshing: the cell has one thread only
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        bar, drawn_at = progress.add_task(session.name, total=None, status_text=""), 0.0

        def on_moment(run: Run) -> None:
            nonlocal drawn_at
            if time.monotonic() - drawn_at < BAR_S:
                return
            drawn_at = time.monotonic()
            status_text = f"{span(run.now_ms / 1000)} of virtual time, {run.cell.log.appended:,} records"
            progress.update(bar, status_text=status_text, total=run.ahead_ms(), completed=run.now_ms, refresh=True)

        session.run.run_to_end(on_moment)


def _keep_views(log: Log, data: Path) -> None:
    """The views of the log, as `paceline up` on the folder would make them."""
    from projections.views.projector import rebuild

    rebuild(log, data).dispose()
