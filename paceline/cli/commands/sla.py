"""`paceline sla`: what is left of the budgets of jobs, and the budgets that jobs share."""

from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    DECIDED_S,
    at_option,
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    with_client,
)
from paceline.cli.commands.reasons import reason_option
from paceline.cli.groups import CommandGroup
from paceline.client.errors import NotFound
from paceline.output import Column, TableOptions, ahead, facts, say, show, table, timed

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.sla_models import SlaGroup, SlaState

COLUMNS = [
    Column("JOB", lambda each: each["job_id"]),
    Column("WANTED", lambda each: each["wanted"], right=True),
    Column("UNAVAILABLE", lambda each: each["unavailable"], right=True),
    Column("ALLOWED", lambda each: each["allowed"], right=True),
    Column("SLACK", lambda each: each["slack"], right=True),
    Column("WAITING", lambda each: sum(wait["tasks"] for wait in each["waits"]), right=True),
    Column("GROUP", lambda each: each["group"]["group"] if each["group"] else None),
    Column("RISK", lambda each: each["risk"] or None),
]
USED_COLUMNS = [
    Column("USED BY", lambda each: each["what"]),
    Column("TASKS", lambda each: each["tasks"], right=True),
    Column("WHICH", lambda each: each["instances"]),
    Column("UNTIL", lambda each: ahead(each["until"])),
]
GROUP_COLUMNS = [
    Column("GROUP", lambda each: each["group"]),
    Column("MAX UNAVAILABLE", lambda each: each["bounds"]["max_unavailable"], right=True),
    Column("MIN AVAILABLE", lambda each: each["bounds"]["min_available"], right=True),
    Column("JOBS", lambda each: each["members"], right=True),
    Column("WANTED", lambda each: each["wanted"], right=True),
    Column("UNAVAILABLE", lambda each: each["unavailable"], right=True),
    Column("ALLOWED", lambda each: each["allowed"], right=True),
]
NAME = click.argument("name")


@click.group(cls=CommandGroup)
def sla() -> None:
    """Show what budgets of availability allow, and share budgets.

    The budget of a job is the field `sla` of its specification. Every planned disruption asks for it: drains, updates,
    restarts, preemption.
    """


@sla.command(epilog=examples("paceline sla get web", "paceline sla get /maps", "paceline sla get shop"))
@click.argument("name", metavar="JOB|POOL|GROUP", shell_complete=complete("job"))
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", name: str, form: str) -> None:
    """Show a budget: what it allows, what is used of it, by what and until when, and what waits for it.

    NAME is a job, a pool such as /maps, of which all jobs with an SLA are listed, or a group of jobs.
    """
    if name.startswith("/"):
        _list(client, name, False, form, TableOptions())
        return
    try:
        state = client.sla(name)
    except NotFound as error:
        try:
            group = client.sla_group(name)
        except NotFound as of_group:
            raise (of_group if "isn't set" in str(of_group) else error) from None
        show(form, group, [group["group"]], lambda: _print_group(group))
        return
    show(form, state, [state["job_id"]], lambda: _print(state))


@sla.command("list", epilog=examples("paceline sla list", "paceline sla list --at-risk --pool /maps"))
@click.option(
    "--at-risk", is_flag=True, help="Only jobs whose next planned disruption would be refused, or below a bound."
)
@click.option(
    "--pool", default="", metavar="PATH", help="Only of this pool and those below it.", shell_complete=complete("pool")
)
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", at_risk: bool, pool: str, form: str, shape: TableOptions) -> None:
    """List the budgets of open jobs that have an SLA."""
    _list(client, pool, at_risk, form, shape)


def _list(client: "Client", pool: str, at_risk: bool, form: str, shape: TableOptions) -> None:
    states = list(client.slas(pool, at_risk))
    body = {"slas": states, "next_page_token": ""}
    names = (each["job_id"] for each in states)
    show(form, body, names, lambda: table(states, [*COLUMNS, *cell_column(states)], shape))


@sla.group(cls=CommandGroup)
def group() -> None:
    """Share one budget between jobs: those that name the group in `sla`."""


