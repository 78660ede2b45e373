"""`paceline cell`: is everything there; settings and resources of a cell."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from events.bounds import INT_MAX
from paceline.cli.commands import cell_keys, cell_settings, lockdown
from paceline.cli.commands.common import data_option, examples, kafka_options, report_option
from paceline.cli.commands.process_options import show as show_settings
from paceline.cli.commands.process_options import show_config_option
from paceline.cli.groups import CommandGroup
from paceline.output import Column, say, show, span, table

if TYPE_CHECKING:
    from events.log.kafka.groups import Group
    from events.log.port import Log
    from paceline.services.cell_check import MachineStatus
    from paceline.services.settings import Settings

HASH_CHARACTERS = 12
LAG = (
    "BEHIND counts records that no round names yet. Those that ask for no decision are named by the next round, facts "
    "of hosts within a minute and decisions of other machines within an hour; what waits longer is a problem here."
)


@click.group(cls=CommandGroup)
def cell() -> None:
    """Check cell health; show and change the settings of a cell."""


cell.add_command(cell_settings.get, "get")
cell.add_command(cell_settings.set_, "set")
cell.add_command(lockdown.of_cell, "lockdown")
cell.add_command(cell_keys.keys, "keys")


@cell.command(
    epilog=examples(
        "paceline cell check --kafka broker:9092", "paceline cell check --cell 1 -o json", "paceline cell check"
    )
)
@data_option
@kafka_options
@click.option(
    "--cell", "only", type=click.IntRange(0, INT_MAX), metavar="N", help="Check only this cell.  [default: all]"
)
@show_config_option
@report_option
def check(
    data: Path | None,
    config: Path | None,
    kafka: dict[str, Any],
    only: int | None,
    show_config: bool,
    form: str,
) -> int:
    """Check the broker, topics and their settings; the epoch, round, lag, owner and state hash of each machine; and on
    Kafka that each cell has views, a gateway, and, if a fan-out runs, its share of it; where the views are, also the
    windows whose time zones the cell knows for less than a year, who preempts each other again and again, and work that
    fits and is forgotten.

    Exits with 0 if all checks pass, 1 with a line for each problem, 6 if the log can't be reached. Only the newest
    rounds are checked; `paceline log verify` replays all of them.
    """
    from paceline.services.settings import load

    if show_config:
        return show_settings(config, {"data": data, **kafka})
    verdict = judged(load(config, data=data, **kafka), only)
    show(form, verdict.body(), table=lambda: _print(*verdict))
    return 1 if verdict.problems else 0


class Verdict(NamedTuple):
    """The machines of the cells, the groups on Kafka, and what is wrong."""

    statuses: "list[MachineStatus]"
    groups: "Mapping[str, Group]"
    problems: list[str]

    def body(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "well": not self.problems,
            "machines": [each.body() for each in self.statuses],
            "groups": [_group_body(name, group) for name, group in self.groups.items()],
            "problems": self.problems,
        }


def judged(settings: "Settings", only: int | None) -> Verdict:
    """Looks at the cells that settings name. Raises `LogError`."""
    from paceline.services.kept_views import circles_and_stalls
    from paceline.services.zone_tables import ending

    if settings.kafka:
        statuses, groups, problems = _on_kafka(settings, only)
    else:
        statuses, groups, problems = _embedded(settings, only), {}, []
    problems += ending(settings.data, only) + circles_and_stalls(settings.data, only)
    return Verdict(statuses, groups, problems + [line for each in statuses for line in each.problems])


def _on_kafka(settings: "Settings", only: int | None) -> "tuple[list[MachineStatus], Mapping[str, Group], list[str]]":
    from events.log.kafka import groups as kafka_groups
    from events.log.kafka import topics as kafka_topics
    from events.log.kafka.kafka_log import KafkaLog
    from events.log.port import LogFault
    from paceline.services.cell_check import gateway_missing
    from paceline.services.processes import group_of

    if settings.schema_registry_url:
        from events.log.kafka import schema_registry as registry

        registry.read(settings.schema_registry_url)
    address, options = settings.kafka, settings.kafka_options
    count = kafka_topics.cells(address, options)
    problems = kafka_topics.check(address, max(1, count) if only is None else only + 1, options)
    problems += kafka_topics.copies(address, options)
    groups = kafka_groups.groups(address, lambda name: name.startswith("paceline."), options)
    if not groups and "security.protocol" in options:
        problems.append(
            "Kafka shows no groups to this user: nothing runs, or it lacks the right to describe groups `paceline.*`."
        )
    statuses: list[MachineStatus] = []
    for number in range(count) if only is None else [only]:
        log = KafkaLog(address, number, options, on_trouble=lambda _: None)
        try:
            statuses += _statuses_on_kafka(log, groups, settings.alarm_unread_ms)
            if missing := gateway_missing(log):
                problems.append(missing)
        except LogFault as fault:
            problems.append(str(fault))
            continue
        finally:
            log.close()
        if not any(_keeps_views(name, number) and group.of(number) for name, group in groups.items()):
            problems.append(f"Nobody keeps the views of cell {number}. Start `paceline projector`, or `paceline up`.")
        fanout = groups.get(group_of("fanout"))
        if fanout is not None and not fanout.of(number):  # a deployment may do without
            problems.append(f"Nobody publishes the decisions of cell {number}. Start `paceline fanout` again.")
    return statuses, groups, problems


def _keeps_views(group: str, number: int) -> bool:
    from paceline.services.processes import group_of, up_group

    return group.startswith(group_of("projector")) or group == up_group(number)


def _statuses_on_kafka(log: "Log", groups: "Mapping[str, Group]", alarm_unread_ms: int) -> "Iterator[MachineStatus]":
    from events.log.kafka.groups import Group
    from events.topics import ALL
    from paceline.services.cell_check import check_machine
    from paceline.services.processes import group_of, up_group
    from processors.cell_machines import machines

    ends = log.ends(topic.name for topic in ALL)
    for name, make in machines(log.cell).items():
        machine = make()
        group = groups.get(group_of(name), Group())
        in_one = groups.get(up_group(log.cell), Group()).of(log.cell)
        runner = group.of(log.cell)
        inputs = _inputs(machine, ends)
        yield check_machine(log, machine, inputs, group if runner else None, runner or in_one, alarm_unread_ms)


def _embedded(settings: "Settings", only: int | None) -> "list[MachineStatus]":
    from paceline.client import cell_file
    from paceline.history.start_state import is_history
    from paceline.services.cell_check import check_machine
    from paceline.services.cell_log import bare_log
    from paceline.services.data_folder import CannotStart, recorded_cell
    from processors.cell_machines import machines

    if is_history(settings.data):
        raise CannotStart(
            f"{settings.data} holds an imported log range, which no process runs. `paceline log verify --data "
            f"{settings.data}` decides its rounds again; `paceline up --read-only --data {settings.data}` shows its "
            "alarms."
        )
    recorded = recorded_cell(settings.data)
    if only is not None and recorded is not None and only != recorded:
        raise CannotStart(f"{settings.data} is the data folder of cell {recorded}: there is no cell {only} in it")
    log = bare_log(settings if only is None else settings.model_copy(update={"cell": only}))
    try:
        running = cell_file.read(settings.data)
        runner = f"process {running.pid}" if running and running.alive else ""
        return [
            check_machine(log, machine, log.ends(_topics(machine)), None, runner, settings.alarm_unread_ms)
            for machine in (make() for make in machines(log.cell).values())
        ]
    finally:
        log.close()


def _inputs(machine: Any, ends: Mapping[str, int]) -> dict[str, int]:
    return {topic: ends[topic] for topic in _topics(machine)}


def _topics(machine: Any) -> list[str]:
    from events.topics import rounds_of

    return [*machine.facts, *map(rounds_of, machine.peers)]


def _group_body(name: str, group: "Group") -> dict[str, Any]:
    members = [{"name": each, "cells": sorted(cells)} for each, cells in sorted(group.members.items())]
    return {"group": name, "state": group.state, "members": members}


def _print(statuses: "list[MachineStatus]", groups: "Mapping[str, Group]", problems: list[str]) -> None:
    from paceline.services.cell_check import age_seconds

    def age(each: "MachineStatus") -> str:
        seconds = age_seconds(each)
        return "-" if seconds is None else f"{span(seconds)} ago"

    if statuses:
        table(
            statuses,
            [
                Column("CELL", lambda each: each.cell, right=True),
                Column("MACHINE", lambda each: each.machine),
                Column("EPOCH", lambda each: each.history.chain.epoch, right=True),
                Column("ROUND", lambda each: each.history.chain.round, right=True),
                Column("LAST", age, right=True),
                Column("BEHIND", lambda each: sum(each.behind.values()), right=True),
                Column("RUN BY", lambda each: each.runner),
                Column("STATE HASH", lambda each: each.history.hash.hex()[:HASH_CHARACTERS]),
            ],
        )
    if groups:
        say()
        table(
            [(_group_body(name, group)) for name, group in groups.items()],
            [
                Column("GROUP", lambda each: each["group"]),
                Column("STATE", lambda each: each["state"]),
                Column("CELLS OF MEMBERS", _members),
            ],
        )
    if statuses or groups:
        say()
    for line in problems or [*([LAG] if any(any(each.behind.values()) for each in statuses) else []), "all is well"]:
        say(line)


def _members(body: dict[str, Any]) -> str:
    return "; ".join(f"{each['name']}: {', '.join(map(str, each['cells'])) or 'none'}" for each in body["members"])
