"""`paceline host`: look at hosts; drain, cordon and resume them; confirm a loss; invite, remove or taint one."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from events.abilities import USAGE, enforced, is_own
from events.bounds import LOAD_STEPS
from events.host_pools import SHARED
from events.taints import text_of
from paceline.cli.commands.common import (
    DECIDED_S,
    Duration,
    Paging,
    actor_option,
    at_option,
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    note_rest,
    output_option,
    paging_options,
    with_client,
    zone_option,
)
from paceline.cli.commands.histories import show_history
from paceline.cli.commands.host_device import device, print_devices
from paceline.cli.commands.host_maintenance import cordon, drain, explain, maintenance_lines, resume, uncordon
from paceline.cli.commands.top import host_top
from paceline.cli.commands.watch import host_watch
from paceline.cli.filter_types import Pair, States
from paceline.cli.groups import CommandGroup
from paceline.output import (
    Column,
    TableOptions,
    ahead,
    cores,
    facts,
    gib,
    note,
    other_columns,
    say,
    show,
    table,
    when,
    words,
)

if TYPE_CHECKING:
    from paceline.client.client import Client

ID = click.argument("host_id", metavar="ID", shell_complete=complete("host"))


@click.group(cls=CommandGroup)
def host() -> None:
    """Inspect hosts; drain, cordon and resume them; confirm a loss; remove, clear or taint a host."""


host.add_command(host_top)
host.add_command(host_watch)
for command in (drain, cordon, uncordon, resume, explain, device):
    host.add_command(command)


@host.command(epilog=examples("paceline host history worker-7", "paceline host history worker-7 --utc -o json"))
@ID
@actor_option
@zone_option
@list_options
@at_option
@cell_option
@with_client
def history(client: "Client", host_id: str, actor: str | None, zone: str, form: str, shape: TableOptions) -> None:
    """Show what happened to a host, who did it and why: 90 days, of one that was removed too."""
    show_history(list(client.host_history(host_id, actor)), zone, form, shape)


@host.command(
    "list",
    epilog=examples(
        "paceline host list --state UP,SUSPECTED --attribute rack:r7",
        "paceline host list --text sim- --limit 20",
        "paceline host list --columns host,abilities",
    ),
)
@click.option(
    "--state", type=States("host"), metavar="STATES", help="Only hosts in these states or stages, such as UP,DRAINING."
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    type=Pair(),
    metavar="KEY:VALUE",
    help="Only hosts with this attribute; repeatable.",
)
@click.option("--text", help="Only hosts with this in their id.")
@paging_options("hosts", "all")
@list_options
@at_option
@cell_option
@with_client
def list_(
    client: "Client",
    state: str | None,
    attributes: tuple[str, ...],
    text: str | None,
    paging: Paging,
    form: str,
    shape: TableOptions,
) -> None:
    """List the hosts with their state, capacity and allocation, numbers within ids by their value.

    The state is the stage of a host that is cordoned, drains or is drained; `host get` has both.

    What agents can do (attributes paceline/...) is in the column ABILITIES of --columns, and in `host get`.
    """
    body = paging.collected(lambda *page: client.hosts_page(state, attributes, text, *page), "hosts", None)
    hosts = body["hosts"]

    def amount(name: str, say: Any) -> Any:
        return lambda each: say(each.get(name))

    columns = [
        Column("HOST", lambda each: each["host_id"]),
        Column("STATE", _shown_state),
        *_takes_column(hosts),
        *_taints_column(hosts),
        *_host_pool_column(hosts),
        Column("RUNS", lambda each: each["runs"], right=True),
        Column("CPU USED", amount("allocated", cores), right=True),
        Column("CPU", amount("capacity", cores), right=True),
        Column("GiB USED", amount("allocated", gib), right=True),
        Column("GiB", amount("capacity", gib), right=True),
        *other_columns(hosts, {"allocated": "OTHER USED", "capacity": "OTHER"}),
        Column("ATTRIBUTES", lambda each: words(_attributes(each, abilities=False))),
        Column("ABILITIES", lambda each: words(_attributes(each, abilities=True)), on_request=True),
        *cell_column(hosts),
    ]
    show(form, body, (each["host_id"] for each in hosts), lambda: table(hosts, columns, shape))
    note_rest(body)


@host.command(epilog=examples("paceline host get worker-7"))
@ID
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", host_id: str, form: str) -> None:
    """Show a host and the tasks on it."""
    body = client.host(host_id)
    show(form, body, [host_id], lambda: _print(client, body))


def _attributes(host: Any, abilities: bool) -> dict[str, object]:
    """The attributes of a host: those of its operator, or those that say what its agent can do."""
    return {name: value for name, value in host["attributes"].items() if is_own(name) == abilities}


def _print(client: "Client", body: Any) -> None:
    apart = ("devices", "cores")
    rest = {name: value for name, value in body.items() if name not in apart}
    facts(pair for name, value in (rest | {"used": _use(body)}).items() for pair in _facts_of(name, value))
    if any(body.get(name) for name in apart):
        say()
        print_devices(body)
    tasks = list(client.host_tasks(body["host_id"]))
    if not tasks:
        note("no tasks are there")
        return
    say()
    table(
        tasks,
        [
            Column("JOB", lambda each: each["job_id"]),
            Column("TASK", lambda each: each["instance"], right=True),
            Column("RUN", lambda each: each["run"], right=True),
            Column("STATE", lambda each: each["state"]),
        ],
    )


def _shown_state(host: Any) -> str:
    """The stage of a host, or where it is UP how the host is heard."""
    maintenance = host.get("maintenance")
    return maintenance["stage"] if maintenance and maintenance["stage"] != "UP" else host["state"]  # type: ignore[no-any-return]


def _takes_column(hosts: list[Any]) -> list[Column]:
    """When hosts take new tasks that take none now, and why they don't, where there are such."""

    def cell(host: Any) -> str:
        if shrunk := host.get("shrunk"):
            return f"no ({shrunk['code']})"
        ill = [each["name"] for each in host.get("conditions", ()) if each["action"] in ("AVOIDED", "DRAINED")]
        why = host.get("suspected")
        if ill and not why:
            return f"no ({', '.join(ill)})"
        return f"{ahead(why['until'])} ({why['code']})" if why else "-"

    some = any(host.get("suspected") or host.get("shrunk") or host.get("conditions") for host in hosts)
    return [Column("TAKES TASKS", cell)] if some else []


