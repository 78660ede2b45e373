"""`paceline agent`: run the agent of this machine."""

from pathlib import Path
from typing import Any

import click

from paceline.cli.commands.common import data_option, examples
from paceline.cli.commands.process_options import log_options, show, without_none


@click.command(
    epilog=examples(
        "paceline agent --server gw-1:7118 --server gw-2:7118 --token-file token",
        "paceline agent --attribute rack=r12 --resource gpu=2 --resource gpu/a100=2",
        "paceline agent --run-as nobody --folder /var/lib/paceline-agent",
    )
)
@data_option
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="ADDRESS",
    help="Gateway of the cell; repeat to name others to fail over to. [default: the cell on the data folder]",
)
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the token.")
@click.option("--host-id", help="Name of this host in the cell. [default: the name of this machine]")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder to keep runs in. [default: DATA-agent]")
@click.option("--run-as", metavar="USER", help="User to run tasks as; needs root. [default: the user of the agent]")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Host attribute for placement constraints."
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Offer an amount of a resource, such as gpu/a100=2 or memory=64GiB, instead of what is detected.",
)
@click.option("--listen", metavar="HOST:PORT", help="Address of health endpoints and metrics.")
@log_options
def agent(
    data: Path | None,
    config: Path | None,
    servers: tuple[str, ...],
    token_file: Path | None,
    host_id: str | None,
    folder: Path | None,
    run_as: str | None,
    attributes: tuple[str, ...],
    resources: tuple[str, ...],
    listen: str | None,
    log_form: str | None,
    log_level: str | None,
    show_config: bool,
) -> int:
    """Run the agent of this machine: it starts and stops tasks as the cell orders.

    Ctrl-C or SIGTERM ends the agent; its tasks keep running, and the next agent on the same folder adopts them. A
    folder, and so a host, belongs to one cell.
    """
    from paceline.services.settings import load

    pairs = dict(each.partition("=")[::2] for each in attributes)
    flags: dict[str, Any] = {
        "data": data,
        "token": token_file.read_text().strip() if token_file else None,
        "agent": without_none(
            {
                "host_id": host_id,
                "folder": folder,
                "run_as": run_as,
                "resources": dict(each.partition("=")[::2] for each in resources) or None,
                "attributes": pairs or None,
            }
        ),
        "service": without_none({"gateways": servers or None, "listen": listen}),
        "logs": without_none({"form": log_form, "level": log_level}),
    }
    if show_config:
        return show(config, flags)
    from paceline.services.agent import run

    return run(load(config, **flags))
