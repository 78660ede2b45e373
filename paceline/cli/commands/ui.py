"""`paceline ui`: open the pages of a cell in a browser."""

from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import examples, with_client
from paceline.output import note, say

if TYPE_CHECKING:
    from paceline.client.client import Client


@click.command(epilog=examples("paceline ui", "paceline ui --server https://cell.example --no-open"))
@click.option("--open/--no-open", "open_", default=True, help="Open it in a browser.  [default: open]")
@with_client
def ui(client: "Client", open_: bool) -> None:
    """Print the address of the web UI of a cell, and open it in a browser.

    Reading needs no sign-in; to change something, sign in with the token of the cell, which stands in the file `token`
    of its data folder.
    """
    import webbrowser

    address = f"{client.server}/ui/"
    say(address)
    if open_ and not webbrowser.open(address):
        note("no browser was found; open the address in one")
