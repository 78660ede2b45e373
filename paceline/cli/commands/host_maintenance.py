"""Commands that drain hosts, cordon them and take them back, and that tell what holds a drain up."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from events.host_health import SUSPECTED
from events.words import listed, plural
from paceline.cli.commands.common import (
    DECIDED_S,
    Duration,
    at_option,
    cell_option,
    complete,
    drain_options,
    examples,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.commands.job_commands import TIMEOUT, check_timeout
from paceline.cli.commands.reasons import reason_for_jobs, reason_option
from paceline.cli.maintenance_progress import host_line, wait_drained
from paceline.output import Column, note, say, show, table, timed, when

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.host_models import Host
    from paceline.client.maintenance_models import DrainedJob, DrainEffects, HostMaintenance, HostsAnswer

SHOWN_MAX = 20
IDS = click.argument("ids", nargs=-1, metavar="ID...", required=True, shell_complete=complete("host"))
_LEAVES = {
    "at_once": "at once: it has no SLA",
    "asked": "by its SLA: {at_a_time} of {instances} at a time",
    "replaced": "by replacement: {at_a_time} at a time, the next is up first",
    "never": "never: its SLA doesn't allow it",
    "batch": "when it ends",
    "moved": "at once: batch tasks move",
    "forced": "at once: all is ended by force",
    "bound": "last: it is bound to the host",
}


def time_of(seconds: float | None) -> str | None:
    """A time as the API takes it."""
    return None if seconds is None else f"{round(seconds * 1000)}ms"


@click.command(
    epilog=examples(
        "paceline host drain worker-7 --reason 'new disk' --wait",
        "paceline host drain --attribute rack=r3 --max-hosts 5 --dry-run",
        "paceline host drain worker-7 --batch move --deadline 2h --escalate force --force-after 10m",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("host"))
@click.option("--attribute", metavar="KEY=VALUE", help="Instead of IDs: the hosts with this attribute.")
@click.option("--max-hosts", type=click.IntRange(1, 100_000), help="So many of these hosts, the cheapest to drain.")
@drain_options
@click.option(
    "--escalate",
    type=click.Choice(["wait", "preempt", "force"]),
    default="wait",
    show_default=True,
    help="At the deadline, preempt batch tasks; or end all --force-after later, whatever SLAs say.",
)
@click.option("--force-after", type=Duration(), metavar="TIME", help="For --escalate force. [default: 10m]")
@click.option("--force-now", is_flag=True, help="End all that runs there at once, whatever SLAs say.")
@click.option("--yes", is_flag=True, help="Don't ask before --force-now.")
@reason_option
@click.option("--dry-run", is_flag=True, help="Tell what would leave, and when; write nothing.")
@click.option("--wait", is_flag=True, help="Wait until the hosts are drained, with a line for each change.")
@TIMEOUT
@output_option
@cell_option
@with_client
def drain(
    client: "Client",
    ids: tuple[str, ...],
    attribute: str | None,
    reason: str,
    force_now: bool,
    yes: bool,
    dry_run: bool,
    wait: bool,
    timeout: float | None,
    form: str,
    **words: Any,
) -> int:
    """Empty hosts: nothing new is placed there, and what runs there leaves as the SLAs of jobs allow.

    All of the hosts are drained, or none where one is refused. Tasks of services without an SLA stop at once and run
    elsewhere; what is bound to its host leaves last. A second drain replaces the times of the first. With --wait it
    exits with 0 when all are drained, with 1 when one was taken back meanwhile, with 124 when --timeout has passed:
    the drain goes on then.
    """
    check_timeout(wait, timeout)
    hosts = named_hosts(ids, attribute)
    fields = _fields(words, force_now)
    effects = client.check_drain(**hosts, plan=dry_run, **fields)
    if dry_run:
        show(form, effects, (each["host_id"] for each in effects["hosts"]), lambda: print_effects(effects))
        return 0
    if force_now:
        _confirm_force(effects, yes)
    fields["reason"] = reason_for_jobs(client, (), reason, {each["job_id"]: each["owner"] for each in effects["jobs"]})
    answer = client.drain_hosts(**hosts, **fields, wait=DECIDED_S)
    host_ids = answer.get("host_ids") or [each["host_id"] for each in effects["hosts"]]
    show(form, answer, host_ids, lambda: _print_answer(answer, host_ids, "drains", "drain"))
    return wait_drained(client, host_ids, timeout) if wait else 0


def named_hosts(ids: Sequence[str], attribute: str | None) -> dict[str, Any]:
    """The hosts of a command, as the client takes them."""
    if ids and attribute:
        raise click.UsageError("give IDs or --attribute, not both")
    if bool(ids) == bool(attribute):
        raise click.UsageError("name hosts, or choose them by --attribute KEY=VALUE")
    if attribute is None:
        return {"host_ids": list(ids)}
    key, equals, value = attribute.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{attribute!r} isn't KEY=VALUE, such as rack=r3", param_hint="'--attribute'")
    return {"attribute": key, "values": value.split(",")}


def _fields(words: dict[str, Any], force_now: bool) -> dict[str, Any]:
    """The words of a drain that were given."""
    deadline, escalate, force_after = words["deadline"], words["escalate"], words["force_after"]
    if escalate != "wait" and not deadline:
        raise click.UsageError(f"--escalate {escalate} happens at the deadline: add --deadline")
    if force_after is not None and escalate != "force":
        raise click.UsageError("--force-after is for --escalate force")
    fields = {
        "batch": words["batch"],
        "deadline": time_of(deadline),
        "escalate": escalate,
        "force_after": time_of(force_after),
        "max_hosts": words["max_hosts"],
        "force": force_now or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _confirm_force(effects: "DrainEffects", yes: bool) -> None:
    if yes:
        return
    runs = sum(each["runs"] for each in effects["hosts"])
    text = f"{plural(runs, 'run')} on {plural(len(effects['hosts']), 'host')} would be ended, whatever SLAs say"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{text}: confirm with --yes")
    click.confirm(f"{text}. Continue?", abort=True, err=True)


def print_effects(effects: "DrainEffects") -> None:
    """Prints what a drain would do."""
    hosts, jobs = effects["hosts"], effects["jobs"]
    table(
        hosts[:SHOWN_MAX],
        [
            Column("HOST", lambda each: each["host_id"]),
            Column("RUNS", lambda each: each["runs"], right=True),
            Column("AT ONCE", lambda each: each["at_once"], right=True),
            Column("BY SLA", lambda each: each["asked"], right=True),
            Column("BATCH", lambda each: each["batch"], right=True),
            Column("BOUND", lambda each: each["bound"], right=True),
        ],
    )
    if jobs:
        say()
        table(
            jobs[:SHOWN_MAX],
            [
                Column("JOB", lambda each: each["job_id"]),
                Column("RUNS", lambda each: each["runs"], right=True),
                Column("LEAVES", _leaves),
            ],
        )
    for rest, what in ((len(hosts) - SHOWN_MAX, "host"), (len(jobs) - SHOWN_MAX, "job")):
        if rest > 0:
            note(f"and {plural(rest, f'more {what}')}; -o json shows all")
    for each in effects["notes"]:
        note(each)
    if bound := effects.get("bound"):
        note(bound)
    note("nothing was written")


def _leaves(job: "DrainedJob") -> str:
    """The way in which runs of a job leave, in words."""
    text = _LEAVES[job["leaves"]].format_map(job)
    if job["leaves"] in ("asked", "replaced") and job["per_hour"] is not None:
        return f"{text}, {job['per_hour']} an hour"
    return text


def _print_answer(answer: "HostsAnswer", host_ids: Sequence[str], one: str, many: str) -> None:
    if "code" not in answer:
        say("the request is recorded and not decided yet; look with: paceline host list")
        return
    names = listed(host_ids, SHOWN_MAX)
    done = one if len(host_ids) == 1 else many
    again = " already" if answer["code"] == "REPEATED" else ""
    say(f"host{'s' * (len(host_ids) > 1)} {names} {done}{again}")
    for each in answer.get("notes", ()):
        note(each)


def _command(name: str, help_: str, send: str, one: str, many: str, example: str) -> click.Command:
    """A command about hosts that needs no more words."""

    @click.command(name, help=help_, epilog=examples(example))
    @IDS
    @click.option("--reason", default="", help="Reason, recorded in the log.")
    @output_option
    @cell_option
    @with_client
    def command(client: "Client", ids: tuple[str, ...], reason: str, form: str) -> None:
        tell: Callable[..., HostsAnswer] = getattr(client, send)
        answer = tell(list(ids), reason, wait=DECIDED_S)
        host_ids = answer.get("host_ids") or list(ids)
        show(form, answer, host_ids, lambda: _print_answer(answer, host_ids, one, many))

    return command


cordon = _command(
    "cordon",
    "Keep new tasks away from hosts, except those that are bound to them.\n\nWhat runs there goes on. All hosts are "
    "cordoned, or none where one is refused.",
    "cordon_hosts",
    "is cordoned",
    "are cordoned",
    "paceline host cordon worker-7 worker-8 --reason 'strange noise'",
)
uncordon = _command(
    "uncordon",
    "End the cordon of hosts.\n\nRefused where one drains or is drained: `paceline host resume` ends that.",
    "uncordon_hosts",
    "takes new tasks",
    "take new tasks",
    "paceline host uncordon worker-7",
)
resume = _command(
    "resume",
    "Take hosts back: end their drains and cordons.\n\nA host that a campaign works on has its work done by that; one "
    "that it drains, or has not begun with, is left out of it.",
    "resume_hosts",
    "is taken back",
    "are taken back",
    "paceline host resume worker-7",
)


@click.command(epilog=examples("paceline host explain worker-7"))
@click.argument("host_id", metavar="ID", shell_complete=complete("host"))
@zone_option
@output_option
@at_option
@cell_option
@with_client
def explain(client: "Client", host_id: str, zone: str, form: str) -> None:
    """Explain why a host takes no tasks, and what each task that holds up its drain waits for."""
    body = client.host(host_id)
    show(form, body, [host_id], lambda: _explain(body, zone))


def _explain(host: "Host", zone: str) -> None:
    say(host_line(host).partition(";")[0])
    for line in explained(host, zone):
        say(f"  {line}")


def explained(host: "Host", zone: str = "") -> list[str]:
    """Why a host takes no tasks, in sentences."""
    lines = []
    if host["lost"] and host["state"] == "LOST":
        lines.append(f"it was lost {when(host['lost']['at'], zone)} ({host['lost']['code']})")
    if host["state"] == "SILENT":
        lines.append(f"it isn't heard since {when(host['silent_since'], zone)}")
        if host["runs"]:
            lines.append(
                f"its {plural(host['runs'], 'task')} can't be told to leave: they run elsewhere once it is lost, which "
                f"`paceline host confirm-loss {host['host_id']} --yes` says at once"
            )
    if why := host["suspected"]:
        lines.append(f"{why['message']} ({why['code']})")
    if shrunk := host["shrunk"]:
        lines.append(f"{shrunk['message']} ({shrunk['code']})")
    for each in host.get("conditions", ()):
        if each["name"] != SUSPECTED:
            lines.append(f"{each['name']}: {each['evidence']} ({each['code']}): {each['done']}")
    for taint in host.get("taints", ()):
        name = taint["key"] + (f"={taint['value']}" if taint["value"] else "")
        leave = "; those that run there leave as their SLAs allow" if taint["effect"] == "evict" else ""
        lines.append(f"taint {name}: it takes no new tasks that don't tolerate it{leave}")
    if host["maintenance"]:
        lines += maintenance_lines(host["maintenance"], zone)
    elif host["state"] in ("CONNECTING", "RETURNING"):
        lines.append(f"it takes no new tasks while it is {host['state']}")
    return lines or ["it takes new tasks"]


def maintenance_lines(maintenance: "HostMaintenance", zone: str = "") -> list[str]:
    """The maintenance of a host in sentences: whose it is, its deadlines, and what each task that is left waits for."""
    reason = f": {maintenance['reason']}" if maintenance["reason"] else ""
    begun = maintenance["begun_at"] or maintenance["since"]
    lines = [f"{maintenance['stage']} by {_by(maintenance)}, {when(begun, zone)}{reason}"]
    for time, text in (
        (maintenance["preempt_at"], "preemptible batch tasks leave"),
        (maintenance["force_at"], "all that is left is ended"),
    ):
        if time:
            lines.append(timed(f"{text} at {time}", zone))
    lines += [
        f"{wait['job_id']}: {timed(wait['message'], zone)} ({wait['code']}), {when(wait['since'], zone)}"
        for wait in maintenance.get("waits", ())
    ]
    return lines


def _by(maintenance: "HostMaintenance") -> str:
    """The one whose maintenance it is: `operator anna`, `campaign kernel of anna`."""
    kind, name = maintenance["by"] or "operator", maintenance["actor"]["name"] if maintenance["actor"] else ""
    if kind == "operator":
        return f"operator {name}" if name else "an operator"
    return " ".join(filter(None, (kind, maintenance["source"], name and f"of {name}")))
