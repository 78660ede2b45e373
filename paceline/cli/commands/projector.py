"""`paceline projector`: keep the views."""

from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import examples
from paceline.cli.commands.process_options import service_command

if TYPE_CHECKING:
    from paceline.services.settings import Settings


@click.command(epilog=examples("paceline projector --kafka broker:9092 --data /var/lib/paceline"))
@service_command
def projector(settings: "Settings") -> int:
    """Maintain the views of all cells in the data folder, for the API servers of this machine.

    It continues from the position stored with the views; lost views are rebuilt from the log. SIGTERM ends it cleanly.
    """
    from paceline.services.projector import run_projector

    return run_projector(settings)
