"""`paceline access`: bind roles, and ask who may what."""

from typing import TYPE_CHECKING

import click

from events.roles import ROLES, Verb
from paceline.cli.commands.common import (
    DECIDED_S,
    DRY_RUN,
    REASON,
    Later,
    at_option,
    cell_option,
    complete,
    examples,
    list_options,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.groups import CommandGroup
from paceline.output import Column, TableOptions, ahead, facts, say, show, table, when

if TYPE_CHECKING:
    from paceline.client.access_models import WhoAmI
    from paceline.client.client import Client


@click.group(cls=CommandGroup)
def access() -> None:
    """Bind roles to users and groups, and ask who may what."""


@access.command(
    epilog=examples(
        "paceline access bind submitter --group maps --pool /maps",
        "paceline access bind operator --subject ann --pool / --until 7d --reason 'on call'",
        "paceline access bind auditor --subject eve --pool / --from 2026-12-01 --until 2026-12-31T18:00Z",
    )
)
@click.argument("role", type=click.Choice(tuple(ROLES)))
@click.option("--subject", default="", metavar="NAME", help="The user or program that gets it.")
@click.option("--group", default="", metavar="NAME", help="The group that gets it; everybody is a group of all.")
@click.option("--pool", required=True, metavar="PATH", shell_complete=complete("pool"), help="The pool; / for all.")
@click.option(
    "--from", "from_at", type=Later(), metavar="TIME|IN", help="When it begins, such as 2h from now. [default: at once]"
)
@click.option(
    "--until",
    "until_at",
    type=Later(),
    metavar="TIME|IN",
    help="When it ends, such as 30d from now. [default: when it is unbound]",
)
@click.option("--id", "binding_id", default="", metavar="ID", help="Name of the binding; an existing one is replaced.")
@REASON
@DRY_RUN
@output_option
@cell_option
@with_client
def bind(
    client: "Client",
    role: str,
    subject: str,
    group: str,
    pool: str,
    from_at: str | None,
    until_at: str | None,
    binding_id: str,
    reason: str,
    dry_run: bool,
    form: str,
) -> None:
    """Bind a role over a pool, and all below it, to a user or a group."""
    if bool(subject) == bool(group):
        raise click.UsageError("name either --subject or --group")
    answer = client.bind_role(
        role, pool, subject, group, binding_id, from_at or "", until_at or "", reason, wait=DECIDED_S, dry_run=dry_run
    )
    name = answer.get("binding_id", "")
    done = f"binding {name}: {subject or f'group {group}'} has role {role} over {pool}"
    show(form, answer, [name], lambda: say(answer.get("message", "") if dry_run else done))


@access.command(epilog=examples("paceline access unbind b-5f0c9a1e --reason 'left the team'"))
@click.argument("binding_id", metavar="BINDING")
@REASON
@DRY_RUN
@output_option
@cell_option
@with_client
def unbind(client: "Client", binding_id: str, reason: str, dry_run: bool, form: str) -> None:
    """End a binding."""
    answer = client.unbind_role(binding_id, reason, DECIDED_S, dry_run)
    text = answer.get("message", "") if dry_run else f"binding {binding_id} has ended"
    show(form, answer, [binding_id], lambda: say(text))


@access.command("list", epilog=examples("paceline access list", "paceline access list --at 24h -o json"))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List bindings of roles."""
    rows = list(client.bindings())
    columns = [
        Column("BINDING", lambda each: each["binding_id"]),
        Column("WHO", lambda each: each["subject"] or f"group {each['group']}"),
        Column("ROLE", lambda each: each["role"]),
        Column("POOL", lambda each: each["pool"]),
        Column("FROM", lambda each: when(each["from_at"] or each["at"], zone)),
        Column("UNTIL", lambda each: ahead(each["until_at"], zone)),
        Column("REASON", lambda each: each["reason"] or "-"),
    ]
    names = (each["binding_id"] for each in rows)
    show(form, {"bindings": rows}, names, lambda: table(rows, columns, shape))


@access.command(
    epilog=examples(
        "paceline access check ci-maps submit /maps/tiles", "paceline access check ann exec job/nightly --at 24h"
    )
)
@click.argument("actor")
@click.argument("verb", type=click.Choice([each.value for each in Verb]))
@click.argument("object", metavar="OBJECT")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group of the actor. May be repeated.")
@output_option
@at_option
@cell_option
@with_client
def check(client: "Client", actor: str, verb: str, object: str, groups: tuple[str, ...], form: str) -> int:
    """Tell whether an actor may do something, by which binding, or which roles would allow it.

    OBJECT is a pool such as /maps, job/ID, host/ID or cell. Exits with 1 if it is not allowed.
    """
    body = client.check_access(actor, verb, object, groups)
    show(form, body, [actor], lambda: say(f"{'yes' if body['allowed'] else 'no'}: {body['message']}"))
    return 0 if body["allowed"] else 1


@access.command(epilog=examples("paceline access whoami", "paceline access whoami -o json"))
@output_option
@cell_option
@with_client
def whoami(client: "Client", form: str) -> None:
    """Show as whom the cell knows you, and your roles."""
    body = client.whoami()
    show(form, body, [body["subject"]], lambda: _print(body))


def _print(body: "WhoAmI") -> None:
    reads = body["reads"]
    facts(
        [
            ("you", "the token of the cell" if body["is_cell"] else body["subject"] or "nobody that the cell knows"),
            ("known by", " ".join(filter(None, (body["how"], body["credential"]))) or "-"),
            ("groups", ", ".join(body["groups"]) or "-"),
            ("may read", "everything" if reads is None else ", ".join(reads) or "nothing"),
        ]
    )
    for each in body["bindings"]:
        say(f"role      {each['role']} over {each['pool']} (binding {each['binding_id']})")
