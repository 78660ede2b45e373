"""`paceline admin`: look after a cell."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.commands.common import data_option, examples, kafka_options
from paceline.output import note

if TYPE_CHECKING:
    from events.log import Log

VIEWS = "views.sqlite"
SAY_EVERY_S = 1.0


@click.group()
def admin() -> None:
    """Look after a cell."""


@admin.command(epilog=examples("paceline down && paceline admin rebuild && paceline up"))
@data_option
@kafka_options
def rebuild(data: Path | None, config: Path | None, kafka: dict[str, Any]) -> None:
    """Make the views of a cell that does not run anew from its log.

    The present views stay in place until the new ones are whole.
    """
    from paceline import running
    from paceline.errors import PacelineError
    from paceline.settings import load
    from paceline.verify import open_log

    settings = load(config, data=data, **kafka)
    found = running.read(settings.data)
    if found is not None and found.alive:
        raise PacelineError(f"A cell runs on {settings.data}. End it first with `paceline down`.")
    opened = open_log(settings)
    try:
        records = _rebuild(opened, settings.data)
    finally:
        opened.close()
    click.echo(f"the views of {settings.data} are new, from {records} records")


def _rebuild(opened: "Log", data: Path) -> int:
    """Folds the log into views in a folder of their own, then puts them in place; returns how many records."""
    from events.topics import ALL
    from projections.projector import rebuild

    beside = data / "rebuild"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    ends = sum(opened.bounds(topic.name)[1] for topic in ALL)
    said = time.monotonic()

    def progress(records: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            note(f"{records} of {ends} records")

    rebuild(opened, beside, progress).dispose()
    for old in data.glob(f"{VIEWS}-*"):
        old.unlink()
    (beside / VIEWS).replace(data / VIEWS)
    shutil.rmtree(beside)
    return ends
