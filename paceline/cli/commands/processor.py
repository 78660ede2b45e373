"""`paceline processor`: run one machine of the cells that its group gives to this process."""

from typing import TYPE_CHECKING

import click

from events.topics import MACHINES
from paceline.cli.commands.common import examples
from paceline.cli.commands.process_options import service_command

if TYPE_CHECKING:
    from paceline.services.settings import Settings


@click.command(
    epilog=examples(
        "paceline processor placement --kafka broker:9092 --data /var/lib/paceline",
        "paceline processor sla --kafka broker:9092 --log-form json",
        "paceline processor lifecycle --show-config",
    )
)
@click.argument("machine", type=click.Choice(MACHINES))
@service_command
def processor(settings: "Settings", machine: str) -> int:
    """Run one state machine (processor): lifecycle, entitlement, placement or sla.

    Any number of processes may run the same machine: their consumer group assigns the cells to them, and reassigns
    those of a process that dies. SIGTERM ends it cleanly.
    """
    from paceline.services.processor import run_processor

    return run_processor(settings, machine)
