"""`paceline cell get` and `paceline cell set`: settings and resources of a cell."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from events.nearest import meant
from paceline import output
from paceline.cli.commands.common import DECIDED_S, at_option, cell_option, examples, output_option, with_client
from paceline.cli.commands.lockdown import Lockdowns
from paceline.client.json_type import Json
from paceline.output import Column, facts, note, say, show, table

if TYPE_CHECKING:
    from paceline.client.access_models import StoredBinding
    from paceline.client.client import Client

LISTS = "resources", "conditions"
"""The settings of which a change names some items."""


@click.command(epilog=examples("paceline cell get", "paceline cell get --cell 1 -o json"))
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", form: str) -> None:
    """Show the settings of a cell, the resources that it knows, and its lockdowns."""
    body = client.cell_settings()
    names = [name for name in body if name not in LISTS]
    show(form, body, names, lambda: _print(body, names, Lockdowns(client).all()))


@click.command(
    epilog=examples(
        "paceline cell set preemption_delay=5s exec=off --reason 'audit'",
        "paceline cell set --resource gpu/a100 --resource scratch=MiB",
        "paceline cell set --licence matlab=20",
        "paceline cell set --condition disk-full=drain:5m --condition smart=off release_after=30m",
        "paceline cell set --topology zone,row,rack",
        "paceline cell set --access roles --reason 'two teams share it'",
    )
)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME[=UNIT]",
    help="Define a resource that hosts offer. UNIT is milli for numbers such as 1.5 (the default), or MiB for sizes "
    "such as 4GiB. May be repeated.",
)
@click.option(
    "--licence",
    "licences",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Define a licence: a resource of which the whole cell has an amount; or change its amount. May be repeated.",
)
@click.option(
    "--condition",
    "conditions",
    multiple=True,
    metavar="NAME=POLICY",
    help="Set what is done with hosts that have a condition. POLICY is avoid, drain[:TIME], off, or default. May be "
    "repeated.",
)
@click.option("--access", metavar="open|roles", help="Let everybody read, or only those with a role.")
@click.option(
    "--agents", metavar="token|certificates", help="Take agents with the token too, or with certificates alone."
)
@click.option(
    "--names", metavar="plain|hashed", help="Keep names and addresses of actors as they are, or keyed hashes."
)
@click.option("--calls-per-s", metavar="N", help="Calls that one actor may make a second. 0: any number.")
@click.option("--streams-per-actor", metavar="N", help="Streams that one actor may have open. 0: any number.")
@click.option(
    "--topology",
    metavar="LEVEL,...",
    help="Attributes of hosts from the largest part of the cell to the smallest, such as zone,row,rack; behind them "
    "host may stand, and behind that link_group. none: no tree.",
)
@click.option("--late-after", metavar="TIME", help="How late after the end of a binding its facts may land.")
@click.option("--reason", default="", help="Reason, recorded in the log.")
@output_option
@cell_option
@with_client
def set_(
    client: "Client",
    settings: tuple[str, ...],
    resources: tuple[str, ...],
    licences: tuple[str, ...],
    conditions: tuple[str, ...],
    reason: str,
    form: str,
    **options: str | None,
) -> None:
    """Change settings of a cell. All that is not named stays as it is.

    `paceline cell get` lists the settings with their meaning. A resource can't be removed, and keeps its unit.
    """
    settings += tuple(f"{name}={value}" for name, value in options.items() if value is not None)
    changes: Json = {name: _setting(name, text) for name, text in _known(_pairs(settings, "NAME=VALUE"))}
    kinds: list[Json] = [_kind(each) for each in resources]
    kinds += [{"name": name, "amount": _value(text)} for name, text in _pairs(licences, "--licence")]
    if kinds:
        changes["resources"] = kinds
    if conditions:
        changes["conditions"] = [_policy(name, text) for name, text in _pairs(conditions, "--condition")]
    if not changes:
        raise click.UsageError(
            "name a setting to change, such as preemption_delay=5s, --resource, --licence or --condition"
        )
    has_admin = changes.get("access") != "roles" or _has_admin(client)
    answer = client.change_cell(changes, wait=DECIDED_S, reason=reason)
    changed = [each.partition("=")[0] for each in (*settings, *resources, *licences, *conditions)]
    done = {"DONE": "changed", "REPEATED": "unchanged"}.get(str(answer.get("code")), "not decided yet")
    show(form, answer, changed, lambda: say(f"cell: {', '.join(changed)} {done}"))
    if not has_admin:
        note(
            "warning: nobody is bound as admin of the cell, so only its own token, in the file token of its data "
            "folder, can bind roles and make tokens; it goes on to do everything. Bind an admin with: "
            "paceline access bind admin --subject NAME --pool /"
        )


def _has_admin(client: "Client") -> bool:
    """Whether somebody has the role admin over the cell now."""
    present = output.now()

    def holds(each: "StoredBinding") -> bool:
        begun, end = each["from_at"], each["until_at"]
        return (not begun or datetime.fromisoformat(begun) <= present) and (
            not end or present < datetime.fromisoformat(end)
        )

    return any(each["role"] == "admin" and each["pool"] == "/" and holds(each) for each in client.bindings())


def _pairs(texts: tuple[str, ...], what: str) -> list[tuple[str, str]]:
    """The names and values of arguments; each name comes once."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign or name in LISTS:
            raise click.BadParameter(f"{text!r} is no NAME=VALUE", param_hint=what)
        if name in pairs:
            raise click.BadParameter(f"{name} is named twice", param_hint=what)
        pairs[name] = value
    return list(pairs.items())