def _use(host: Any) -> str:
    """The use of a host by its runs as it was told last, or why it isn't known."""
    if used := host.get("used"):
        parts = f"{used['cpu']}/{LOAD_STEPS} of its CPU, {used['memory']}/{LOAD_STEPS} of its memory"
        return f"{parts}, told {when(used['at'])}"
    if USAGE not in host["attributes"]:
        return f"not measured: its agent doesn't offer {USAGE}"
    return "not told since it connected: a host tells what has moved by two sixteenths, and all after ten minutes"


def _taints_column(hosts: list[Any]) -> list[Column]:
    """The taints of hosts, where there are any."""

    def cell(host: Any) -> str:
        return ",".join(text_of(each["key"], each["value"]) for each in host.get("taints", ())) or "-"

    return [Column("TAINTS", cell)] if any(host.get("taints") for host in hosts) else []


def _host_pool_column(hosts: list[Any]) -> list[Column]:
    """The host pools of hosts, where some are in another one than shared."""
    some = any(host.get("host_pool", SHARED) != SHARED for host in hosts)
    return [Column("HOST POOL", lambda host: host["host_pool"])] if some else []


_NOTHING = {
    "gateway": "none: it isn't connected",
    "connected_at": "never",
    "silent_since": "it is heard",
    "offer_refused": "nothing",
    "lost": "no",
    "suspected": "no",
    "conditions": "none: it is well",
    "shrunk": "no",
    "ignored_resources": "none",
    "capacity": "nothing",
    "allocated": "nothing",
    "slack": "none",
    "used": "nothing",
    "attributes": "none",
    "taints": "none",
    "ports": "none",
    "maintenance": "none",
    "certificate": "none of this cell",
}
"""The meaning of each field of a host where it is empty."""


