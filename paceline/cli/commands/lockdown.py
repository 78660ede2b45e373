"""`paceline cell lockdown` and `paceline pool lockdown`, and how other commands show lockdowns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from events.access import covers
from events.pool_paths import ROOT
from paceline.cli.commands.common import DECIDED_S, cell_option, complete, examples, output_option, with_client
from paceline.client.errors import NotFound
from paceline.output import say, show, when

if TYPE_CHECKING:
    from paceline.client.access_models import PoolLockdown
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
    _lock(client, ROOT, reason, end, dry_run, form)


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
    what = "cell" if pool == ROOT else f"pool {pool}"
    text = f"{what}: the lockdown has ended" if end else f"{what} is locked down"
    show(form, answer, [pool], lambda: say(answer.get("message", "") if dry_run else text))


class Lockdowns:
    """The lockdowns of cells, each of which is asked once."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._by_cell: dict[int | None, list[PoolLockdown]] = {}

    def of(self, path: str, cell: int | None = None) -> str:
        """Those that hold for a pool: why, by whom and since when; empty: none. `/` is the cell."""
        return "; ".join(
            words if each["pool"] == path else f"{title}: {words}"
            for each, title, words in self._told(cell)
            if covers(each["pool"], path)
        )

    def all(self) -> list[tuple[str, str]]:
        """All that there are: of what each is, and the same of it."""
        return [(title, words) for _, title, words in self._told(None)]

    def _told(self, cell: int | None) -> "Iterator[tuple[PoolLockdown, str, str]]":
        if cell not in self._by_cell:
            try:
                self._by_cell[cell] = self._client.lockdowns(cell)
            except NotFound:  # a server of 0.3
                self._by_cell[cell] = []
        for each in self._by_cell[cell]:
            what = "the cell" if each["pool"] == ROOT else each["pool"]
            by = f"by {each['actor']['name']}, " if each["actor"] else ""
            why = each["reason"] or "no reason was given"
            yield each, f"lockdown of {what}", f"{why} ({by}{when(each['since'])})"