def _known(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs whose names are settings of a cell. Raises `BadParameter`."""
    if not pairs:
        return pairs
    from events.spec.settings import descriptions

    names = [name for name in descriptions() if name not in LISTS]
    for name, _ in pairs:
        if name not in names:
            near = meant(name, names) or "; `paceline cell get` lists them"
            raise click.BadParameter(f"{name[:100]} is no setting of a cell{near}", param_hint="NAME=VALUE")
    return pairs


def _setting(name: str, text: str) -> object:
    """The value of a setting as JSON has it."""
    if name == "topology":
        if not text.strip():
            raise click.BadParameter("names no level; none: no tree", param_hint="--topology")
        return [] if text == "none" else [each.strip() for each in text.split(",")]
    return _value(text)


def _value(text: str) -> object:
    """A value as JSON has it: a number, true or false (on or off), or text."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return {"true": True, "on": True, "false": False, "off": False}.get(text, text)


def _kind(text: str) -> Json:
    name, _, unit = text.partition("=")
    return {"name": name, "unit": unit} if unit else {"name": name}


def _policy(name: str, text: str) -> Json:
    policy, _, after = text.partition(":")
    return {"name": name, "policy": policy, "drain_after": after} if after else {"name": name, "policy": policy}


def _shown(value: object) -> object:
    """A setting as `cell set` takes it."""
    if isinstance(value, list):
        return ",".join(value) or "none"
    return ("on" if value else "off") if isinstance(value, bool) else value


def _print(body: Json, names: list[str], lockdowns: list[tuple[str, str]]) -> None:
    from events.resources import STANDARD
    from events.spec.settings import descriptions

    if lockdowns:
        facts(lockdowns)
        say()
    meaning = descriptions()
    columns = [
        Column("SETTING", lambda name: name),
        Column("VALUE", lambda name: _shown(body[name]), right=True),
        Column("MEANING", lambda name: meaning.get(name)),
    ]
    table(names, columns)
    say()
    kinds = [{"name": name, "unit": str(unit)} for name, unit in STANDARD.items()] + body["resources"]
    units = {"milli": "number, such as 1.5", "MiB": "size, such as 4GiB"}
    columns = [
        Column("RESOURCE", lambda each: each["name"]),
        Column("WRITTEN AS", lambda each: units.get(each["unit"], each["unit"])),
        Column("OF THE WHOLE CELL", lambda each: each.get("amount"), right=True),
    ]
    table(kinds, columns)
    if body["conditions"]:
        say()
        columns = [
            Column("CONDITION", lambda each: each["name"]),
            Column("POLICY", lambda each: each["policy"]),
            Column("DRAINED AFTER", lambda each: each.get("drain_after"), right=True),
        ]
        table(body["conditions"], columns)
