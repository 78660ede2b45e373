"""`paceline down`: end the cell that runs on a data folder."""

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import Duration, data_option, examples
from paceline.output import note, say

if TYPE_CHECKING:
    from paceline.client.cell_file import RunningCell

POLL_S = 0.05
ANSWER_S = 5.0
STOP_S = 60.0


@click.command(epilog=examples("paceline down", "paceline down --stop-runs --agent-folder /var/lib/agent"))
@data_option
@click.option("--stop-runs", is_flag=True, help="Also end the tasks that run on this machine.")
@click.option(
    "--agent-folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the agent. [default: DATA-agent]",
)
@click.option("--timeout", type=Duration(), default="60s", show_default=True, help="How long to wait for the end.")
def down(data: Path | None, config: Path | None, stop_runs: bool, agent_folder: Path | None, timeout: float) -> None:
    """Stop the cell that runs on a data folder. Tasks keep running unless --stop-runs is given."""
    from paceline.client import cell_file
    from paceline.services.data_folder import agent_folder as default_agent_folder
    from paceline.services.settings import load

    folder = load(config, data=data).data
    running = cell_file.read(folder)
    if running is None or not running.alive:
        note(f"no cell runs on {folder}")
    else:
        _end(folder, running, timeout)
        say(f"the cell on {folder} has ended")
    if stop_runs:
        _stop_runs(agent_folder or default_agent_folder(folder, None))


def _end(folder: Path, running: "RunningCell", timeout: float) -> None:
    """Ends the process of a cell, once it is clear that it is one: a number may belong to another by now."""
    from paceline.client.client import Client
    from paceline.client.errors import PacelineError, TimedOut

    try:
        with Client(data=folder, timeout=ANSWER_S) as client:
            client.cell()
    except PacelineError as error:
        raise PacelineError(
            f"Process {running.pid} is there, but no cell answers at {running.listen}. "
            f"If it is the cell of {folder}, end it with `kill {running.pid}`; if not, remove {folder}/cell.json."
        ) from error
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while running.alive:
        if time.monotonic() > deadline:
            raise TimedOut(f"Process {running.pid} has not ended after {timeout:g} s; it was told to.")
        time.sleep(POLL_S)


def _stop_runs(folder: Path) -> None:
    from hostagent.runs import stop_all
    from paceline.client.errors import TimedOut

    if not folder.is_dir():
        note(f"no agent has run in {folder}")
        return
    stopped, still_running = stop_all(folder, STOP_S)
    say(f"{stopped} runs have ended")
    if still_running:
        raise TimedOut(f"{still_running} runs have not ended after {STOP_S:g} s; they were told to.")
