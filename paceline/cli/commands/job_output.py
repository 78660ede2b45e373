"""Commands of `paceline job` that show what runs write."""

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from events.bounds import INT_MAX
from paceline.cli.commands.common import cell_option, examples, with_client
from paceline.cli.commands.job_commands import ID
from paceline.cli.commands.job_exec import TASK
from paceline.client.exec_frames import UNKNOWN_CODE
from paceline.client.pauses import SLOWEST_ASK_S
from paceline.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paceline.client.client import Client
    from paceline.client.output import OutputPiece

FOLLOWED_MAX = 32
"""Tasks that are followed at once, each by a request that waits at its host."""
END_S = 10.0
"""So long it is waited until the cell has heard how a run ended that has."""


@click.command(
    epilog=examples(
        "paceline job logs tiles-1f0c --task 3",
        "paceline job logs web --follow --tail 20",
        "paceline job logs web 2> err",
    )
)
@ID
@click.option("--task", "instance", type=click.IntRange(0, INT_MAX), help="Instance of the job. [default: all]")
@click.option(
    "--run", type=click.IntRange(1, INT_MAX), help="Run number. [default: the last, and with -f those after it]"
)
@click.option("--stdout", "only", flag_value="stdout", help="Print stdout only.")
@click.option("--stderr", "only", flag_value="stderr", help="Print stderr only, to stdout.")
@click.option(
    "--tail", type=click.IntRange(0, INT_MAX), metavar="N", help="Begin with the last N lines of each stream."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the task has ended, run after run.")
@cell_option
@with_client
def logs(
    client: "Client",
    job_id: str,
    instance: int | None,
    run: int | None,
    only: str | None,
    tail: int | None,
    follow: bool,
) -> None:
    """Print the output of a job, stderr to stderr. Of several tasks each line begins with the task that wrote it.

    Without --follow it ends where the output ends now. With it, the next run of a task is followed, too, until it has
    none, with --run only that one; a cell that is away is waited for, up to a minute; exit code 0 says that all was
    printed to the end. Bytes that the host has dropped, as this command was too slow or came too late, are told of on
    stderr.
    """
    from paceline.cli.output_printing import print_pieces, print_tasks
    from paceline.client.output import STREAMS

    streams = (only,) if only else STREAMS
    instances = [0 if instance is None else instance]
    if instance is None and run is None and (several := client.job(job_id)["instances"]) > 1:
        instances = list(range(several))
    if follow and len(instances) > FOLLOWED_MAX:
        raise click.UsageError(
            f"job {job_id} has {len(instances)} tasks, -f follows {FOLLOWED_MAX} at most: name one with --task"
        )

    def pieces(instance: int) -> "Iterator[OutputPiece]":
        if follow and run is None:
            return client.follow(job_id, instance, streams, tail)
        ends = {} if tail is None else {each: client.output_end(job_id, instance, run, each, tail) for each in streams}
        return client.read_output(job_id, instance, run, streams, follow, ends)

    if len(instances) == 1:
        print_pieces(pieces(instances[0]), bool(only))
    else:
        print_tasks({each: partial(pieces, each) for each in instances}, bool(only), at_once=follow)


@click.command(epilog=examples("paceline job attach web --task 2"))
@ID
@TASK
@cell_option
@with_client
def attach(client: "Client", job_id: str, instance: int) -> int:
    """Follow what a run writes from now on, until it ends; exits with its exit code, 255 where that isn't known.

    Ctrl-C and other signals detach: they end this command, not the run, which `job stop` ends. Nothing that is typed
    goes to the run, whose standard input is empty; `job exec -t` has a terminal inside it.
    """
    from paceline.cli.output_printing import print_pieces
    from paceline.client.output import STREAMS

    run = client.output(job_id, instance, limit=1).run
    offsets = {each: client.output_end(job_id, instance, run, each) for each in STREAMS}
    try:
        print_pieces(client.read_output(job_id, instance, run, STREAMS, True, offsets))
    except KeyboardInterrupt:
        note(f"detached; run {run} of task {instance} goes on")
        return 130
    return _exit_code(client, job_id, instance, run)


def _exit_code(client: "Client", job_id: str, instance: int, run: int) -> int:
    """The exit code of a run that has ended, once the cell knows it."""
    until = time.monotonic() + END_S
    while True:
        ending = next((each for each in client.runs(job_id, instance) if each["run"] == run), None)
        if ending is not None and ending["state"] == "ENDED":
            return UNKNOWN_CODE if ending["exit_code"] is None else ending["exit_code"]
        if time.monotonic() > until:
            return UNKNOWN_CODE
        time.sleep(SLOWEST_ASK_S / 4)
