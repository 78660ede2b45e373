"""`paceline admin`: look after a cell."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import data_option, examples, log_options
from paceline.cli.groups import CommandGroup
from paceline.client.json_type import Json
from paceline.output import note, say

if TYPE_CHECKING:
    from events.log.port import Log
    from paceline.services.settings import Settings

VIEWS = "views.sqlite"
NOTE_SECONDS = 1.0


@click.group(cls=CommandGroup)
def admin() -> None:
    """Maintenance commands."""


@admin.command(
    epilog=examples(
        "paceline down && paceline admin rebuild && paceline up",
        "paceline admin rebuild --kafka broker:9092 --cell 1",
    )
)
@data_option
@log_options
def rebuild(data: Path | None, config: Path | None, log: Json) -> None:
    """Rebuild the views of a stopped cell from its log.

    The current views stay in place until the new ones are complete. A `paceline projector` on the same data folder
    must be stopped too.
    """
    from paceline.history.open_log import open_log
    from paceline.services.settings import load

    settings = load(config, data=data, **log)
    _must_not_run(settings)
    of_cell = settings.data / f"cell-{settings.cell}"
    folder = of_cell if settings.kafka and of_cell.is_dir() else settings.data
    opened = open_log(settings)
    try:
        records = _rebuild(opened, folder)
    finally:
        opened.close()
    say(f"the views of {folder} are new, from {records} records")


def _must_not_run(settings: "Settings") -> None:
    """Refuses while somebody writes those views."""
    from paceline.client import cell_file
    from paceline.client.errors import PacelineError

    running = cell_file.read(settings.data)
    if running is not None and running.alive:
        raise PacelineError(f"A cell runs on {settings.data}. End it first with `paceline down`.")
    if not settings.kafka:
        return
    from events.log.kafka.groups import groups
    from paceline.services.processes import group_of
    from paceline.services.startup import instance_of

    name = group_of("projector", instance_of(settings.data))
    members = [
        member
        for group in groups(settings.kafka, name.__eq__, settings.kafka_options).values()
        for member in group.members
    ]
    if members:
        raise PacelineError(f"A projector keeps the views in {settings.data}: {members[0]}. Stop it first.")


def _rebuild(opened: "Log", data: Path) -> int:
    """Folds the log into views in a folder of their own, then puts them in place; returns how many records."""
    from events.topics import VIEWED
    from projections.views.projector import rebuild

    new_folder = data / "rebuild"
    shutil.rmtree(new_folder, ignore_errors=True)
    new_folder.mkdir()
    ends = sum(opened.ends(topic.name for topic in VIEWED).values())
    last_note_s = time.monotonic()

    def progress(records: int) -> None:
        nonlocal last_note_s
        if time.monotonic() - last_note_s > NOTE_SECONDS:
            last_note_s = time.monotonic()
            note(f"{records} of {ends} records")

    rebuild(opened, new_folder, progress).dispose()
    for old in data.glob(f"{VIEWS}-*"):
        old.unlink()
    (new_folder / VIEWS).replace(data / VIEWS)
    shutil.rmtree(new_folder)
    return ends
