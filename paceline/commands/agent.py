"""`paceline agent`: run the agent of this machine."""

import logging
import socket
import sys
from pathlib import Path
from typing import Any

import click

from paceline.commands.common import data_option, examples


@click.command(
    epilog=examples(
        "paceline agent --server http://cell.example:7117 --token-file token",
        "paceline agent --host-id worker-7 --attribute rack=r12 --gpu-milli 2000",
    )
)
@data_option
@click.option("--server", metavar="ADDRESS", help="Address of the cell. [default: the cell on the data folder]")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the token.")
@click.option("--host-id", help="Name of this host in the cell. [default: the name of this machine]")
@click.option("--folder", type=click.Path(path_type=Path), help="Where runs are kept. [default: DATA/agent]")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="What constraints may ask of it.")
@click.option("--gpu-milli", type=click.IntRange(0), help="GPUs of this host, in thousandths.")
def agent(
    data: Path | None,
    config: Path | None,
    server: str | None,
    token_file: Path | None,
    host_id: str | None,
    folder: Path | None,
    attributes: tuple[str, ...],
    gpu_milli: int | None,
) -> None:
    """Run the agent of this machine: it starts and stops tasks as the cell orders.

    Ctrl-C ends the agent; its tasks go on, and the next agent on the same folder finds them.
    """
    from hostagent.agent import run_agent
    from paceline.settings import load

    pairs = dict(each.partition("=")[::2] for each in attributes)
    given = {"host_id": host_id, "folder": folder, "gpu_milli": gpu_milli, "attributes": pairs or None}
    part: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    token = token_file.read_text().strip() if token_file else None
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
    run_agent(_settings(load(config, data=data, server=server, token=token, agent=part)))


def _settings(settings: Any) -> Any:
    """What the agent needs, from all settings."""
    import msgspec

    from hostagent import capacity
    from hostagent.agent import AgentSettings
    from paceline import running
    from paceline.errors import Unreachable

    part = settings.agent
    found = running.read(settings.data)
    address = settings.server or (found.listen if found else "")
    token = settings.token.get_secret_value() if settings.token else running.token(settings.data)
    if not address or not token:
        raise Unreachable(f"No cell runs on {settings.data}. Name one with --server and --token-file.")
    folder = part.folder or settings.data / "agent"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    amounts = ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli")
    said = {name: getattr(part, name) for name in amounts if getattr(part, name) is not None}
    return AgentSettings(
        url=address if "://" in address else f"http://{address}",
        token=token,
        folder=folder,
        host_id=part.host_id or socket.gethostname().lower()[:100] or "localhost",
        capacity=msgspec.structs.replace(capacity.detect(folder), **said) if said else None,
        attributes=part.attributes,
        port_first=part.port_first,
        port_last=part.port_last,
    )
