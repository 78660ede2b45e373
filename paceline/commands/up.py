"""`paceline up`: run a cell in this process."""

from pathlib import Path
from typing import Any

import click

from paceline.commands.common import data_option, examples, kafka_options


@click.command(
    epilog=examples(
        "paceline up",
        "paceline up --sim-hosts 1000 --data /tmp/lab",
        "paceline up --kafka broker:9092",
        "paceline up --kafka broker:9092 --cell 1 --data /var/lib/paceline-1",
    )
)
@data_option
@click.option("--listen", metavar="HOST:PORT", help="Address of the API. [default: 127.0.0.1:7117]")
@kafka_options
@click.option("--cell", type=click.IntRange(0), metavar="N", help="Which cell on Kafka: its partition. [default: 0]")
@click.option("--sim-hosts", type=click.IntRange(0), metavar="N", help="Simulate so many hosts.")
@click.option(
    "--agent/--no-agent", default=None, help="An agent of this machine. [default: unless hosts are simulated]"
)
def up(
    data: Path | None,
    config: Path | None,
    listen: str | None,
    kafka: dict[str, Any],
    cell: int | None,
    sim_hosts: int | None,
    agent: bool | None,
) -> int:
    """Run a cell in this process: processors, views, API, gateway, and an agent of this machine.

    Everything is kept in the data folder. Ctrl-C ends the cell; tasks go on, and the next `paceline up` finds them.
    """
    from paceline.settings import for_up, load

    given = {"listen": listen, "sim_hosts": sim_hosts, "agent": agent}
    part: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings = for_up(load(config, data=data, **kafka, cell=cell, up=part))
    from paceline.up import run_up

    return run_up(settings)
