"""`paceline log blame`: who moved a value last."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import (
    at_option,
    cell_option,
    client_of,
    data_option,
    examples,
    note_moment,
    output_option,
    zone_option,
)
from paceline.cli.reach import reach
from paceline.output import note, say, show, when

if TYPE_CHECKING:
    from paceline.client.cause_models import Blame, CauseRecord
    from paceline.services.settings import Settings


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
@click.option("--server", metavar="ADDRESS", help="Address of the API. [default: the cell on the data folder]")
@click.option(
    "--token", metavar="TOKEN", help="Token for writes. [default: without --server, the one in the data folder]"
)
@data_option
@at_option
@zone_option
@output_option
@cell_option
def blame(
    target: str,
    server: str | None,
    token: str | None,
    data: Path | None,
    config: Path | None,
    at: str | None,
    zone: str,
    form: str,
    cell: int | None,
) -> None:
    """Show who moved a value last, by which fact or decision, why, and what followed from it.

    TARGET is /POOL:FIELD, JOB:FIELD, JOB/TASK:FIELD, host/NAME:FIELD or cell:NAME, with the fields that `get -o json`
    shows; a resource or another name in the value may follow, such as /maps:limit:gpu. A wrong field is answered with
    a list of those that there are. `paceline log why POSITION` shows all that led to the record.

    Where no cell runs on the data folder, the answer comes from the log that lies there, or was imported there.
    """
    from paceline.client import cell_file

    reached = reach(config, server, token, data)
    lies_there = any((reached.data / name).is_dir() for name in ("log", "start"))
    if reached.server or not lies_there or cell_file.read(reached.data):
        with client_of(reached, cell, at=at) as client:
            body = client.blame(target)
            note_moment(client)
    else:
        from paceline.services.settings import load

        body = _of_log(load(config, server=server, token=token, data=data, cell=cell), target, at)
    show(form, body, [body["moved"]] if body["moved"] else [], lambda: _print(body, zone))


def _of_log(settings: "Settings", target: str, at: str | None) -> "Blame":
    from paceline.history.views_at import as_it_was
    from projections.api.blame import blamed
    from projections.queries.log_time import newest_ms

    with as_it_was(settings, at) as then:
        body = blamed(then.connection, then.log, target, newest_ms(then.connection))
    note(f"as of {then.moment}, {then.time}")
    return body


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
