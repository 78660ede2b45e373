"""`paceline witness`."""

from pathlib import Path
from typing import Any

import click

from paceline.cli.commands.common import FOLDER, Duration, data_option, examples, file_option, log_options
from paceline.cli.groups import CommandGroup
from paceline.client.json_type import Json
from paceline.output import note, say

SECONDS_MIN = 1.0


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=examples(
        "paceline witness key witness-1",
        "paceline witness --kafka broker:9092 --key w1.key --publish s3://heads/cell",
        "paceline witness --data /srv/cell --key w1.key --publish heads --once",
        "paceline witness --key witness-2.key --old-key witness-1.key --publish heads",
        "paceline log verify --heads heads --trust witness-1.pub",
    ),
)
@data_option
@log_options
@click.option("--publish", metavar="DIR|URL", help="Folder or S3 URL to publish heads to.")
@file_option("--key", help="Private key to sign heads with.")
@file_option("--old-key", help="Key that signed before: the next head hands over from it to --key.")
@click.option("--state", type=FOLDER, metavar="DIR", help="Folder of the witness. [default: DATA-witness]")
@click.option(
    "--every", type=Duration(), default="1m", show_default=True, metavar="TIME", help="Time between two heads."
)
@click.option("--listen", metavar="HOST:PORT", help="Serve health endpoints and metrics. [default: none]")
@click.option("--once", is_flag=True, help="Sign one head of the log as it is now, and exit.")
@click.pass_context
def witness(
    ctx: click.Context,
    data: Path | None,
    config: Path | None,
    log: Json,
    publish: str | None,
    key: Path | None,
    old_key: Path | None,
    state: Path | None,
    every: float,
    listen: str | None,
    once: bool,
) -> int:
    """Replay every round of a cell as it comes, and publish signed heads of its log.

    Run it on a machine and with a key of its own, beyond the reach of who writes the log. It only reads the log. A head
    is signed every minute and after 10,000 rounds. A restart continues after the last head.

    Exits with 1 if the log differs from what it was, or from what this build decides, and names machine and round.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if not publish:
        raise click.UsageError("name with --publish the folder or URL that heads go to")
    if key is None:
        raise click.UsageError("name the key that signs with --key; `paceline witness key NAME` makes one")
    if every < SECONDS_MIN:
        raise click.BadParameter("heads can't come more often than every second", param_hint="--every")
    from paceline.services.settings import load
    from paceline.witness.serve import Options, run

    settings = load(config, data=data, **log)
    folder = state or settings.data.with_name(f"{settings.data.name}-witness")
    options = Options(publish, key, old_key, folder, round(every * 1000), listen or "", once)
    return run(settings, options)


@witness.command(epilog=examples("paceline witness key witness-1", "paceline witness key witness-2 --file keys/2.key"))
@click.argument("name")
@file_option("--file", help="File of the private key; the public one is put beside it. [default: NAME.key]")
def key(name: str, file: Path | None, **_: Any) -> None:
    """Make a key and print its public half.

    Others name that with `paceline log verify --trust`.

    NAME appears in every signature. The private key is written to NAME.key, which only you can read, the public key to
    NAME.pub.
    """
    from paceline.witness.notes import make_key

    path = file or Path(f"{name.replace('/', '-')}.key")
    public = make_key(name, path)
    beside = path.with_suffix(".pub")
    beside.write_text(f"{public}\n")
    note(f"the private key is in {path}, the public key in {beside}")
    say(str(public))
