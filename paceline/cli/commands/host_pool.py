"""`paceline host-pool`: define pools of hosts, and put hosts into them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from events.host_pools import KINDS, name_fault
from events.words import plural
from paceline.cli.commands.common import (
    DECIDED_S,
    Duration,
    at_option,
    cell_option,
    complete,
    drain_options,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.commands.host_maintenance import named_hosts, time_of
from paceline.cli.commands.reasons import reason_option
from paceline.cli.groups import CommandGroup
from paceline.output import DEFAULT_TABLE, Column, TableOptions, note, say, show, table, when

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.host_models import HostPoolElastic, HostPoolMovePlan, HostPoolPlan, JobOfHostPools

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Tell which jobs may use fewer hosts then; write nothing."
)
NAME = click.argument("name", metavar="NAME")
COLUMNS = [
    Column("HOST POOL", lambda each: each["name"]),
    Column("HOSTS", lambda each: each["hosts"], right=True),
    Column("UP", lambda each: each["up"], right=True),
    Column("RUNS", lambda each: each["runs"], right=True),
    Column("FIRST FOR", lambda each: ",".join(each["kinds"]) or "-"),
    Column("POOLS", lambda each: ",".join(each["pools"]) or "-"),
    Column("ELASTIC", lambda each: ",".join(map(_policy_text, each["elastic"])) or "-"),
    Column("DESCRIPTION", lambda each: each["description"] or "-"),
]


@click.group(cls=CommandGroup)
def host_pool() -> None:
    """Define pools of hosts, and put hosts into them.

    Each host is in one, shared unless it is assigned to another. A pool uses those that it names (host_pools of the
    pool); where no pool on the path names any it goes by the kind of the job.
    """


@host_pool.command("list", epilog=examples("paceline host-pool list"))
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", form: str, shape: TableOptions) -> None:
    """List the host pools: their hosts, and who may use them."""
    rows = client.host_pools()
    show(form, {"host_pools": rows}, (each["name"] for each in rows), lambda: table(rows, COLUMNS, shape))


@host_pool.command(epilog=examples("paceline host-pool moves"))
@list_options
@at_option
@cell_option
@with_client
def moves(client: "Client", form: str, shape: TableOptions) -> None:
    """List the last moves of hosts between host pools, the newest first, and what led to them."""
    rows = client.host_pool_moves()
    columns = [
        Column("BEGUN", lambda each: when(each["at"])),
        Column("FROM", lambda each: each["source"]),
        Column("TO", lambda each: each["target"]),
        Column("HOSTS", lambda each: ",".join(each["host_ids"])),
        Column("WHY", lambda each: each["code"]),
        Column("LOAD", lambda each: _percent(each["load"]), right=True),
        Column("WAITING", lambda each: _percent(each["waiting"]), right=True),
        Column("BOUND", lambda each: _percent(each["bound"]), right=True),
    ]
    show(form, {"moves": rows}, (",".join(each["host_ids"]) for each in rows), lambda: table(rows, columns, shape))


@host_pool.command(
    epilog=examples(
        "paceline host-pool define gpus --description 'bought by research'",
        "paceline host-pool define stateless",
        "paceline host-pool define nightly --kind batch",
        "paceline host-pool define stateless --elastic shared:60:40 --lasts 10m --at-a-time 10",
    )
)
@NAME
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="A kind of jobs that uses it before shared, where their pool names no host pools; repeatable. By default "
    "service for stateless, and batch-non-preemptible for batch_reserved.",
)
@click.option("--description", default="", help="What it is for.")
@click.option(
    "--elastic",
    metavar="SOURCE:ABOVE:BELOW",
    multiple=True,
    help="Move hosts from SOURCE when its load is above so many percent, and back when it is below; repeatable.",
)
@click.option(
    "--lasts", type=Duration(), metavar="TIME", help="For --elastic: for how long that must last. [default: 10m]"
)
@click.option(
    "--at-a-time", type=click.IntRange(1, INT_MAX), help="For --elastic: so many hosts at a time. [default: 1]"
)
@click.option(
    "--keep", type=click.IntRange(0, INT_MAX), help="For --elastic: so many hosts stay in either. [default: 1]"
)
@reason_option
@dry_run_option
@output_option
@cell_option
@with_client
def define(
    client: "Client",
    name: str,
    kinds: tuple[str, ...],
    description: str,
    elastic: tuple[str, ...],
    reason: str,
    dry_run: bool,
    form: str,
    **words: Any,
) -> int:
    """Define a host pool, or change it: what isn't said is as by default."""
    if not elastic and any(value is not None for value in words.values()):
        raise click.UsageError("--lasts, --at-a-time and --keep are of --elastic SOURCE:ABOVE:BELOW")
    if fault := name_fault(name):
        raise click.UsageError(fault)
    policies = [_policy(text, words) for text in elastic]
    fields = (name, list(kinds) if kinds else None, description, policies)
    if dry_run:
        return _show_plan(form, client.check_host_pool(*fields), lambda: say(f"host pool {name} would be defined"))
    answer = client.define_host_pool(*fields, reason, wait=DECIDED_S)
    show(form, answer, [name], lambda: say(f"host pool {name} defined"))
    return 0


