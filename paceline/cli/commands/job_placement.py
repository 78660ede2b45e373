"""`paceline job placement`: why a task runs where it runs."""

from typing import TYPE_CHECKING

import click

from events.bounds import INT_MAX
from events.words import plural
from paceline.cli.commands.common import (
    cell_option,
    complete,
    examples,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.commands.host_device import devices_words
from paceline.output import Column, note, say, show, table, when, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.client.client import Client
    from paceline.client.placement_models import PlacementCandidate, TaskPlacement


@click.command(epilog=examples("paceline job placement web --task 3", "paceline job placement web --task 3 --run 1"))
@click.argument("job_id", metavar="ID", shell_complete=complete("job"))
@click.option(
    "--task", "instance", type=click.IntRange(0, INT_MAX), help="Task of the job; one that has but one needs none."
)
@click.option("--run", type=click.IntRange(1, INT_MAX), help="Run of the task. [default: the present one]")
@zone_option
@output_option
@cell_option
@with_client
def placement(client: "Client", job_id: str, instance: int | None, run: int | None, zone: str, form: str) -> None:
    """Show the decision that placed a task, and the best five hosts at that moment.

    Placement is replayed up to that round, from the newest snapshot before it or from the start of the log. The
    columns stand in the order in which they count: the tasks of the job with the value of the attribute in `spread`,
    devices that the task doesn't ask for, the weights of preferences that aren't met, and 1 for a host without the
    image. SCORE is what a host had free, in parts of the largest host, and the sum of the columns after it: a job that
    is packed goes to the lowest, one that is spread to the host with fewest tasks of the job, then to the highest.
    LOAD is in sixteenths, ROOM the sum of what is free. With adaptive all is in cards, and the lowest comes first: LOSS
    is what the host loses for tasks that are expected, ROOM a small part of what is free, PLACE grows from the first
    to the last host of a model. With fragmentation LOSS is from 0 to 1 in 101 steps; above 0.5 fragments are left.
    """
    if instance is None and client.job(job_id)["instances"] != 1:
        raise click.UsageError(f"say which task of job {job_id}: --task N")
    body = client.placement(job_id, instance or 0, run)
    show(form, body, [body["host_id"]], lambda: _print(body, zone))


def _print(body: "TaskPlacement", zone: str) -> None:
    ports = f", ports {', '.join(map(str, body['ports']))}" if body["ports"] else ""
    say(f"task {body['instance']} of job {body['job_id']}, run {body['run']}: {body['host_id']}{ports}")
    say(f"  decided   {when(body['at'], zone)}, round {body['round']} of placement ({body['position']})")
    if devices := devices_words(body):
        say(f"  devices   {devices}")
    if body["alternative"] is not None:
        before = ", ".join(f"{at}: {code}" for at, code in enumerate(body["passed_over"]))
        say(f"  took      alternative {body['alternative']} of any_of{f' ({before})' * bool(before)}")
    if body["why"]:
        note(f"the candidates can't be derived: {body['why']}")
        if body["score"] is None:
            note("nor were strategy and score recorded: the round is of a release before 0.4")
        else:
            say(f"  strategy  {body['strategy']}; {_possible(plural(body['feasible'], 'host'), body['feasible'])}")
            say(f"  score     {body['score']:.4f}, as the round recorded it")
        return
    possible = _possible(f"{body['feasible']} of {plural(body['hosts'], 'host')}", body["feasible"])
    say(f"  strategy  {body['strategy']}; {possible}")
    names = list(dict.fromkeys(name for each in body["candidates"] for name in each["terms"]))
    columns = [
        Column("HOST", lambda each: each["host_id"]),
        Column("", _mark),
        *_before_the_score(body),
        Column("SCORE", lambda each: f"{each['score']:.4f}", right=True),
        *(Column(name.upper(), _term(name), right=True) for name in names),
        Column("FREE", lambda each: words(each["free"])),
    ]
    table(body["candidates"], columns)


def _possible(hosts: str, count: int) -> str:
    return f"{hosts} {'was' if count == 1 else 'were'} possible"


def _before_the_score(body: "TaskPlacement") -> list[Column]:
    """The columns of what goes before the score of a host; those that are empty for all are left out."""
    over, all_ = body["spread_over"], body["candidates"]
    columns = [Column("TASKS", lambda each: each["tasks"], right=True)]
    if over not in ("", "host"):
        columns[:0] = [
            Column(over.upper(), lambda each: each["value"] or None),
            Column(f"TASKS IN {over.upper()}", lambda each: each["value_tasks"], right=True),
        ]
    if any(each["with_devices"] for each in all_):
        columns.append(Column("DEVICES", lambda each: "some" if each["with_devices"] else None))
    if any(each["unmet"] for each in all_):
        columns.append(Column("UNMET", lambda each: each["unmet"], right=True))
    if any(each["without_image"] for each in all_):
        columns.append(Column("IMAGE", lambda each: "not there" if each["without_image"] else "there"))
    return columns


def _mark(each: "PlacementCandidate") -> str | None:
    marks = [*(["chosen"] if each["chosen"] else []), *(["kept for it"] if each["own_room"] else [])]
    return ", ".join(marks) or None


def _term(name: str) -> "Callable[[PlacementCandidate], str]":
    if name == "load":
        return lambda each: f"{each['terms'].get(name, 0):g}"
    return lambda each: f"{each['terms'].get(name, 0):.4f}"
