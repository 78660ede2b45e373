"""`paceline pool`: define and look at pools."""

from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    DECIDED_S,
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    pool_paths,
    with_client,
)
from paceline.output import (
    Column,
    TableOptions,
    answers,
    cores,
    facts,
    gib,
    note,
    other_columns,
    say,
    show,
    table,
    words,
)

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.models import Pool
    from paceline.job_files import PoolFile


@click.group()
def pool() -> None:
    """Define and inspect pools."""


@pool.command(epilog=examples("paceline pool apply examples/pools.yaml", "cat pools.yaml | paceline pool apply -"))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_option
@cell_option
@with_client
def apply(client: "Client", files: tuple[str, ...], form: str) -> None:
    """Create or update the pools in files, folders or standard input (-).

    All files are validated first. A pool that already matches its file is unchanged. A pool belongs to the cell that
    its file names, or else to the cell of its parent.
    """
    from paceline.job_files import read_pools

    pools = read_pools(files)
    with answers(form, len(pools)) as report:
        for each in pools:
            answer, done = _apply(client, each)
            report(answer, each.path, f"pool {each.path} {done}")


def _apply(client: "Client", file: "PoolFile") -> "tuple[Any, str]":
    from paceline.client.errors import NotFound

    try:
        present: Pool | None = client.pool(file.path)
    except NotFound:
        present = None
    # Written in any case: a cell that came later has not been told of the pool yet.
    answer = client.define_pool(file.path, file.body, wait=DECIDED_S)
    if answer.get("code") == "REPEATED":
        return answer, "unchanged"
    return answer, "created" if present is None else "changed"


@pool.command("list", epilog=examples("paceline pool list", "paceline pool list -o name"))
@list_options
@cell_option
@with_client
def list_(client: "Client", form: str, shape: TableOptions) -> None:
    """List the pools with their demand, entitlement and allocation."""
    pools = client.pools()

    def amount(name: str, say: Any) -> Any:
        return lambda each: say(each.get(name))

    columns = [Column("POOL", lambda each: each["path"])]
    for name, title in (("demand", "DEMAND"), ("entitlement", "ENTITLED"), ("allocation", "HELD")):
        columns.append(Column(f"{title} CPU", amount(name, cores), right=True))
        columns.append(Column(f"{title} GiB", amount(name, gib), right=True))
    columns += other_columns(
        pools, {"demand": "DEMAND OTHER", "entitlement": "ENTITLED OTHER", "allocation": "HELD OTHER"}
    )
    columns.append(Column("JOBS", lambda each: each.get("open_jobs"), right=True))
    columns.append(Column("TASKS", lambda each: each.get("open_tasks"), right=True))
    columns += cell_column(pools)
    show(form, {"pools": pools}, (each["path"] for each in pools), lambda: table(pools, columns, shape))


@pool.command(epilog=examples("paceline pool get /maps/tiles"))
@click.argument("path", shell_complete=complete(pool_paths))
@output_option
@cell_option
@with_client
def get(client: "Client", path: str, form: str) -> None:
    """Show a pool."""
    body = client.pool(path)
    show(form, body, [body["path"]], lambda: _print(body))


@pool.command(epilog=examples("paceline pool remove /maps/tiles"))
@click.argument("path", shell_complete=complete(pool_paths))
@output_option
@cell_option
@with_client
def remove(client: "Client", path: str, form: str) -> None:
    """Remove a pool that has no children and no open jobs."""
    answer = client.remove_pool(path, wait=DECIDED_S)
    show(form, answer, [path], lambda: say(f"pool {path} removed"))


def _print(body: "Pool") -> None:
    facts((name, words(value) if isinstance(value, dict) else value) for name, value in body.items())
    note(f"its jobs: paceline job list --pool {body['path']}")
