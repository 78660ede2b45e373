"""`paceline shadow`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import data_option, examples, file_option, log_options
from paceline.client.json_type import Json
from paceline.output import note

if TYPE_CHECKING:
    from events.log.port import Log
    from paceline.history.build_protocol import Order
    from paceline.services.settings import Settings
    from paceline.shadow.follower import Start

LISTEN = "127.0.0.1:7129"
NICE = 10


@click.command(
    epilog=examples(
        "paceline shadow --build /opt/paceline-next/bin/python",
        "paceline shadow --kafka broker:9092 --file pools.yaml",
    )
)
@data_option
@log_options
@click.option("--build", metavar="PYTHON", help="Let the Paceline of this interpreter decide.")
@file_option("--file", help="Decide with the pools and settings of this file: a pool file or a change file.")
@click.option(
    "--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Address of page, metrics and health."
)
@file_option("--address-file", help="Write the address to this file once the process is listening.")
def shadow(
    data: Path | None,
    config: Path | None,
    log: Json,
    build: str | None,
    file: Path | None,
    listen: str,
    address_file: Path | None,
) -> None:
    """Decide each round of a running cell beside it, and show what differs.

    Another release (--build) or other pools (--file) decide in the state in which the cell is. Only the log is read,
    and nothing is written to the cell. The page is for requests from this machine, metrics for all.
    """
    from paceline.history.open_log import open_log
    from paceline.services.settings import load

    if (build is None) == (file is None):
        raise click.UsageError("say who decides: --build PYTHON, or --file FILE")
    settings = load(config, data=data, **log)
    opened = open_log(settings)
    try:
        _serve(opened, settings, build, file, listen, address_file)
    finally:
        opened.close()


def _serve(
    log: "Log", settings: "Settings", build: str | None, file: Path | None, listen: str, address_file: Path | None
) -> None:
    from functools import partial
    from threading import Event

    from events.topics import MACHINES, rounds_of
    from paceline.history.other_build import address_of
    from paceline.history.own_passes import OwnPasses, begin
    from paceline.services.http_serving import serve_http
    from paceline.services.startup import listening, process_labels
    from paceline.shadow.follower import Shadow
    from paceline.shadow.page import app

    start = _start(build, file, log, settings)
    ends = log.ends(rounds_of(name) for name in MACHINES)
    positions = {name: ends[rounds_of(name)] for name in MACHINES}
    side = f"Decided by {build}" if build else f"Decided with {file}"
    follower = Shadow(log.cell, "build" if build else "change", side, positions, note)
    passes = OwnPasses(log, partial(begin, log, address_of(settings, log), settings.snapshots), follows=True)
    socket_ = listening(listen)
    address = process_labels(socket_, listen)
    if address_file is not None:
        address_file.write_text(f"{address}\n")
    note(f"the shadow of cell {log.cell} is at http://{address}/; stop with Ctrl-C")
    stop = Event()
    pages = app(follower.health, follower.body)
    serve_http(pages, socket_, stop, lambda: follower.run(start, passes, stop))


def _start(build: str | None, file: Path | None, log: "Log", settings: "Settings") -> "Start":
    """Starts workers of the other side. Raises `InvalidValue`, `InvalidChange`."""
    from collections.abc import Mapping

    from paceline.history.build_protocol import PROTOCOL, Order, Span
    from paceline.history.other_build import Worker, address_of, ask_build

    address = address_of(settings, log)

    def order(positions: "Mapping[str, int]") -> "Order":
        spans = {name: Span(offset=offset) for name, offset in positions.items()}
        return Order(PROTOCOL, address, spans, follow=True, snapshots=settings.snapshots, nice=NICE)

    if build:
        return lambda positions: ask_build(build, order(positions))
    assert file is not None
    pools, changed = _change(file)

    from paceline.shadow.change_worker import MODULE, ChangeOrder

    words = [sys.executable, "-m", MODULE]
    return lambda positions: Worker(words, ChangeOrder(order(positions), pools, changed))


def _change(file: Path) -> "tuple[dict[str, dict[str, Any]], list[tuple[str, str, str, Any]]]":
    """The pools and settings in a file. Raises `InvalidChange` where it is wrong, or changes what a shadow can't."""
    from paceline.whatif.change_file import InvalidChange, read_change

    read = read_change(file)
    others = sorted({*read.change.model_fields_set} - {"pools", "settings"}) if read.change is not None else []
    if others:
        text = "a shadow changes pools and settings; for jobs and hosts: paceline what-if --file"
        raise InvalidChange([f"{file}: {', '.join(others)}: {text}"])
    return read.pools, [(each.of, each.field, each.resource, each.value) for each in read.settings]
