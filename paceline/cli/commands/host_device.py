"""`paceline host device`: the devices of a host, which of them runs have, and which take no new tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from events.instance_ranges import write_ranges
from paceline.cli.commands.common import (
    DECIDED_S,
    at_option,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.groups import CommandGroup
from paceline.output import DEFAULT_TABLE, Column, TableOptions, note, say, show, table

if TYPE_CHECKING:
    from paceline.client.client import Client

HOST = click.argument("host_id", metavar="HOST", shell_complete=complete("host"))
DEVICE = click.argument("device_id", metavar="DEVICE")
REASON = click.option("--reason", default="", help="Reason, recorded in the log.")


@click.group(cls=CommandGroup)
def device() -> None:
    """Show the devices of a host, and set one aside or give it back."""


@device.command("list", epilog=examples("paceline host device list worker-7"))
@HOST
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", host_id: str, form: str, shape: TableOptions) -> None:
    """List the devices of a host, and the runs that have them.

    STATE is OK; UNHEALTHY by its agent; DISABLED by an operator, EMPTYING where its runs are to leave; or GONE where
    runs have it that its host names no more. A last line for each NUMA node tells its whole cores.
    """
    body = client.host(host_id)
    devices = body.get("devices", [])
    show(form, {"devices": devices, "cores": body.get("cores", [])}, ids(devices), lambda: print_devices(body, shape))


def ids(devices: list[Any]) -> list[str]:
    """The ids of devices."""
    return [each["id"] for each in devices]


def print_devices(host: Any, shape: TableOptions = DEFAULT_TABLE) -> None:
    """A table of the devices of a host, and a line for the cores of each NUMA node."""
    if devices := host.get("devices"):
        table(devices, _columns(devices), shape)
    else:
        note(f"host {host['host_id']} offers no devices one by one")
    for node in host.get("cores", ()):
        where = f"NUMA node {node['numa']}" if node["numa"] >= 0 else "no known NUMA node"
        free = f": {number_ranges(node['free'])}" if node["free"] else ""
        say(f"cores of {where}: {len(node['free'])} of {node['cores']} free{free}")


def _columns(devices: list[Any]) -> list[Column]:
    """The columns of a table of devices: those that say something of one at least."""

    def optional(title: str, name: str) -> list[Column]:
        some = any(each[name] is not None for each in devices)
        return [Column(title, lambda each: "-" if each[name] is None else each[name])] if some else []

    return [
        Column("DEVICE", lambda each: each["id"]),
        Column("KIND", lambda each: each["kind"] or "-"),
        *optional("MODEL", "model"),
        *optional("PART OF", "part_of"),
        *optional("NUMA", "numa"),
        *optional("LINK GROUP", "link_group"),
        Column("STATE", lambda each: each["state"]),
        Column("USED", lambda each: each["used"], right=True),
        *optional("MEMORY", "memory"),
        *optional("MEMORY USED", "memory_used"),
        Column("RUNS", lambda each: " ".join(map(_run, each["runs"])) or "-"),
    ]


def number_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as people write them: 0-3,8."""
    begins = [each for each in numbers if each - 1 not in numbers]
    ends = [each for each in numbers if each + 1 not in numbers]
    return write_ranges((first, last - first + 1) for first, last in zip(begins, ends, strict=True))


def devices_column(rows: Sequence[Any]) -> list[Column]:
    """The devices and cores of tasks or runs, where some have any."""
    return [Column("DEVICES", lambda row: devices_words(row) or "-")] if any(map(devices_words, rows)) else []


def devices_words(run: Any) -> str:
    """The devices and cores of a run, each device with its share where that isn't all; empty: it has none."""
    devices = [each["id"] + (f":{each['share']}" if each["share"] < 1 else "") for each in run.get("devices", ())]
    cores = [f"cores {number_ranges(run['cores'])}"] if run.get("cores") else []
    return ", ".join(devices + cores)


def _run(run: Any) -> str:
    return f"{run['job_id']}/{run['instance']}" + (f":{run['share']}" if 0 < run["share"] < 1 else "")


@device.command(
    epilog=examples(
        "paceline host device disable worker-7 3 --reason 'ECC errors'",
        "paceline host device disable worker-7 3 --end --reason 'to be replaced'",
    )
)
@HOST
@DEVICE
@click.option(
    "--end/--spare", "ends", help="Preempt the runs on it, as far as they may be; or let them go on. [default: spare]"
)
@REASON
@output_option
@cell_option
@with_client
def disable(client: "Client", host_id: str, device_id: str, ends: bool, reason: str, form: str) -> None:
    """Set a device of a host aside: no new task gets it.

    With --end its preemptible runs leave, gangs whole, as those of a host that offers less than before. Runs that may
    not be preempted go on; stop their jobs, or drain the host.
    """
    answer = client.disable_device(host_id, device_id, ends, reason, wait=DECIDED_S)
    done = f"Device {device_id} takes no new tasks."
    show(form, answer, [host_id], lambda: say(f"host {host_id}: {answer.get('message') or done}"))


@device.command(epilog=examples("paceline host device enable worker-7 3 --reason replaced"))
@HOST
@DEVICE
@REASON
@output_option
@cell_option
@with_client
def enable(client: "Client", host_id: str, device_id: str, reason: str, form: str) -> None:
    """Let a device of a host take tasks again that was disabled."""
    answer = client.enable_device(host_id, device_id, reason, wait=DECIDED_S)
    done = f"Device {device_id} takes new tasks again."
    show(form, answer, [host_id], lambda: say(f"host {host_id}: {answer.get('message') or done}"))
