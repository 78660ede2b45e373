"""`paceline job top` and `host top`: what runs use now, beside what was asked for."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import cell_option, complete, examples, list_options, with_client
from paceline.cli.commands.job_commands import ID
from paceline.client.models import ENDED
from paceline.output import Column, TableOptions, note, show, table

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.usage_models import JobUsage

REFRESH_S = 5.0
"""So often hosts measure their runs."""
once_option = click.option("--once", is_flag=True, help="Print once; so it is too where the output is no terminal.")
KIB_OF_GIB = 1 << 20


@click.command(name="top", epilog=examples("paceline job top web", "paceline job top web --once -o json"))
@ID
@once_option
@list_options
@cell_option
@with_client
def job_top(client: "Client", job_id: str, once: bool, form: str, shape: TableOptions) -> None:
    """Show what the runs of a job use now, beside what it asked for.

    Asks their hosts, which measure it every five seconds. IDLE is how long a run has used less than 2 % of the CPU that
    it asked for, since its agent was started at most.
    """

    def look() -> None:
        usage = client.job_usage(job_id)
        columns = [Column("TASK", lambda each: each["instance"], right=True), *_columns(usage["runs"])]
        columns.insert(2, Column("HOST", lambda each: each["host_id"]))
        runs = (f"{each['instance']}/{each['run']}" for each in usage["runs"])

        def print_runs() -> None:
            if usage["runs"]:
                table(usage["runs"], columns, shape)
            else:
                _say_idle(client, usage)

        show(form, usage, runs, print_runs)
        for host in usage["silent"]:
            note(f"host {host['host_id']}: {host['reason']}")
        if usage["hosts_left_out"]:
            note(f"{usage['hosts_left_out']} more hosts have runs of it; `paceline host top HOST` asks one")

    _repeat(look, once, form)


@click.command(name="top", epilog=examples("paceline host top", "paceline host top worker-7 --once"))
@click.argument("host_id", metavar="[ID]", required=False, shell_complete=complete("host"))
@once_option
@list_options
@cell_option
@with_client
def host_top(client: "Client", host_id: str | None, once: bool, form: str, shape: TableOptions) -> None:
    """Show what the runs on a host use now, or what all hosts use.

    Of one host its agent is asked. What all hosts use stands in the log, in sixteenths of what each offers, and is
    up to a minute old; for a host that doesn't measure it there is none.
    """

    def look() -> None:
        if host_id is None:
            hosts = list(client.hosts())
            body: Any = {"hosts": hosts, "next_page_token": ""}
            show(form, body, (each["host_id"] for each in hosts), lambda: table(hosts, _HOSTS, shape))
            return
        usage = client.host_usage(host_id)
        columns = [
            Column("JOB", lambda each: each["job_id"]),
            Column("TASK", lambda each: each["instance"], right=True),
        ]
        columns += _columns(usage["runs"])
        runs = (f"{each['job_id']}/{each['instance']}/{each['run']}" for each in usage["runs"])

        def print_host() -> None:
            host = client.host(host_id)
            cpu, memory = host["capacity"].get("cpu", 0), host["capacity"].get("memory", "0")
            note(
                f"{host_id}: its runs use {usage['cpu_milli'] / 1000:.2f} of {cpu} cores, "
                f"{usage['memory_kib'] / KIB_OF_GIB:.2f} GiB of {memory}, measured {usage['age_ms'] / 1000:.0f} s ago"
            )
            if usage["runs"]:
                table(usage["runs"], columns, shape)

        show(form, usage, runs, print_host)

    _repeat(look, once, form)


def _say_idle(client: "Client", usage: "JobUsage") -> None:
    """Says why no run of a job is shown."""
    job_id = usage["job_id"]
    if usage["silent"]:
        return
    state = client.job(job_id)["state"]
    more = "; `paceline usage --by job` tells what ended ones used" if state in ENDED else ""
    note(f"job {job_id} is {state}: no run of it goes on{more}")


def _columns(rows: Iterable[Any]) -> list[Column]:
    """The columns of the use of runs; those that are empty for all are left out."""
    columns = [
        Column("RUN", lambda each: each["run"], right=True),
        Column("CPU", lambda each: f"{each['cpu_milli'] / 1000:.2f}", right=True),
        Column("ASKED", lambda each: f"{each['asked_cpu_milli'] / 1000:.2f}", right=True),
        Column("MiB", lambda each: each["memory_kib"] >> 10, right=True),
        Column("ASKED MiB", lambda each: each["asked_memory_kib"] >> 10, right=True),
        Column("PEAK MiB", lambda each: each["peak_kib"] >> 10, right=True),
        Column("CPU S", lambda each: f"{each['cpu_ms'] / 1000:.1f}", right=True),
        Column("IDLE", lambda each: _lasting(each["idle_s"]), right=True, order=lambda each: each["idle_s"]),
    ]
    more = {
        "throttled_ms": Column("THROTTLED S", lambda each: f"{each['throttled_ms'] / 1000:.1f}", right=True),
        "read_kib": Column("READ MiB", lambda each: each["read_kib"] >> 10, right=True),
        "written_kib": Column("WRITTEN MiB", lambda each: each["written_kib"] >> 10, right=True),
        "forks_refused": Column("FORKS REFUSED", lambda each: each["forks_refused"], right=True),
    }
    return columns + [column for name, column in more.items() if any(row[name] for row in rows)]


def _lasting(seconds: int) -> str | None:
    """A time in its largest unit; None: under a minute."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return None


def _of_host(name: str) -> Callable[[Any], str | None]:
    return lambda host: None if host.get("used") is None else f"{host['used'][name]}/16"


_HOSTS = [
    Column("HOST", lambda each: each["host_id"]),
    Column("STATE", lambda each: each["state"]),
    Column("RUNS", lambda each: each["runs"], right=True),
    Column("CPU USED", _of_host("cpu"), right=True),
    Column("CPU HELD", lambda each: each["allocated"].get("cpu"), right=True),
    Column("CPU", lambda each: each["capacity"].get("cpu"), right=True),
    Column("MEMORY USED", _of_host("memory"), right=True),
    Column("MEMORY HELD", lambda each: each["allocated"].get("memory"), right=True),
    Column("MEMORY", lambda each: each["capacity"].get("memory"), right=True),
]


def _repeat(look: Callable[[], None], once: bool, form: str) -> None:
    """Looks again and again, on a terminal that shows a table."""
    terminal = click.get_text_stream("stdout").isatty()
    if once or form != "table" or not terminal:
        look()
        return
    try:
        while True:
            click.clear()
            look()
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return