@host_pool.command(epilog=examples("paceline host-pool remove gpus"))
@NAME
@reason_option
@dry_run_option
@output_option
@cell_option
@with_client
def remove(client: "Client", name: str, reason: str, dry_run: bool, form: str) -> int:
    """Remove a host pool in which no host is."""
    if dry_run:
        plan = client.check_removal_of_host_pool(name)
        return _show_plan(form, plan, lambda: say(f"host pool {name} would be removed"))
    answer = client.remove_host_pool(name, reason, wait=DECIDED_S)
    show(form, answer, [name], lambda: say(f"host pool {name} removed"))
    return 0


@host_pool.command(
    epilog=examples(
        "paceline host-pool assign gpus worker-7 worker-8",
        "paceline host-pool assign gpus --attribute model=a100",
        "paceline host-pool assign shared worker-7",
    )
)
@NAME
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("host"))
@click.option("--attribute", metavar="KEY=VALUE", help="Instead of IDs: the hosts with this attribute.")
@reason_option
@dry_run_option
@output_option
@cell_option
@with_client
def assign(
    client: "Client", name: str, ids: tuple[str, ...], attribute: str | None, reason: str, dry_run: bool, form: str
) -> int:
    """Put hosts into a host pool at once, all of them or none.

    What runs there goes on, whoever may use the host pool.
    """
    hosts = named_hosts(ids, attribute)
    if dry_run:
        plan = client.check_assignment(name, **hosts)
        return _show_plan(form, plan, lambda: say(f"{plural(len(ids), 'host') if ids else 'they'} would be in {name}"))
    answer = client.assign_hosts(name, **hosts, reason=reason, wait=DECIDED_S)

    def told() -> None:
        say(f"{plural(len(answer['host_ids']), 'host')} in host pool {name}")
        if answer.get("message"):
            note(str(answer.get("message")))

    show(form, answer, answer.get("host_ids", ()), told)
    return 0


