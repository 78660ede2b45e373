"""`paceline job explain`: why a job is where it is, now or as it was."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    cell_option,
    client_of,
    complete,
    data_option,
    examples,
    job_ids,
    kafka_options,
    output_option,
    zone_option,
)
from paceline.cli.commands.job_views import print_explanation
from paceline.output import note, show

if TYPE_CHECKING:
    from paceline.services.settings import Settings


@click.command(
    epilog=examples(
        "paceline job explain tiles-1f0c",
        "paceline job explain tiles-1f0c -o json",
        "paceline job explain tiles-1f0c --at paceline.lifecycle:57 --utc",
    )
)
@click.argument("job_id", metavar="ID", shell_complete=complete(job_ids))
@click.option(
    "--at", "position", metavar="POSITION", help="Explain as of this log position, such as paceline.lifecycle:57."
)
@click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
@click.option("--token", metavar="TOKEN", help="Token for writes. [default: the one in the data folder]")
@data_option
@kafka_options
@zone_option
@output_option
@cell_option
def explain(
    job_id: str,
    position: str | None,
    server: str | None,
    token: str | None,
    data: Path | None,
    config: Path | None,
    kafka: dict[str, Any],
    zone: str,
    form: str,
    cell: int | None,
) -> None:
    """Explain why a job is in its state, and who can change it.

    With --at, explain the job as of the moment the record at that position was appended, including all records of the
    same millisecond. The state is rebuilt from the log in the data folder, or on Kafka where --kafka or the settings
    name it, and from its archive if needed; no cell needs to run.
    """
    from paceline.services.settings import load

    if position is None and any(kafka.values()):
        raise click.UsageError("--kafka is where the log is: name a position with --at")
    if position is None:
        settings = load(config, server=server, token=token, data=data)
        with client_of(settings, cell) as client:
            body: Any = client.explanation(job_id)
    else:
        body = _as_it_was(load(config, data=data, cell=cell, **kafka), job_id, position)
    headline = body["headline"]
    show(form, body, [headline["code"]] if headline else [], lambda: print_explanation(body, zone))


def _as_it_was(settings: "Settings", job_id: str, position: str) -> dict[str, Any]:
    """The explanation at a position."""
    from paceline.client.errors import PacelineError
    from paceline.history.importer import history_in
    from paceline.history.open_log import open_log
    from paceline.history.views_at import NoSuchJob, views_at
    from paceline.moments.log_cut import closed, read_position, up_to, write_time
    from projections.queries import entities

    topic, offset = read_position(position)
    log = open_log(settings)
    try:
        cut = closed(log, up_to(log, topic, offset))
        at_ms = next(log.scan(topic, offset)).at_ms
        stretch = history_in(settings)
        if stretch is not None and at_ms < stretch.from_ms:  # it is there because a machine had not read it yet
            begins = write_time(stretch.from_ms)
            raise PacelineError(f"{topic}:{offset} is before the start of this log range, {begins}.")
        with TemporaryDirectory(prefix="paceline-explain-") as folder:
            views = views_at(log, cut, settings.data, Path(folder))
            with views.read() as connection:
                row = entities.job_row(connection, job_id)
                body = entities.explanation(connection, row) if row else None
            views.engine.dispose()
    finally:
        log.close()
    if body is None:
        raise NoSuchJob(f"There was no job {job_id} at {topic}:{offset}, {write_time(at_ms)}.")
    note(f"as it was at {topic}:{offset}, {write_time(at_ms)}")
    return body