def _facts_of(name: str, value: Any) -> list[tuple[str, object]]:
    if name == "session":
        return []  # a number for the agent alone
    if name in _NOTHING and not value:
        return [(name, _NOTHING[name])]
    if name.endswith(("_at", "_since")):
        return [(name, when(value))]
    if name == "lost" and value:
        return [(name, f"{when(value['at'])} ({value['code']})")]
    if name == "suspected" and value:
        return [(name, f"{value['message']} ({value['code']})"), ("avoided_until", ahead(value["until"]))]
    if name == "conditions":
        return [(name if at == 0 else "", line) for at, line in enumerate(_conditions(value))]
    if name == "shrunk" and value:
        return [(name, f"{value['message']} ({value['code']})"), ("surplus", words(value["surplus"]))]
    if name == "ignored_resources" and value:
        reasons = [f"{each['name']}: {each['message']} ({each['code']})" for each in value]
        return [(name, reasons[0]), *(("", reason) for reason in reasons[1:])]
    if name == "host_pool":
        return [("host pool", value)]
    if name == "maintenance":
        return [(name, value["stage"]), *(("", line) for line in maintenance_lines(value))]
    if name == "certificate":
        return [(name, f"{value['serial']} ({value['state']})"), ("certificate_ends", ahead(value["until_at"]))]
    if name == "taints":
        return [(name, ", ".join(map(_taint_words, value)) or None)]
    if name == "attributes":
        return [("limits", enforced(value)), (name, words(value))]
    return [(name, words(value) if isinstance(value, dict) else value if value != [] else None)]


def _taint_words(taint: Any) -> str:
    evicts = ", evicts" if taint.get("effect") == "evict" else ""
    return f"{text_of(taint['key'], taint['value'])} (by {taint['by']}{evicts})"


def _conditions(conditions: Sequence[Any]) -> Iterator[str]:
    """Two lines for each condition of a host."""
    for each in conditions:
        since = f", since {when(each['since'])}" if each["since"] else ""
        at = ahead(each["drain_at"]) if each["drain_at"] else ""
        drained = f"; drained {'once the bounds of drains allow it' if at == 'now' else at} if it lasts" if at else ""
        yield f"{each['name']} ({each['code']}){since}: {each['evidence']}"
        yield f"  {each['done']}{drained}; ends {each['ends']}"


