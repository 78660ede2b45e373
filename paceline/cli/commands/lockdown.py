"""`paceline cell lockdown` and `paceline pool lockdown`."""

from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import DECIDED_S, cell_option, complete, examples, output_option, with_client
from paceline.output import say, show

if TYPE_CHECKING:
    from paceline.client.client import Client

END = click.option("--end", is_flag=True, help="End the lockdown.")
REASON = click.option("--reason", default="", help="Reason, which all see whose writes are refused; recorded.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only check it; nothing is written.")


@click.command(
    epilog=examples("paceline cell lockdown --reason 'stolen token'", "paceline cell lockdown --end --reason 'revoked'")
)
@REASON
@END
@DRY_RUN
@output_option
@cell_option
@with_client
def of_cell(client: "Client", reason: str, end: bool, dry_run: bool, form: str) -> None:
    """Lock the cell down: only operators may write."""
    _lock(client, "/", reason, end, dry_run, form)


@click.command(epilog=examples("paceline pool lockdown /maps --reason 'audit'", "paceline pool lockdown /maps --end"))
@click.argument("path", metavar="POOL", shell_complete=complete("pool"))
@REASON
@END
@DRY_RUN
@output_option
@cell_option
@with_client
def of_pool(client: "Client", path: str, reason: str, end: bool, dry_run: bool, form: str) -> None:
    """Lock a pool down, with all below it: only operators may write there."""
    _lock(client, path, reason, end, dry_run, form)


def _lock(client: "Client", pool: str, reason: str, end: bool, dry_run: bool, form: str) -> None:
    if not end and not reason.strip():
        raise click.UsageError("say why with --reason: all see it whose writes are refused")
    write = client.end_lockdown if end else client.lock_down
    answer = write(pool, reason, DECIDED_S, dry_run)
    what = "cell" if pool == "/" else f"pool {pool}"
    text = f"{what}: the lockdown has ended" if end else f"{what} is locked down"
    show(form, answer, [pool], lambda: say(answer.get("message", "") if dry_run else text))
