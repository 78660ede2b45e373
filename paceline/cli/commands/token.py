"""`paceline token`: make, list and revoke the tokens by which users and programs are known."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from events.roles import ROLES
from paceline.cli.commands.common import (
    DECIDED_S,
    DRY_RUN,
    REASON,
    at_option,
    cell_option,
    complete,
    examples,
    file_option,
    list_options,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.groups import CommandGroup
from paceline.output import Column, TableOptions, ahead, note, say, show, table, when

if TYPE_CHECKING:
    from paceline.client.client import Client


@click.group(cls=CommandGroup)
def token() -> None:
    """Make, list and revoke tokens.

    Who shows a token is known as its subject, and may do what roles of that subject and of its groups allow.
    """


@token.command(
    epilog=examples(
        "paceline token create --subject ci-maps --role submitter --pool /maps --ttl 30d",
        "paceline token create --subject ann --group maps --ttl 12h -o json",
    )
)
@click.option("--subject", required=True, metavar="NAME", help="Whom the token proves.")
@click.option("--role", type=click.Choice(tuple(ROLES)), help="Role that the subject gets until the token ends.")
@click.option("--pool", default="", metavar="PATH", shell_complete=complete("pool"), help="Pool of the role; /: all.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group that it proves too. May be repeated.")
@click.option(
    "--ttl", default="30d", show_default=True, metavar="TIME", help="How long it holds. 0: until it is revoked."
)
@file_option(
    "--public-key", help="Ed25519 public key, in PEM, of a producer that signs its facts itself; makes no token."
)
@REASON
@DRY_RUN
@output_option
@cell_option
@with_client
def create(
    client: "Client",
    subject: str,
    role: str | None,
    pool: str,
    groups: tuple[str, ...],
    ttl: str,
    public_key: Path | None,
    reason: str,
    dry_run: bool,
    form: str,
) -> None:
    """Make a token, and print it this once: the cell keeps only its SHA-256."""
    if bool(role) != bool(pool):
        raise click.UsageError("name both --role and --pool; / is the whole cell")
    key = _key_in(public_key) if public_key is not None else b""
    answer = client.create_token(subject, role or "", pool, ttl, groups, reason, DECIDED_S, dry_run, key)

    def told() -> None:
        if dry_run:
            say(answer.get("message", ""))
            return
        until = answer.get("until_at")
        end = f"ends {ahead(until)}" if until else "holds until it is revoked"
        if public_key is not None:
            say(f"key {answer['token_id']} vouches for {subject}, and {end}")
            return
        note(f"token {answer['token_id']} of {subject} {end}; it is shown this once")
        say(answer["token"])

    show(form, answer, [str(answer.get("token_id", ""))], told)


def _key_in(path: Path) -> bytes:
    """The Ed25519 key in a file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise click.UsageError(f"{path} has no Ed25519 public key in PEM; openssl pkey -pubout writes one")
    return key.public_bytes_raw()


@token.command("list", epilog=examples("paceline token list", "paceline token list --sort -used"))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List tokens: when each was used last, and when it ends. Their texts are nowhere."""
    rows = list(client.tokens())
    columns = [
        Column("TOKEN", lambda each: each["token_id"]),
        Column("SUBJECT", lambda each: each["subject"]),
        Column("GROUPS", lambda each: ",".join(each["groups"]) or "-"),
        Column("STATE", lambda each: each["state"]),
        Column("ENDS", lambda each: ahead(each["until_at"], zone) if each["state"] == "VALID" else "-"),
        Column("USED", lambda each: when(each["used_at"], zone)),
        Column("MADE", lambda each: when(each["at"], zone)),
        Column("BY", lambda each: each["actor"]["name"] if each["actor"] else "-"),
    ]
    names = (each["token_id"] for each in rows)
    show(form, {"tokens": rows}, names, lambda: table(rows, columns, shape))


@token.command(epilog=examples("paceline token revoke t-5f0c9a1e --reason 'leaked in a build log'"))
@click.argument("token_id", metavar="TOKEN")
@REASON
@DRY_RUN
@output_option
@cell_option
@with_client
def revoke(client: "Client", token_id: str, reason: str, dry_run: bool, form: str) -> None:
    """Revoke a token, by its id. Roles of its subject stay; `paceline access unbind` ends them."""
    answer = client.revoke_token(token_id, reason, DECIDED_S, dry_run)
    show(form, answer, [token_id], lambda: _print_revoked(client, token_id, answer.get("message") if dry_run else None))


def _print_revoked(client: "Client", token_id: str, planned: str | None) -> None:
    """The token that was revoked, or would be as `planned` says, and the roles that its subject keeps."""
    subject = next((each["subject"] for each in client.tokens() if each["token_id"] == token_id), "")
    say(planned or f"token {token_id} of {subject or 'an unknown subject'} is revoked")
    stay = [each for each in client.bindings() if subject and each["subject"] == subject]
    for each in stay:
        say(f"{subject} keeps role {each['role']} over {each['pool']}: paceline access unbind {each['binding_id']}")
