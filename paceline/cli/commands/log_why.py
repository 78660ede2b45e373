"""`paceline log why`: what led to a decision."""

from typing import TYPE_CHECKING

import click

from paceline.cli.commands.common import at_option, cell_option, examples, output_option, with_client, zone_option
from paceline.output import say, show, when

if TYPE_CHECKING:
    from paceline.client.cause_models import CauseRecord, Causes
    from paceline.client.client import Client

HOW = {"newest": "after (newest input then)", "entity": "because (same entity)"}
DEEPEST = 24
"""Deeper records are indented no further."""


@click.command(
    epilog=examples(
        "paceline log why tiles-1f0c",
        "paceline log why paceline.entitlement:57 --utc",
        "paceline log why placement/round/812/3 -o json",
    )
)
@click.argument("subject", metavar="POSITION|JOB")
@at_option
@zone_option
@output_option
@cell_option
@with_client
def why(client: "Client", subject: str, zone: str, form: str) -> None:
    """Show what led to a decision: the facts and decisions before it, over all machines.

    POSITION is a record, such as paceline.lifecycle:57, or a round, such as placement/round/812; /3 after either means
    the decision with that index. Of a job, the decision behind its headline is explained. Links are *recorded*: the
    log itself names the cause; *same entity*: both are about the same job, gang or instance: likely, not certain; or
    *newest input*: the last thing that the machine knew before, maybe unrelated.
    """
    body = client.causes(subject)
    show(form, body, (each["position"] or "" for each in body["records"]), lambda: _print(body, zone))


def _print(body: "Causes", zone: str) -> None:
    records = {each["position"]: each for each in body["records"]}
    printed: set[str] = set()
    for position in body["starts"]:
        _print_record(records, printed, position, "", 0, zone)
    if not body["whole"]:
        say("…and what led to more of these, which is too much to show")


def _address(record: "CauseRecord") -> str:
    """Where a fact came from."""
    actor = record["actor"]
    return f", from {actor['address']}" if actor and actor["address"] else ""


def _print_record(
    records: "dict[str | None, CauseRecord]", printed: set[str], position: str, link: str, depth: int, zone: str
) -> None:
    """Prints a record and, indented below it, what led to it; a second time its position alone."""
    indent = "  " * min(depth, DEEPEST)
    record = records.get(position)
    if record is None or position in printed:
        say(f"{indent}{link}{position}{': see above' if record else ''}")
        return
    printed.add(position)
    say(f"{indent}{link}{when(record['at'], zone)}  {position}  {record['text']}{_address(record)}")
    for cause in record["causes"]:
        how = HOW.get(cause["link"], "because")
        if cause["position"] is None:
            say(f"{indent}  {how} it was {when(cause['at'], zone)}")
        else:
            _print_record(records, printed, cause["position"], f"{how} ", depth + 1, zone)