@host.command("confirm-loss", epilog=examples("paceline host confirm-loss worker-7 --yes"))
@ID
@click.option("--reason", default="", help="Reason, recorded in the log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
@cell_option
@with_client
def confirm_loss(client: "Client", host_id: str, reason: str, yes: bool, form: str) -> None:
    """Confirm that a silent host is lost for good.

    Its tasks run again elsewhere at once. If the host is still alive, they run twice until its agent reconnects.
    """
    if not yes:
        runs = client.host(host_id)["runs"]
        if not sys.stdin.isatty():
            raise click.UsageError(f"{runs} runs on {host_id} would be lost: say so with --yes")
        click.confirm(f"Declare {host_id} lost, with {runs} runs on it?", abort=True, err=True)
    answer = client.confirm_loss(host_id, reason, wait=DECIDED_S)
    show(form, answer, [host_id], lambda: say(f"host {host_id} {answer.get('message') or 'is lost'}"))


@host.command(epilog=examples("paceline host remove worker-7"))
@ID
@click.option("--reason", default="", help="Reason, recorded in the log.")
@output_option
@cell_option
@with_client
def remove(client: "Client", host_id: str, reason: str, form: str) -> None:
    """Remove a host that has left for good.

    The host must be silent or lost and have no runs. The cell forgets it, its session numbers and its machine. Lost
    hosts are removed automatically after seven days. A removed host that connects again is a new host.
    """
    answer = client.remove_host(host_id, reason, wait=DECIDED_S)
    show(form, answer, [host_id], lambda: say(f"host {host_id} {answer.get('message') or 'is removed'}"))


@host.command(epilog=examples("paceline host invite h17 --ttl 1h", "paceline host invite h17 --out join-token"))
@ID
@click.option(
    "--ttl", type=Duration(), default="1h", show_default=True, metavar="TIME", help="How long the host may join."
)
@click.option("--reason", default="", help="Reason, recorded in the log.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the token to this file, for its user alone."
)
@output_option
@cell_option
@with_client
def invite(client: "Client", host_id: str, ttl: float, reason: str, out: Path | None, form: str) -> None:
    """Invite a host: print a join token, by which its agent gets a certificate for this host alone.

    The token holds once, and is shown this once. Give it to `paceline agent --join-file`, whose gateways speak TLS.
    """
    with ExitStack() as opened:
        file = None if out is None else opened.enter_context(os.fdopen(_private(out), "w"))
        answer = client.invite_host(host_id, ttl, reason)
        if file is None:
            show(form, answer, [answer["token"]], lambda: say(answer["token"]))
            return
        file.write(answer["token"] + "\n")
    rest = {name: value for name, value in answer.items() if name != "token"}
    show(form, rest, [host_id], lambda: say(f"host {host_id} may join until {answer['until']} with {out}"))


@host.command("invitations", epilog=examples("paceline host invitations", "paceline host invitations -o json"))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def invitations(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List open invitations: hosts that may still join. Their tokens are nowhere."""
    rows = list(client.host_invitations())
    columns = [
        Column("HOST", lambda each: each["host_id"]),
        Column("ENDS", lambda each: ahead(each["until"], zone)),
        Column("INVITED", lambda each: when(each["at"], zone)),
        Column("BY", lambda each: each["actor"]["name"] if each["actor"] else "-"),
        Column("REASON", lambda each: each["reason"] or "-"),
    ]
    names = (each["host_id"] for each in rows)
    show(form, {"host_invitations": rows}, names, lambda: table(rows, columns, shape))


def _private(path: Path) -> int:
    """Makes a file of this user alone."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error


@host.command(epilog=examples("paceline host clear worker-7 --reason 'disk replaced'"))
@ID
@click.option("--reason", default="", help="Reason, recorded in the log.")
@output_option
@cell_option
@with_client
def clear(client: "Client", host_id: str, reason: str, form: str) -> None:
    """Clear a suspected host: it takes new tasks again.

    A host is suspected when tasks of several jobs fail there at once, or when a task does not end though it was killed.
    It takes no new tasks for ten minutes, except those that may run on no other host.
    """
    answer = client.clear_host(host_id, reason, wait=DECIDED_S)
    show(form, answer, [host_id], lambda: say(f"host {host_id} {answer.get('message') or 'takes new tasks again'}"))


@host.command(
    epilog=examples(
        "paceline host taint worker-7 dedicated=ml",
        "paceline host taint worker-7 dedicated --remove --reason shared",
        "paceline host taint worker-7 gpu-broken --effect evict",
    )
)
@ID
@click.argument("taint", metavar="KEY[=VALUE]")
@click.option("--remove", is_flag=True, help="Take the taint of this key off the host.")
@click.option(
    "--effect",
    type=click.Choice(["no_place", "evict"]),
    default="no_place",
    show_default=True,
    help="Keep new tasks away; or also let those leave that run there, as their budgets allow.",
)
@click.option("--reason", default="", help="Reason, recorded in the log.")
@output_option
@cell_option
@with_client
def taint(client: "Client", host_id: str, taint: str, remove: bool, effect: str, reason: str, form: str) -> None:
    """Taint a host: it takes only new tasks that tolerate the taint.

    Tasks that run there go on, unless the effect is evict: then those leave that don't tolerate it, as their budgets
    allow, until it is taken off. A job tolerates a taint by naming KEY or KEY=VALUE in its `tolerations`. A taint of
    the same key gets the new value and effect. Taints that the agent of a host has in its settings are changed there.
    """
    key, _, value = taint.partition("=")
    answer = client.taint_host(host_id, key, value, remove, reason, wait=DECIDED_S, effect=effect)
    done = f"has no taint {key} by operators any more" if remove else f"has the taint {taint}"
    show(form, answer, [host_id], lambda: say(f"host {host_id}: {answer.get('message') or done}"))
