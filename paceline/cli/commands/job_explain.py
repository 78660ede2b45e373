"""`paceline job explain`: why a job is where it is, now or as it was."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    at_option,
    cell_option,
    client_of,
    complete,
    data_option,
    examples,
    kafka_options,
    note_moment,
    output_option,
    zone_option,
)
from paceline.cli.commands.job_views import print_explanation
from paceline.cli.commands.waits import print_sums
from paceline.cli.reach import reach
from paceline.client.json_type import Json
from paceline.output import count_ages_to, note, show

if TYPE_CHECKING:
    from paceline.services.settings import Settings


@click.command(
    epilog=examples(
        "paceline job explain tiles-1f0c",
        "paceline job explain tiles-1f0c -o json",
        "paceline job explain tiles-1f0c --ledger",
        "paceline job explain tiles-1f0c --at paceline.lifecycle:57 --utc",
    )
)
@click.argument("job_id", metavar="ID", shell_complete=complete("job"))
@click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
@click.option(
    "--token", metavar="TOKEN", help="Token for writes. [default: without --server, the one in the data folder]"
)
@click.option("--ledger", is_flag=True, help="Show for how long its tasks waited, and for what.")
@data_option
@kafka_options
@zone_option
@output_option
@at_option
@cell_option
def explain(
    job_id: str,
    at: str | None,
    server: str | None,
    token: str | None,
    ledger: bool,
    data: Path | None,
    config: Path | None,
    kafka: Json,
    zone: str,
    form: str,
    cell: int | None,
) -> None:
    """Explain why a job is in its state, and who can change it.

    With --ledger, show the time of all its tasks from their submission to their end: what they waited for, and what of
    their running was kept, or lost to preemption, to lost hosts or to failures of their own.

    With --at, explain the job as of that moment. Where no cell runs, or --kafka names a log, the state is rebuilt from
    the log in the data folder or on Kafka, and from its archive if needed.
    """
    from paceline.client import cell_file

    if at is None and any(kafka.values()):
        raise click.UsageError("--kafka is where the log is: name a moment with --at")
    reached = reach(config, server, token, data)
    body: Any
    if at is None or reached.server or (not any(kafka.values()) and cell_file.read(reached.data)):
        with client_of(reached, cell, at=at) as client:
            body = client.job_ledger(job_id) if ledger else client.explanation(job_id)
            note_moment(client)
    else:
        from paceline.services.settings import load

        settings = load(config, server=server, token=token, data=data, cell=cell, **kafka)
        body = _as_it_was(settings, job_id, at, ledger)
    if ledger:
        show(form, body, [each["code"] for each in body["waiting"]], lambda: print_sums(body))
        return
    headline = body["headline"]
    show(form, body, [headline["code"]] if headline else [], lambda: print_explanation(body, zone))


def _as_it_was(settings: "Settings", job_id: str, at: str, ledger: bool) -> Any:
    """The explanation, or the ledger, as of a moment, from the log. Raises `PacelineError`."""
    from paceline.history.views_at import NoSuchJob, as_it_was
    from projections.queries import entities
    from projections.queries.log_time import newest_ms
    from projections.queries.waits import job_ledger

    body: Any = None
    with as_it_was(settings, at) as then:
        if (row := entities.job_row(then.connection, job_id)) is not None:
            if ledger:
                body = job_ledger(then.connection, row, newest_ms(then.connection))
            else:
                body = entities.explanation(then.connection, row)
    if body is None:
        raise NoSuchJob(f"There was no job {job_id} at {then.moment}, {then.time}.")
    count_ages_to(lambda: then.time)
    note(f"as of {then.moment}, {then.time}")
    return body
