"""The `paceline` command. Each command is imported when it is asked for: `--version` and `--help` import none."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from paceline import __version__
from paceline.cli.groups import LazyGroup
from paceline.client.errors import PacelineError
from paceline.services.process_setup import GC_THRESHOLDS

SECTIONS = {
    "Use": {
        "job": "Submit, follow, update and stop jobs.",
        "pool": "Define and inspect pools.",
        "sla": "Show budgets of availability; share them.",
        "secret": "Keep passwords and keys for jobs.",
        "usage": "Show what runs asked for and used.",
        "ui": "Open the web UI of a cell in a browser.",
        "login": "Sign in at the issuer of a cell.",
        "logout": "Forget the sign-in at a cell.",
    },
    "Look after": {
        "host": "Inspect and drain hosts.",
        "host-pool": "Define host pools, and put hosts into them.",
        "rebalance": "Make room for a waiting job by moves of other work.",
        "maintenance": "Maintain many hosts, some at a time.",
        "volume": "Inspect and remove the data that tasks keep on hosts.",
        "cell": "Check cell health.",
        "log": "Follow, verify, bisect and archive the log.",
        "witness": "Replay rounds as they come, and sign heads of the log.",
        "what-if": "Decide history again with something changed.",
        "shadow": "Decide beside a cell by another build or with other pools.",
        "snapshot": "Back up and restore state stores.",
        "access": "Bind roles; ask who may what.",
        "token": "Make, list and revoke tokens.",
        "audit": "Verify that who wrote a fact was allowed to.",
        "admin": "Maintenance commands.",
        "debug": "Collect what a maintainer needs to find a bug.",
    },
    "Run": {
        "up": "Run a cell in this process.",
        "down": "Stop the cell that runs on a data folder.",
        "agent": "Run the agent of this machine.",
        "processor": "Run one state machine (processor) of a cell.",
        "projector": "Maintain the views in a process of its own.",
        "api": "Serve the HTTP API in a process of its own.",
        "gateway": "Serve agents in a process of its own.",
        "fanout": "Publish each decision as a separate message.",
        "forecaster": "Forecast when waiting jobs begin.",
    },
    "Other": {
        "simulate": "Run a scenario or a trace in virtual time.",
        "demo": "Run an end-to-end demo.",
        "completion": "Print the completion script of a shell.",
    },
}
EPILOG = """\b
Exit codes:
  0    success; the wanted state was reached
  1    refused by the scheduler, invalid files, failed job, log differs;
       tasks would wait (job plan)
  2    invalid usage or settings;
       a job would be refused (job plan)
  3    the job was accepted and did not run in time (submit --wait=running);
       versions differ (job diff); no answer (what-if,
         log verify --heads)
  4    not found
  5    the job has another version than --expected-version
  6    no cell or no log can be reached; try again
  7    the job was stopped before it succeeded (job wait, submit --wait)
  8    the job ran for its max_runtime (job wait, submit --wait);
       of several jobs the first of 1, 8 and 7 that occurs
  9    the token is wrong, or doesn't permit it
  124  --timeout has passed
  130  interrupted; jobs keep running
  143  ended by SIGTERM

\b
Environment, where no option says otherwise:
  PACELINE_SERVER  address of the API (--server)
  PACELINE_TOKEN   token of the cell (--token)
  PACELINE_DATA    data folder of the cell (--data)
  PACELINE_ACTOR   who writes, as histories show it; else your system's user
  NO_COLOR         if set, no colours and no bold
"""


def _print_version(ctx: click.Context, param: click.Parameter, prints: bool) -> None:
    """Prints the version; one that isn't released yet is that of development (PEP 440)."""
    if prints:
        from schemas.versions import is_released

        click.echo(f"paceline {__version__}{'' if is_released(__version__) else '.dev0'}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def cli() -> None:
    """Paceline schedules batch jobs, services and daemons on one cluster and keeps every decision as an event."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs the command and exits."""
    gc.set_threshold(*GC_THRESHOLDS)
    arguments = list(sys.argv[1:] if args is None else args)
    sys.exit(run(arguments))


def run(args: list[str]) -> int:
    """Runs the command and returns its exit code."""
    try:
        result = cli.main(args, prog_name="paceline", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click has met it first
            return _nobody_reads()
        raise
    except Exception as error:
        if "--debug" in args:
            raise
        text, code = error_text(error)
        _print_error(text)
        return code


def _nobody_reads() -> int:
    """The exit code where the reader of the output has left, such as `head`: nothing is wrong. What is still to be
    written goes nowhere.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_error(text: str) -> None:
    """The last sentence, in the form that the process was told to write in."""
    logs = sys.modules.get("paceline.services.process_logs")  # only processes of a cell have it
    if logs is not None and logs.as_json:
        logs.logger().error(text)
    else:
        from paceline.output import note

        note(f"paceline: {text}")


def error_text(error: Exception) -> tuple[str, int]:
    """The text of an error, and the exit code."""
    from events.log.port import LogError, LogFault, LogUnavailable

    if isinstance(error, PacelineError):
        return str(error), error.exit_code
    if isinstance(error, LogError):
        return str(error), 6 if isinstance(error, LogUnavailable | LogFault) else 1
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return "an argument, or what a file holds, is no text in UTF-8", 2
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 1
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return f"the output can't be written: {error.strerror}", 1
    return (
        f"this should not happen: {error!r}. Run it again with `paceline --debug`, and report what it "
        "prints with what `paceline debug bundle` writes."
    ), 1
