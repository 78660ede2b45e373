"""`paceline up`: run a cell in this process."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from paceline.cli.commands.common import data_option, examples, kafka_options
from paceline.cli.commands.process_options import (
    HARDWARE_OPTIONS,
    OIDC_OPTIONS,
    SIGNING_KEYS,
    TLS_OPTIONS,
    settings_flags,
    with_options,
)

if TYPE_CHECKING:
    from paceline.services.settings import UpSettings


more_options = partial(with_options, options=(*HARDWARE_OPTIONS, SIGNING_KEYS, *TLS_OPTIONS, *OIDC_OPTIONS))


@click.command(
    epilog=examples(
        "paceline up",
        "paceline up --sim-hosts 1000 --data /tmp/lab",
        "paceline up --kafka broker:9092",
        "paceline up --kafka broker:9092 --cell 1 --data /var/lib/paceline-1",
        "paceline up --history outage.avro --read-only",
    )
)
@data_option
@click.option("--listen", "up__listen", metavar="HOST:PORT", help="Address of the API. [default: 127.0.0.1:7117]")
@kafka_options
@click.option(
    "--cell",
    type=click.IntRange(0, INT_MAX),
    metavar="N",
    help="Number of the cell, its partition on Kafka. [default: 0]",
)
@click.option(
    "--sim-hosts", "up__sim_hosts", type=click.IntRange(0, INT_MAX), metavar="N", help="Number of simulated hosts."
)
@click.option(
    "--agent/--no-agent",
    "up__agent",
    default=None,
    help="Run an agent for this machine. [default: unless hosts are simulated]",
)
@click.option(
    "--run-as",
    "agent__run_as",
    metavar="USER",
    help="User to run tasks as, auto:FIRST-LAST for one per job; needs root. [default: the user of this process]",
)
@click.option(
    "--isolation",
    "agent__isolation",
    type=click.Choice(["auto", "none", "cgroup"]),
    help="Least that keeps runs apart; cgroup limits memory, CPU and processes. [default: cgroup with --run-as]",
)
@more_options
@click.option("--history", type=click.Path(path_type=Path), metavar="FILE", help="Serve this exported log range.")
@click.option(
    "--read-only", is_flag=True, help="Serve an exported log range; no scheduling takes place, commands are refused."
)
def up(config: Path | None, kafka: dict[str, Any], history: Path | None, read_only: bool, **options: Any) -> int:
    """Run a cell in this process: processors, views, API, gateway, and an agent of this machine.

    Everything is kept in the data folder. Ctrl-C ends the cell; tasks keep running, and the next `paceline up` adopts
    them.

    With --read-only, serve the views as of the end of an exported log range: either of --history FILE, which `paceline
    log export` wrote, or of the folder --data DIR, which `paceline log import` wrote.
    """
    from paceline.history.start_state import is_history
    from paceline.services.settings import for_up, load

    flags = {**kafka, **options}
    settings = for_up(load(config, **settings_flags(flags)))
    if history is not None and not read_only:
        raise click.UsageError("history takes no commands: give --read-only beside --history")
    if read_only:
        of_cell = {"--sim-hosts": "up__sim_hosts", "--agent": "up__agent", "--cell": "cell", "--kafka": "kafka"}
        unused = [flag for flag, name in of_cell.items() if flags[name] is not None]
        if history and flags["data"]:
            raise click.UsageError("--history shows a file, --data what `paceline log import` wrote: give one of them")
        if unused:
            raise click.UsageError(f"history is only shown: there is no use for {', '.join(unused)}")
        return _show(history, settings)
    if is_history(settings.data):
        raise click.UsageError(f"{settings.data} is an imported log range: add --read-only")
    from paceline.client.cell_file import announced

    with announced(settings.data):
        from paceline.services.up import run_up

        return run_up(settings)


def _show(history: Path | None, settings: "UpSettings") -> int:
    """Serves history as it was."""
    from paceline.history.importer import imported_history
    from paceline.history.read_only_api import serve

    with imported_history(history, settings.data) as data:
        serve(settings.model_copy(update={"data": data or settings.data}))
    return 0
