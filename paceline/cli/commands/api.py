"""`paceline api`: serve the HTTP API."""

from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import examples
from paceline.cli.commands.process_options import service_command

if TYPE_CHECKING:
    from paceline.services.settings import Settings


def _addresses(ctx: click.Context, param: click.Parameter, flags: tuple[str, ...]) -> dict[str, Any] | None:
    return {"gateways": flags} if flags else None


@click.command(epilog=examples("paceline api --kafka broker:9092 --gateway http://127.0.0.1:7118"))
@click.option(
    "--gateway",
    "service",
    multiple=True,
    metavar="ADDRESS",
    callback=_addresses,
    help="Gateway to fetch the output of runs from; may be repeated.",
)
@service_command
def api(settings: "Settings") -> int:
    """Serve the HTTP API of all cells from the views that `paceline projector` keeps in the same data folder.

    Any number may run side by side. Writes go to the log of the cell that a pool belongs to.
    """
    from paceline.services.api import run_api

    return run_api(settings)
