"""Commands of `paceline job` that show what runs write."""

import time
from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import cell_option, examples, with_client
from paceline.cli.commands.job_commands import ID
from paceline.cli.commands.job_exec import TASK
from paceline.client.exec_frames import UNKNOWN_CODE
from paceline.client.pauses import SLOWEST_ASK_S
from paceline.output import note

if TYPE_CHECKING:
    from paceline.client.client import Client

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
@TASK
@click.option("--run", type=click.IntRange(1), help="Run number. [default: the last]")
@click.option("--stdout", "only", flag_value="stdout", help="Print stdout only.")
@click.option("--stderr", "only", flag_value="stderr", help="Print stderr only, to stdout.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines of each stream.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run has ended.")
@cell_option
@with_client
def logs(
    client: "Client", job_id: str, instance: int, run: int | None, only: str | None, tail: int | None, follow: bool
) -> None:
    """Print the output of a run, stderr to stderr.

    Without --follow it ends where the output ends now. With it, a cell that is away is waited for, up to a minute; exit
    code 0 says that all was printed until the end of the run. Bytes that the host has dropped, as this command was too
    slow or came too late, are told of on stderr.
    """
    from paceline.cli.output_printing import print_pieces
    from paceline.client.output import STREAMS

    streams = (only,) if only else STREAMS
    offsets = {} if tail is None else {each: client.output_end(job_id, instance, run, each, tail) for each in streams}
    print_pieces(client.read_output(job_id, instance, run, streams, follow, offsets), bool(only))


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