@group.command("set", epilog=examples("paceline sla group set shop --max-unavailable 2 --reason 'one shared database'"))
@NAME
@click.option("--max-unavailable", metavar="N|P%", help="Instances of all jobs that may be unavailable on purpose.")
@click.option("--min-available", metavar="N|P%", help="Instances of all jobs that must stay available.")
@reason_option
@output_option
@cell_option
@with_client
def set_(
    client: "Client", name: str, max_unavailable: str | None, min_available: str | None, reason: str, form: str
) -> None:
    """Set the budget of a group, or another one; an option that is left out is no bound.

    Jobs may name a group before it is set: until then they have their own budgets alone.
    """
    if max_unavailable is None and min_available is None:
        raise click.UsageError("give --max-unavailable, --min-available or both")
    bounds = _part(max_unavailable, "--max-unavailable"), _part(min_available, "--min-available")
    answer = client.set_sla_group(name, *bounds, reason=reason, wait=DECIDED_S)
    show(form, answer, [name], lambda: say(answer.get("message") or "the request is recorded"))


@group.command(epilog=examples("paceline sla group remove shop"))
@NAME
@reason_option
@output_option
@cell_option
@with_client
def remove(client: "Client", name: str, reason: str, form: str) -> None:
    """Remove a group. Its jobs keep naming it, and have their own budgets alone until it is set again."""
    answer = client.remove_sla_group(name, reason, wait=DECIDED_S)
    show(form, answer, [name], lambda: say(answer.get("message") or "the request is recorded"))


@group.command("list", epilog=examples("paceline sla group list"))
@list_options
@at_option
@cell_option
@with_client
def list_groups(client: "Client", form: str, shape: TableOptions) -> None:
    """List the budgets that jobs share."""
    groups = client.sla_groups()
    names = (each["group"] for each in groups)
    show(form, {"groups": groups}, names, lambda: table(groups, GROUP_COLUMNS, shape))


def _part(value: str | None, option: str) -> int | str | None:
    """A number of instances, or a percentage."""
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    if value.endswith("%") and value[:-1].isdecimal() and int(value[:-1]) <= 100:
        return value
    raise click.BadParameter(
        f"{value!r} is neither a number of instances nor a percentage up to 100%, such as 25%", param_hint=option
    )


def _print(state: "SlaState") -> None:
    if state["sla"] is None:
        say(f"job {state['job_id']} has no SLA: all of its instances may be disrupted at once")
        return
    bounds = ", ".join(f"{name} {value}" for name, value in state["sla"].items() if _plain(value))
    pairs: list[tuple[str, object]] = [
        ("job", state["job_id"]),
        ("pool", state["pool"]),
        ("sla", bounds or None),
        ("available", f"{state['available']} of {state['wanted']}"),
        ("unavailable", f"{state['unavailable']}, {state['allowed']} may be"),
        ("slack", state["slack"]),
    ]
    if hour := state["hour"]:
        until = f", the first until {ahead(hour['until'])}" if hour["until"] else ""
        pairs.append(("in an hour", f"{hour['used']}, {hour['allowed']} may be{until}"))
    if shared := state["group"]:
        budget = f"{shared['unavailable']} unavailable, {shared['allowed']} may be"
        text = budget if shared["defined"] else "not set, so it bounds nothing"
        pairs.append(("group", f"{shared['group']}: {text}"))
    if state["window"]:
        pairs.append(("next window", ahead(state["window"])))
    facts([*pairs, ("risk", timed(state["risk"]) or "none")])
    if state["used"]:
        say()
        table(state["used"], USED_COLUMNS)
    for wait in state["waits"]:
        say(f"\n{wait['code']}: {wait['message']}")


def _plain(value: Any) -> bool:
    """Whether a field of an SLA is shown in the line of its bounds."""
    return value is not None and not isinstance(value, list)


def _print_group(group: "SlaGroup") -> None:
    pairs: list[tuple[str, object]] = [("group", group["group"])]
    pairs += [(name.replace("_", " "), value) for name, value in group["bounds"].items() if value is not None]
    pairs += [
        ("available", f"{group['wanted'] - group['unavailable']} of {group['wanted']}"),
        ("unavailable", f"{group['unavailable']}, {group['allowed']} may be"),
        ("slack", group["slack"]),
    ]
    facts(pairs)
    if group["jobs"]:
        say()
        table(group["jobs"], COLUMNS)