@host_pool.command(
    epilog=examples(
        "paceline host-pool move gpus --from shared --count 2 --dry-run",
        "paceline host-pool move gpus --from shared --count 2 --batch move",
        "paceline host-pool move gpus --from shared worker-7 --deadline 2h --escalate preempt",
    )
)
@NAME
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("host"))
@click.option("--from", "source", metavar="NAME", required=True, help="The host pool that they are in.")
@click.option(
    "--count", type=click.IntRange(1, INT_MAX), help="Instead of IDs: so many, whose work is worth least first."
)
@drain_options
@click.option(
    "--escalate",
    type=click.Choice(["wait", "preempt", "force"]),
    default="wait",
    show_default=True,
    help="At the deadline, preempt batch tasks; or end all 10m later, whatever SLAs say.",
)
@reason_option
@click.option("--dry-run", is_flag=True, help="Tell which hosts would be moved, and why these; write nothing.")
@output_option
@cell_option
@with_client
def move(
    client: "Client",
    name: str,
    ids: tuple[str, ...],
    source: str,
    count: int | None,
    batch: Any,
    deadline: float | None,
    escalate: Any,
    reason: str,
    dry_run: bool,
    form: str,
) -> int:
    """Empty hosts of another host pool, and put them into this one: all of them or none.

    They drain by the rules of maintenance, and are up again in the host pool once they are empty. `paceline host
    resume` ends the move of a host.
    """
    if bool(ids) == bool(count):
        raise click.UsageError("name hosts, or say how many: --count N")
    fields: Any = {"batch": batch, "escalate": escalate, "reason": reason}
    if deadline is not None:
        fields["deadline"] = time_of(deadline)
    if dry_run:
        plan = client.check_move(name, source, count or 0, ids, **fields)
        show(form, plan, (each["host_id"] for each in plan["hosts"]), lambda: _print_plan(plan))
        return int(plan["refused"])
    answer = client.move_hosts(name, source, count or 0, ids, wait=DECIDED_S, **fields)
    host_ids = answer.get("host_ids", [])
    show(
        form,
        answer,
        host_ids,
        lambda: say(f"{plural(len(host_ids), 'host')} of {source} drain for {name}: {', '.join(host_ids)}"),
    )

    return 0


def _print_plan(plan: "HostPoolMovePlan") -> None:
    if plan["refused"]:
        say(f"it would be refused: {plan['message']} ({plan['code']})")
        return
    columns = [
        Column("HOST", lambda each: each["host_id"]),
        Column("CONTROLLERS", lambda each: each["controllers"], right=True),
        Column("TASKS", lambda each: each["tasks"], right=True),
        Column("PRIORITIES", lambda each: each["priorities"], right=True),
        Column("MEAN RUN s", lambda each: each["mean_s"], right=True),
    ]
    table(plan["hosts"], columns, DEFAULT_TABLE)
    note(f"of {plural(plan['candidates'], 'host')} that are up there; the first choice first")
    _print_jobs(plan["jobs"])


def _show_plan(form: str, plan: "HostPoolPlan", text: Callable[[], None]) -> int:
    """Prints what a change would do; returns the exit code."""

    def told() -> None:
        if plan["refused"]:
            say(f"it would be refused: {plan['message']} ({plan['code']})")
            return
        text()
        _print_jobs(plan["jobs"])

    show(form, plan, (each["job_id"] for each in plan["jobs"]), told)
    return int(plan["refused"])


def _print_jobs(jobs: Sequence["JobOfHostPools"]) -> None:
    if not jobs:
        note("every job may use as many hosts as now")
        return
    columns = [
        Column("JOB", lambda each: each["job_id"]),
        Column("POOL", lambda each: each["pool"]),
        Column("HOSTS", lambda each: each["hosts"], right=True),
        Column("THEN", lambda each: each["hosts_then"], right=True),
        Column("FITS", lambda each: "yes" if each["fits"] else "nowhere"),
        Column("RUNS OUTSIDE", lambda each: each["runs_outside"], right=True),
    ]
    table(jobs, columns, DEFAULT_TABLE)
    note("hosts that these jobs may use, now and then; runs outside of their host pools go on")


def _percent(number: int | None) -> str:
    return "-" if number is None else f"{number} %"


def _policy_text(policy: "HostPoolElastic") -> str:
    return f"{policy['source']}:{policy['above']}:{policy['below']}"


def _policy(text: str, words: Any) -> dict[str, Any]:
    source, *percent = text.split(":")
    if len(percent) != 2 or not all(each.isdigit() for each in percent):
        raise click.BadParameter(f"{text!r} isn't SOURCE:ABOVE:BELOW, such as shared:60:40", param_hint="'--elastic'")
    fields = {"lasts": time_of(words["lasts"]), "hosts": words["at_a_time"], "keep": words["keep"]}
    more = {name: value for name, value in fields.items() if value is not None}
    return {"source": source, "above": int(percent[0]), "below": int(percent[1]), **more}
