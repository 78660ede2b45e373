"""`paceline volume`: look at the folders that hosts keep for tasks; remove them."""

import sys
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from paceline.cli.commands.common import (
    DECIDED_S,
    at_option,
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.groups import CommandGroup
from paceline.client.errors import NotFound
from paceline.output import Column, TableOptions, answers, show, table, when

if TYPE_CHECKING:
    from paceline.client.client import Client

HOST = click.option(
    "--host", "host_id", default="", metavar="ID", help="Only on this host.", shell_complete=complete("host")
)
COLUMNS = [
    Column("HOST", lambda each: each["host_id"]),
    Column("JOB", lambda each: each["job_id"]),
    Column("TASK", lambda each: each["instance"], right=True),
    Column("NAME", lambda each: each["name"]),
    Column("CREATED", lambda each: when(each["created_at"]), order=lambda each: each["created_at"]),
]


@click.group(cls=CommandGroup)
def volume() -> None:
    """Inspect and remove the volumes of stateful jobs."""


@volume.command("list", epilog=examples("paceline volume list", "paceline volume list --job db"))
@click.option("--job", "job_id", default="", metavar="ID", help="Only of this job.", shell_complete=complete("job"))
@HOST
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", job_id: str, host_id: str, form: str, shape: TableOptions) -> None:
    """List the volumes that hosts keep, of deleted jobs too."""
    volumes = list(client.volumes(job_id, host_id))
    body = {"volumes": volumes, "next_page_token": ""}
    show(form, body, map(_named, volumes), lambda: table(volumes, [*COLUMNS, *cell_column(volumes)], shape))


@volume.command(epilog=examples("paceline volume remove db --yes", "paceline volume remove db --task 3 --name data"))
@click.argument("job_id", metavar="JOB", shell_complete=complete("job"))
@click.option(
    "--task", "instance", type=click.IntRange(0, INT_MAX), metavar="N", help="Only of this task. [default: all]"
)
@click.option("--name", default="", help="Only of this name. [default: all]")
@HOST
@click.option("--reason", default="", help="Reason, recorded in the log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
@cell_option
@with_client
def remove(
    client: "Client",
    job_id: str,
    instance: int | None,
    name: str,
    host_id: str,
    reason: str,
    yes: bool,
    form: str,
) -> None:
    """Remove volumes of a job, with all data in them.

    A volume is kept until it is removed here, also when its job is deleted. It can't be removed while its task is to
    find it on that host: delete the job first, or remove the task from it by an update. A host that is not connected
    removes it when it connects.
    """
    volumes = [
        each
        for each in client.volumes(job_id, host_id)
        if instance in (None, each["instance"]) and name in ("", each["name"])
    ]
    if not volumes:
        raise NotFound(404, {"code": "NOT_FOUND", "detail": f"no host has such a volume of job {job_id}"})
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"the data in {len(volumes)} volumes would be lost: say so with --yes")
        click.confirm(f"Remove {len(volumes)} volumes with all data in them?", abort=True, err=True)
    with answers(form, len(volumes)) as add:
        for each in volumes:
            place = (each["host_id"], each["job_id"], each["instance"], each["name"])
            answer = client.remove_volume(*place, reason, wait=DECIDED_S)
            line = f"{_named(each)}: {answer.get('message') or 'the request is recorded'}"
            add({**each, **answer}, _named(each), line)


def _named(volume: Any) -> str:
    return f"{volume['job_id']}/{volume['instance']} {volume['name']} on {volume['host_id']}"
