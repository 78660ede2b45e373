"""`paceline fanout`: publish decisions for foreign readers."""

from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import examples
from paceline.cli.commands.process_options import service_command

if TYPE_CHECKING:
    from paceline.services.settings import Settings


@click.command(epilog=examples("paceline fanout --kafka broker:9092 --data /var/lib/paceline"))
@service_command
def fanout(settings: "Settings") -> int:
    """Publish each decision as one Avro message of its own type, in topics for other systems.

    The topics are paceline.placements, preemptions, admissions, job-states, task-states and quarantine. A restart
    repeats at most the last round; each message carries an id. SIGTERM ends it cleanly.
    """
    from paceline.services.fanout import run

    return run(settings)
