"""The commands that run the processes of a cell (`paceline.services.processes`), as one table."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from events.bounds import INT_MAX
from events.topics import MACHINES
from paceline.cli.commands.common import ca_option, data_option, examples, file_option
from paceline.cli.commands.process_options import (
    HARDWARE_OPTIONS,
    LOG_OPTIONS,
    OIDC_OPTIONS,
    SERVICE_OPTIONS,
    SIGNING_KEYS,
    TLS_OPTIONS,
    Decorator,
    amounts,
    content,
    settings_flags,
    several,
    show,
    with_options,
)
from paceline.services.processes import PROCESSES

COUNT = click.IntRange(0, INT_MAX)
repeated = partial(click.option, multiple=True, callback=several)
pairs = partial(click.option, multiple=True, callback=amounts)
MACHINE = click.argument("machine", type=click.Choice(MACHINES))
API_OPTIONS: tuple[Decorator, ...] = (
    repeated(
        "--gateway",
        "service__gateways",
        metavar="ADDRESS",
        help="Gateway to fetch the output of runs from; may be repeated.",
    ),
)
GATEWAY_OPTIONS: tuple[Decorator, ...] = (
    click.option("--cell", type=COUNT, metavar="N", help="Cell number. [default: 0]"),
    click.option(
        "--sim-hosts",
        "service__sim_hosts",
        type=COUNT,
        metavar="N",
        help="Number of hosts to simulate in this process.",
    ),
    click.option(
        "--secrets",
        "service__secrets",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the cell's secrets, which all its gateways share. [default: secrets beside its checkpoint]",
    ),
    click.option(
        "--host-ca",
        "service__host_ca",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the CA that signs certificates of hosts, which all gateways share. [default: cell-N in DATA]",
    ),
)
AGENT_OPTIONS: tuple[Decorator, ...] = (
    repeated(
        "--server",
        "service__gateways",
        metavar="ADDRESS",
        help="Gateway of the cell; repeat to name others to fail over to. [default: the cell on the data folder]",
    ),
    click.option(
        "--token-file",
        "token",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        callback=content,
        help="File with the token.",
    ),
    click.option(
        "--join-file",
        "agent__join",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        callback=content,
        help="File with a join token (see `paceline host invite`), which gets this host a certificate.",
    ),
    file_option("--tls-cert", "tls__cert", help="Certificate of this host, in PEM. [default: the one it joined with]"),
    file_option("--tls-key", "tls__key", help="Private key of the certificate, in PEM."),
    click.option(
        "--host-id", "agent__host_id", help="Name of this host in the cell. [default: the name of this machine]"
    ),
    click.option(
        "--folder",
        "agent__folder",
        type=click.Path(path_type=Path),
        help="Folder to keep runs in. [default: DATA-agent]",
    ),
    click.option(
        "--run-as",
        "agent__run_as",
        metavar="USER",
        help="User to run tasks as, auto:FIRST-LAST for one per job; needs root. [default: the user of the agent]",
    ),
    click.option(
        "--isolation",
        "agent__isolation",
        type=click.Choice(["auto", "none", "cgroup"]),
        help="Least that keeps runs apart; cgroup limits memory, CPU and processes. [default: cgroup with --run-as]",
    ),
    pairs("--attribute", "agent__attributes", metavar="NAME=VALUE", help="Host attribute for placement constraints."),
    pairs(
        "--taint",
        "agent__taints",
        metavar="KEY[=VALUE]",
        help="Taint of the host; only tasks that tolerate it run there",
    ),
    pairs(
        "--resource",
        "agent__resources",
        metavar="NAME=AMOUNT",
        help="Offer an amount of a resource, such as gpu/a100=2 or memory=64GiB, instead of what is detected.",
    ),
    *HARDWARE_OPTIONS,
    click.option("--listen", "service__listen", metavar="HOST:PORT", help="Address of health endpoints and metrics."),
)


class ProcessCommand(NamedTuple):
    """A command: its page of help, its examples, and its options in the order of the page."""

    about: str
    examples: tuple[str, ...]
    options: tuple[Decorator, ...] = SERVICE_OPTIONS


COMMAND_PAGES = {
    "processor": ProcessCommand(
        """Run one state machine (processor): lifecycle, entitlement, placement or sla.

        Any number of processes may run the same machine: their consumer group assigns the cells to them, and reassigns
        those of a process that dies. SIGTERM ends it cleanly.
        """,
        (
            "paceline processor placement --kafka broker:9092 --data /var/lib/paceline",
            "paceline processor sla --kafka broker:9092 --log-form json",
            "paceline processor lifecycle --show-config",
        ),
        (MACHINE, *SERVICE_OPTIONS),
    ),
    "projector": ProcessCommand(
        """Maintain the views of all cells in the data folder, for the API servers of this machine.

        It continues from the position stored with the views; lost views are rebuilt from the log. SIGTERM ends it
        cleanly.
        """,
        ("paceline projector --kafka broker:9092 --data /var/lib/paceline",),
    ),
    "api": ProcessCommand(
        """Serve the HTTP API of all cells from the views that `paceline projector` keeps in the same data folder.

        Any number may run side by side. Writes go to the log of the cell that a pool belongs to.
        """,
        ("paceline api --kafka broker:9092 --gateway http://127.0.0.1:7118",),
        (*API_OPTIONS, SIGNING_KEYS, *TLS_OPTIONS, *OIDC_OPTIONS, ca_option, *SERVICE_OPTIONS),
    ),
    "gateway": ProcessCommand(
        """Serve the agents of one cell: send them orders, and append their reports to the log.

        Several gateways may serve the same cell, each with its own name and folder; an agent fails over to another
        gateway. A gateway serves once it has read the log to its end. SIGTERM ends it cleanly.
        """,
        (
            "paceline gateway --kafka broker:9092 --data /var/lib/paceline",
            "paceline gateway --cell 1 --listen 127.0.0.1:7128 --name gateway-1",
        ),
        (*GATEWAY_OPTIONS, SIGNING_KEYS, *TLS_OPTIONS, *SERVICE_OPTIONS),
    ),
    "fanout": ProcessCommand(
        """Publish each decision as one Avro message of its own type, in topics for other systems.

        The topics are paceline.placements, preemptions, admissions, job-states, task-states and quarantine. A restart
        repeats at most the last round; each message carries an id. SIGTERM ends it cleanly.
        """,
        ("paceline fanout --kafka broker:9092 --data /var/lib/paceline",),
    ),
    "forecaster": ProcessCommand(
        """Forecast when waiting jobs begin, and say how often that was right.

        It follows the log and writes to the topic paceline.forecasts, which no machine reads. Of a core it takes
        forecast.cpu_percent, 5 unless set otherwise. `paceline up` has one of its own. SIGTERM ends it cleanly.
        """,
        ("paceline forecaster --kafka broker:9092 --data /var/lib/paceline",),
    ),
    "agent": ProcessCommand(
        """Run the agent of this machine: it starts and stops tasks as the cell orders.

        Ctrl-C or SIGTERM ends the agent; its tasks keep running, and the next agent on the same folder adopts them. A
        folder, and so a host, belongs to one cell.
        """,
        (
            "paceline agent --server gw-1:7118 --server gw-2:7118 --token-file token",
            "paceline agent --server https://gw-1:7118 --ca ca.pem --join-file join-token",
            "paceline agent --attribute rack=r12 --resource gpu=2 --resource gpu/a100=2",
            "paceline agent --devices nvidia --cores",
            "paceline agent --run-as nobody --folder /var/lib/paceline-agent",
        ),
        (data_option, ca_option, *AGENT_OPTIONS, *LOG_OPTIONS),
    ),
}


def process_command(name: str) -> click.Command:
    """The command of a name in the table."""
    row = COMMAND_PAGES[name]

    def command(
        config: Path | None,
        show_config: bool,
        kafka: dict[str, Any] | None = None,
        machine: str = "",
        **options: Any,
    ) -> int:
        flags = settings_flags({**(kafka or {}), **options})
        if show_config:
            return show(config, flags)
        from paceline.services.settings import load

        kind = machine or name
        if not PROCESSES[kind].module:
            from paceline.services.agent import run

            return run(load(config, **flags))
        from paceline.services.startup import run_process

        return run_process(kind, load(config, **flags))

    make = click.command(name, help=row.about, epilog=examples(*row.examples))
    return make(with_options(command, row.options))
