"""`paceline job spec`: gives the file of a job back."""

import sys
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import at_option, cell_option, complete, examples, with_client
from paceline.client.json_type import Json
from paceline.output import show, write_yaml

if TYPE_CHECKING:
    from paceline.client.client import Client


@click.command(
    epilog=examples(
        "paceline job spec web > web.yaml",
        "paceline job spec web --all -o json",
        "paceline job spec web --at paceline.jobs:57",
    )
)
@click.argument("job_id", metavar="ID", shell_complete=complete("job"))
@click.option("--all", "everything", is_flag=True, help="With the fields that have their default.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(("yaml", "json")),
    default="yaml",
    show_default=True,
    help="Output format.",
)
@at_option
@cell_option
@with_client
def spec(client: "Client", job_id: str, everything: bool, form: str) -> None:
    """Print the specification of a job as a file that `paceline job submit` and `job update` take.

    Shows the newest version, with the current priority and all overrides. While neither differs from what was
    submitted, submitting it finds this job; after an update or `job priority` it is another job and needs another id.
    """
    body = client.job(job_id, overrides=True).get("spec") or {}
    written = body if everything else without_defaults(body)
    if form == "json":
        show(form, written)
    else:
        write_yaml(written, sys.stdout)


def without_defaults(body: Json) -> Json:
    """The fields of a specification that differ from their defaults, as far as this release knows its fields."""
    from pydantic import ValidationError

    from events.spec.devices import with_one_form
    from events.spec.job import STATEFUL_SILENCE, JobSpec

    try:
        spec = JobSpec.model_validate(body)
    except ValidationError:
        return {name: value for name, value in body.items() if value is not None}
    own = {"on_silence"} if spec.kind == "stateful" and spec.on_silence == STATEFUL_SILENCE else set()
    return with_one_form(spec.model_dump(mode="json", exclude_defaults=True, exclude=own))
