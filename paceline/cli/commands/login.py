"""`paceline login`: sign in at the issuer of a cell."""

from pathlib import Path

import click

from paceline.cli.commands.common import ca_option, data_option, examples
from paceline.cli.reach import reach
from paceline.output import note, say

server_option = click.option(
    "--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]"
)


@click.command(epilog=examples("paceline login --server https://cell.example.org"))
@server_option
@ca_option
@data_option
def login(server: str | None, ca: Path | None, data: Path | None, config: Path | None) -> None:
    """Sign in at the issuer of a cell, in a browser on any machine.

    Commands then use that sign-in where no other token is given; it is renewed until the issuer ends it, or `paceline
    logout`. It is kept in the folder sign-ins of the data folder.
    """
    from paceline.client import sign_ins
    from paceline.client.client import Client
    from paceline.client.device_flow import IssuerUnreachable, Refusal, sign_in
    from paceline.client.errors import PacelineError, Unreachable
    from paceline.client.signed_in import may_be_shown_to

    there = reach(config, server, None, data, ca)
    with Client(there.server, "", there.data, ca=there.ca) as client:
        place, info = client.server, client.sign_in()
    if not info.get("issuer"):  # who answers may be anybody
        raise PacelineError(
            f"The cell at {place} has no issuer to sign in at: use a token (--token). Its operator can name one: "
            "`paceline up --oidc-issuer URL --oidc-client-id ID`."
        )
    if not info.get("client_id"):
        raise PacelineError(f"The cell at {place} has no public client at {info['issuer']}: use a token (--token).")
    if not may_be_shown_to(place):
        raise PacelineError(f"{place} has no HTTPS, and is on another machine: a sign-in could be read on the way.")
    try:
        signed_in = sign_in(info["issuer"], info["client_id"], info["scopes"], _show)
    except Refusal as refusal:
        raise PacelineError(f"The issuer {info['issuer']} did not sign you in: {refusal}.") from refusal
    except IssuerUnreachable as error:
        raise Unreachable(f"The issuer {info['issuer']} can't be asked: {error}.") from error
    with Client(place, signed_in.token, there.data, ca=there.ca) as client:
        client.cell()  # a token that the cell refuses is not kept
    sign_ins.keep(sign_ins.file_of(there.data, place), signed_in)
    claims = signed_in.claims
    name = next((claims[each] for each in ("preferred_username", "email", "sub") if claims.get(each)), "")
    say(f"signed in at {place} as {name}")


def _show(address: str, code: str) -> None:
    note(f"open {address} in a browser" + (f", and enter the code {code}" if code else ""))
