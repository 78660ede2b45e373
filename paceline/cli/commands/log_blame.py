"""`paceline log blame`: who moved a value last."""

import json
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import at_option, cell_option, examples, output_option, with_client, zone_option
from paceline.output import say, show, when

if TYPE_CHECKING:
    from paceline.client.cause_models import Blame, CauseRecord
    from paceline.client.client import Client


@click.command(
    epilog=examples(
        "paceline log blame /maps:share",
        "paceline log blame /maps:limit:gpu --utc",
        "paceline log blame tiles-1f0c:state -o json",
        "paceline log blame tiles-1f0c/3:host_id",
        "paceline log blame host/h17:state",
        "paceline log blame cell:preemption_delay --at 2h",
    )
)
@click.argument("target", metavar="TARGET")
@at_option
@zone_option
@output_option
@cell_option
@with_client
def blame(client: "Client", target: str, zone: str, form: str) -> None:
    """Show who moved a value last, by which fact or decision, why, and what followed from it.

    TARGET is /POOL:FIELD, JOB:FIELD, JOB/TASK:FIELD, host/NAME:FIELD or cell:NAME, with the fields that `get -o json`
    shows; a resource or another name in the value may follow, such as /maps:limit:gpu. A wrong field is answered with
    a list of those that there are. `paceline log why POSITION` shows all that led to the record.
    """
    body = client.blame(target)
    show(form, body, [body["moved"]] if body["moved"] else [], lambda: _print(body, zone))


def _print(body: "Blame", zone: str) -> None:
    say(f"{body['of']} is {_written(body['value'])}")
    if body["moved"] is None:
        say("nobody has moved it: it has its default, or the record is kept no longer")
        return
    say(f"moved by  {_line(next(each for each in body['records'] if each['position'] == body['moved']), zone)}")
    if (by := body["by"]) is not None:
        reason = f", reason: {by['reason']}" if by["reason"] else ""
        say(f"who       {by['actor']['name']}, {when(by['at'], zone)}, {by['position']}{reason}")
    else:
        say("who       no fact behind it says who wrote it")
    for number, each in enumerate(body["followed"]):
        say(f"{'then      ' if not number else ' ' * 10}{_line(each, zone)}")
    if not body["followed_whole"]:
        say(" " * 10 + "…and more")


def _line(record: "CauseRecord", zone: str) -> str:
    return f"{when(record['at'], zone)}  {record['position']}  {record['text']}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)
