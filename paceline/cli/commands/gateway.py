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
@click.option("--cell", type=click.IntRange(0), metavar="N", help="Cell number. [default: 0]")
@click.option(
    "--sim-hosts",
    "service",
    type=click.IntRange(0),
    metavar="N",
    callback=_sim_hosts,
    help="Number of hosts to simulate in this process.",
)
@service_command
def gateway(settings: "Settings") -> int:
    """Serve the agents of one cell: send them orders, and append their reports to the log.

    Several gateways may serve the same cell, each with its own name and folder; an agent fails over to another gateway.
    A gateway serves once it has read the log to its end. SIGTERM ends it cleanly.
    """
    from paceline.services.gateway import run

    return run(settings)
