"""`paceline gateway`: serve the agents of a cell."""

from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import examples
from paceline.cli.commands.process_options import service_command

if TYPE_CHECKING:
    from paceline.services.settings import Settings


def _sim_hosts(ctx: click.Context, param: click.Parameter, flags: int | None) -> dict[str, Any] | None:
    return {"sim_hosts": flags} if flags is not None else None


@click.command(
    epilog=examples(
        "paceline gateway --kafka broker:9092 --data /var/lib/paceline",
        "paceline gateway --cell 1 --listen 127.0.0.1:7128 --name gateway-1",
    )
)
@click.option("--cell", type=click.IntRange(0), metavar="N", help="The cell. [default: 0]")
@click.option(
    "--sim-hosts",
    "service",
    type=click.IntRange(0),
    metavar="N",
    callback=_sim_hosts,
    help="Simulate so many hosts in this process.",
)
@service_command
def gateway(settings: "Settings") -> int:
    """Serve the agents of one cell: orders to them, what they report into the log.

    Several may serve the same cell, each with a name and a folder of its own; an agent goes to another when its own
    dies. It serves when it has read the log up to its end. SIGTERM ends it cleanly.
    """
    from paceline.services.gateway import run

    return run(settings)
