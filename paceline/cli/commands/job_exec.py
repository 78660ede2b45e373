"""Commands of `paceline job` that look into a run."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from events.bounds import INT_MAX, PORT_MAX
from paceline.cli.commands.common import cell_option, examples, with_client
from paceline.cli.commands.job_commands import ID

if TYPE_CHECKING:
    from paceline.client.client import Client

TASK = click.option(
    "--task", "instance", type=click.IntRange(0, INT_MAX), default=0, show_default=True, help="Instance of the job."
)


class ExecCommand(click.Command):
    """Says where options of the command inside a run stand, to whom has them taken for this one's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes the arguments. Raises `UsageError`."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            fault.message += "; options of the command inside the run stand after `--`: paceline job exec ID -- ls -l"
            raise


@click.command(
    name="exec",
    cls=ExecCommand,
    epilog=examples("paceline job exec web --task 2 -t -- sh", "paceline job exec web -- cat /proc/self/limits"),
)
@ID
@TASK
@click.option("-t", "--terminal", is_flag=True, help="Give the command this terminal.")
@click.option("-i", "--stdin", "typing", is_flag=True, help="Give the command this command's input. [default: with -t]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@cell_option
@with_client
def exec_(client: "Client", job_id: str, instance: int, terminal: bool, typing: bool, command: tuple[str, ...]) -> int:
    """Run a command inside a run: as its user, in its folder, with its environment and its limits.

    Exits with the command's code; 255 where that isn't known, since the connection was lost. The command ends with all
    it has started when this one ends, with its run, and after 15 minutes in which nothing is typed or written. The log
    keeps who entered what.
    """
    from paceline.cli.exec_terminal import enter

    if command[0].startswith("-"):
        words = f"{command[0]} stands where the command inside the run begins"
        raise click.UsageError(f"{words}; options of this command stand before `--`: paceline job exec ID -t -- sh")
    if terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--terminal needs a terminal as input and output; leave it out for pipes")
    return enter(client, job_id, instance, command, terminal, terminal or typing)


@click.command(epilog=examples("paceline job cp web:/www/log.txt log.txt --task 2", "paceline job cp web:core ."))
@click.argument("source", metavar="ID:PATH")
@click.argument("target", type=click.Path(path_type=Path), metavar="FILE|FOLDER")
@TASK
@cell_option
@with_client
def cp(client: "Client", source: str, target: Path, instance: int) -> int:
    """Copy a file out of a run, by `cat` inside it; a path that isn't absolute is below its working folder."""
    from paceline.cli.exec_terminal import copy

    job_id, colon, path = source.partition(":")
    if not colon or not path:
        words = f"{source} is no file in a run, which is written ID:PATH"
        if ":" in str(target):
            words = "files are copied out of runs only; into one: paceline job exec -i ID -- sh -c 'cat > PATH' < FILE"
        raise click.BadParameter(words, param_hint="ID:PATH")
    return copy(client, job_id, instance, path, target / os.path.basename(path) if target.is_dir() else target)


@click.command(
    name="port-forward",
    epilog=examples("paceline job port-forward web 8080:80 --task 2", "paceline job port-forward web 8080:31007"),
)
@ID
@click.argument("ports", metavar="LOCAL:PORT")
@TASK
@cell_option
@with_client
def port_forward(client: "Client", job_id: str, ports: str, instance: int) -> int:
    """Forward connections to a port of this machine to a port of a run, until Ctrl-C or the job's end.

    LOCAL is a port of 127.0.0.1, 0: any that is free. When the task runs again, new connections go to its new run.
    """
    from paceline.cli.port_forward import forward

    local, _, port = ports.rpartition(":")
    numbers = [int(each) for each in (local or port, port) if each.isdecimal() and int(each) <= PORT_MAX]
    if len(numbers) != 2 or not numbers[1]:
        raise click.BadParameter(f"is written LOCAL:PORT, each up to {PORT_MAX}", param_hint="LOCAL:PORT")
    try:
        return forward(client, job_id, instance, *numbers)
    except OSError as error:
        raise click.ClickException(f"127.0.0.1:{numbers[0]}: {error.strerror}; choose another local port") from error
