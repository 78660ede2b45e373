"""`paceline job prefetch`: images come to hosts before runs need them there."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import (
    DECIDED_S,
    cell_option,
    complete_file_or,
    examples,
    output_option,
    pool_paths,
    with_client,
)
from paceline.cli.commands.job_commands import refused, told
from paceline.output import answers, note

if TYPE_CHECKING:
    from paceline.client.client import Client


@click.command(epilog=examples("paceline job prefetch examples/image/web.yaml", "paceline job prefetch web"))
@click.argument("targets", nargs=-1, required=True, metavar="FILE|ID...", shell_complete=complete_file_or("job"))
@click.option("--reason", default="", help="Reason, recorded in the log.")
@output_option
@cell_option
@with_client
def prefetch(client: "Client", targets: tuple[str, ...], reason: str, form: str) -> int:
    """Have all hosts that run containers pull the images of jobs, before these are submitted or updated.

    Each host says in the history of the job what has come of it: paceline job history ID.
    """
    from paceline.client.errors import NotFound, Refused

    code, images = 0, list(_images(client, targets))
    with answers(form, len(images)) as report:
        for job_id, image in images:
            try:
                answer = client.prefetch_image(job_id, image, reason, DECIDED_S)
            except (NotFound, Refused) as error:
                note(f"paceline: {refused(job_id, error)}")
                code = code or error.exit_code
                continue
            report(answer, job_id, told(job_id, answer, "is being prefetched"))
    return code


def _images(client: "Client", targets: tuple[str, ...]) -> "list[tuple[str, str]]":
    """Job and image of each target; the image is empty for a job that is there."""
    from paceline.job_files import read_jobs

    images = []
    for target in targets:
        if target != "-" and not Path(target).exists():
            images.append((target, ""))
            continue
        for each in read_jobs((target,), lambda: pool_paths(client)):
            image = each.body.get("image")
            if not image:
                raise click.UsageError(f"job {each.job_id} in {target} has no image")
            images.append((each.job_id, image))
    return images
