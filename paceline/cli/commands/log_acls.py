"""`paceline log acls`: the rights that the users of processes need on Kafka."""

import click

from paceline.cli.commands.common import examples, report_option
from paceline.output import say, show


@click.command(
    epilog=examples(
        "paceline log acls --kafka broker:9092",
        "paceline log acls --kafka broker:9092 --user-prefix paceline- --command-config admin.properties | sh -e",
        "paceline log acls --for gateway --for producer -o json",
    )
)
@click.option("--kafka", metavar="HOST:PORT,...", default="localhost:9092", show_default=True, help="Brokers to name.")
@click.option(
    "--command-config", "admin", metavar="FILE", default="", help="Client settings of a user who may change ACLs."
)
@click.option(
    "--user-prefix",
    "prefix",
    metavar="TEXT",
    default="paceline-",
    show_default=True,
    help="Prefix of user names; the kind of process follows.",
)
@click.option("--for", "kinds", multiple=True, metavar="KIND", help="Only this kind of user; may be repeated.")
@report_option
def acls(kafka: str, admin: str, prefix: str, kinds: tuple[str, ...], form: str) -> None:
    """Print the commands of kafka-acls.sh that allow each kind of process what it needs on Kafka, and nothing else.

    The kinds and their rights are listed in docs/security.md. The commands only add ACLs; the users themselves, and
    allow.everyone.if.no.acl.found=false, are matters of the brokers.
    """
    from paceline.services.kafka_rights import RIGHTS, commands, grants

    for kind in kinds:
        if kind not in RIGHTS:
            raise click.BadParameter(f"{kind} is none of {', '.join(RIGHTS)}", param_hint="--for")
    granted = grants(kinds or RIGHTS, prefix)

    def lines() -> None:
        for line in commands(granted, kafka, admin):
            say(line)

    show(form, {"acls": [each.body() for each in granted]}, table=lines)
