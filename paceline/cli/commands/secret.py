"""`paceline secret`: keep values that jobs may read and nobody else."""

import sys
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX, SECRET_BYTES_MAX
from paceline.cli.commands.common import (
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.groups import CommandGroup
from paceline.output import Column, TableOptions, say, show, table

if TYPE_CHECKING:
    from paceline.client.client import Client

COLUMNS = [
    Column("NAME", lambda each: each["name"]),
    Column("VERSION", lambda each: each["version"], right=True),
    Column("POOL", lambda each: each["pool"]),
    Column("PUT", lambda each: each["put_at"]),
    Column("DIGEST", lambda each: each["digest"]),
]


@click.group(cls=CommandGroup)
def secret() -> None:
    """Keep passwords and keys for jobs.

    A job names them under `secrets`; each of its runs finds the values in files, whose paths stand in variables such as
    PACELINE_SECRET_DB. Values are stored encrypted and reach no log, page or environment.
    """


@secret.command(
    epilog=examples(
        "paceline secret put db < password.txt",
        "paceline secret put db --pool /maps < password.txt",
        "pass show db | paceline secret put db",
    )
)
@click.argument("name", shell_complete=complete("secret"))
@click.option(
    "--pool",
    default="",
    metavar="PATH",
    help="Of a new secret: jobs of this pool and below may name it. [default: all]",
)
@output_option
@cell_option
@with_client
def put(client: "Client", name: str, pool: str, form: str) -> None:
    """Store the next version of a secret; its value is read from stdin, to the byte.

    Jobs that name no version get this one when they are submitted or updated from now on.
    """
    if sys.stdin.isatty():
        value = click.prompt("Value", hide_input=True, err=True).encode()
    else:
        value = sys.stdin.buffer.read(SECRET_BYTES_MAX + 1)
    if not 0 < len(value) <= SECRET_BYTES_MAX:
        raise click.UsageError(f"the value on stdin must have 1 to {SECRET_BYTES_MAX:,} bytes")
    stored = client.put_secret(name, value, pool)
    show(form, stored, [_named(stored)], lambda: say(f"secret {_named(stored)} is stored"))


@secret.command("list", epilog=examples("paceline secret list", "paceline secret list db"))
@click.argument("name", default="", shell_complete=complete("secret"))
@list_options
@cell_option
@with_client
def list_(client: "Client", name: str, form: str, shape: TableOptions) -> None:
    """List secrets and their versions, without values."""
    secrets = [each for each in client.secrets() if name in ("", each["name"])]
    body = {"secrets": secrets}
    show(form, body, map(_named, secrets), lambda: table(secrets, [*COLUMNS, *cell_column(secrets)], shape))


@secret.command(epilog=examples("paceline secret delete db --version 2", "paceline secret delete db --yes"))
@click.argument("name", shell_complete=complete("secret"))
@click.option("--version", type=click.IntRange(1, INT_MAX), metavar="N", help="Only this version. [default: all]")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
@cell_option
@with_client
def delete(client: "Client", name: str, version: int | None, yes: bool, form: str) -> None:
    """Delete a secret, or one version of it.

    Runs that go on keep it; a run that needs it can't be started any more.
    """
    if not yes and version is None:
        if not sys.stdin.isatty():
            raise click.UsageError(f"all versions of {name} would be lost: say so with --yes")
        click.confirm(f"Delete all versions of {name}?", abort=True, err=True)
    deleted = client.delete_secret(name, version or 0)
    versions = ", ".join(map(str, deleted["versions"]))
    show(form, deleted, [name], lambda: say(f"secret {name}: deleted version {versions}"))


def _named(secret: Any) -> str:
    return f"{secret['name']} version {secret['version']}"
