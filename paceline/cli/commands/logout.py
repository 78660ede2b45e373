"""`paceline logout`: forget the sign-in at a cell."""

from pathlib import Path

import click

from paceline.cli.commands.common import data_option, examples
from paceline.cli.commands.login import server_option
from paceline.cli.reach import reach
from paceline.output import note, say


@click.command(epilog=examples("paceline logout --server https://cell.example.org"))
@server_option
@data_option
def logout(server: str | None, data: Path | None, config: Path | None) -> None:
    """Forget the sign-in at a cell. It is not asked for that, and the issuer isn't either."""
    from paceline.client import cell_file, sign_ins
    from paceline.client.checked_values import server_url
    from paceline.client.errors import PacelineError

    there = reach(config, server, None, data)
    running = cell_file.read(there.data)
    address = there.server or (running.listen if running else "")
    if not address:
        raise PacelineError(f"No cell runs on {there.data}: name the cell with --server.")
    place = server_url(address)
    if sign_ins.forget(sign_ins.file_of(there.data, place)):
        say(f"signed out of {place}")
    else:
        note(f"nobody is signed in at {place}")
