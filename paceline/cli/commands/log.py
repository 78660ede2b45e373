"""`paceline log`: follow, verify and check the log."""

import json
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from events.bounds import INT_MAX
from paceline.cli.commands.common import (
    data_option,
    examples,
    kafka_options,
    list_options,
    log_options,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.commands.log_acls import acls
from paceline.cli.commands.log_archive import archive
from paceline.cli.commands.log_blame import blame
from paceline.cli.commands.log_history import bisect, export, import_
from paceline.cli.commands.log_verify import verify
from paceline.cli.commands.log_why import why
from paceline.cli.groups import CommandGroup
from paceline.client.json_type import Json
from paceline.output import Column, TableOptions, say, show, table, when, words

if TYPE_CHECKING:
    from events.log.port import Log, LogRecord
    from paceline.client.client import Client
    from paceline.services.settings import Settings

BATCH = 1000
POLL_S = 0.5


@click.group(cls=CommandGroup)
def log() -> None:
    """Follow, explain, verify, bisect and archive the log."""


for command in (verify, why, blame, archive, export, import_, bisect, acls):
    log.add_command(command)


def _open(data: Path | None, config: Path | None, log_settings: Json) -> "Log":
    from paceline.history.open_log import open_log
    from paceline.services.settings import load

    return open_log(load(config, data=data, **log_settings))


@log.command(epilog=examples("paceline log tail", "paceline log tail --from-start --no-follow -o json"))
@data_option
@log_options
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="Only this topic, such as jobs; may be repeated."
)
@click.option("--from-start", is_flag=True, help="Start at the first record instead of the end.")
@click.option("--follow/--no-follow", default=True, help="Keep waiting for new records at the end.")
@click.option("--utc", is_flag=True, help="Show times in UTC instead of local time.")
@output_option
def tail(
    data: Path | None,
    config: Path | None,
    log: Json,
    topics: tuple[str, ...],
    from_start: bool,
    follow: bool,
    utc: bool,
    form: str,
) -> None:
    """Print decoded records of the log as they arrive; with -o json one JSON object per line."""
    names = _topics(topics)
    with closing(_open(data, config, log)) as opened:
        begins = {name: opened.bounds(name)[0 if from_start else 1] for name in names}
        with closing(opened.reader(begins)) as reader:
            while True:
                records = reader.poll(BATCH, POLL_S if follow else 0.0)
                for record in sorted(records, key=lambda each: each.at_ms):
                    _print_record(record, utc, form)
                ends = () if follow or records else reader.ends().items()
                if ends and all(reader.position(name) >= end for name, end in ends):
                    return


def _topics(short_names: tuple[str, ...]) -> list[str]:
    from events.topics import BY_NAME

    names = [f"paceline.{name.removeprefix('paceline.')}" for name in short_names] or list(BY_NAME)
    for name in names:
        if name not in BY_NAME:
            raise click.BadParameter(f"{name} is none of {', '.join(BY_NAME)}", param_hint="--topic")
    return names


def _print_record(record: "LogRecord", utc: bool, form: str) -> None:
    from events.acceptance import parse
    from paceline.history.readable import readable

    body = readable(record.value)
    key = record.key.decode(errors="replace")
    position = f"{record.topic}:{record.offset}"
    line = {"position": position, "at_ms": record.at_ms, "key": key, **body}
    if form == "json":
        say(json.dumps(line, ensure_ascii=False))
        return
    if form == "yaml":
        say("---")
    round_key = parse(record.key)
    show(form, line, [position], lambda: say(_line(record, body, round_key.machine if round_key else key, utc)))


def _line(record: "LogRecord", body: Json, key: str, utc: bool) -> str:
    at = datetime.fromtimestamp(record.at_ms / 1000, UTC)
    time = f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z" if utc else f"{at.astimezone():%H:%M:%S.%f}"[:-3]
    return f"{time}  {record.topic}:{record.offset}  {body.pop('event') or 'unreadable'}  {_brief(body, key)}"


def _counted(names: list[str]) -> list[str]:
    """Names in the order of their first appearance, each with how often it stands there."""
    return [name if count == 1 else f"{name} x {count}" for name, count in Counter(names).items()]


def _brief(body: Json, key: str) -> str:
    """The subject of a record, in a line."""
    if "decisions" in body:
        decisions = [str(each["event"]) for each in body["decisions"]]
        return f"round {body['round']} epoch {body['epoch']}: {', '.join(_counted(decisions)) or 'nothing decided'}"
    plain = {name: value for name, value in body.items() if isinstance(value, str | int) and not name.endswith("hash")}
    return f"{key}  {words(plain)}"


@log.command(
    epilog=examples(
        "paceline log topics",
        "paceline log topics --create --kafka broker:9092 --partitions 3 --replication 3",
        "paceline log topics --create --kafka broker:9092 --partitions 4",
    )
)
@data_option
@kafka_options
@click.option("--create", is_flag=True, help="Create missing topics on Kafka, and add missing cells.")
@click.option(
    "--partitions", type=click.IntRange(1, INT_MAX), default=1, show_default=True, help="Number of cells (partitions)."
)
@click.option(
    "--replication",
    type=click.IntRange(1, INT_MAX),
    default=1,
    show_default=True,
    help="Replication factor of new topics.",
)
@output_option
def topics(
    data: Path | None,
    config: Path | None,
    kafka: Json,
    create: bool,
    partitions: int,
    replication: int,
    form: str,
) -> int:
    """List the topics of a log; on Kafka create them, or check their settings (exit code 1 if they differ)."""
    from events.topics import ALL
    from paceline.services.settings import load

    settings = load(config, data=data, **kafka)
    if settings.kafka:
        return _kafka_topics(settings, create, partitions, replication, form)
    if create:
        raise click.UsageError("--create is for Kafka: name it with --kafka")
    opened = _open(data, config, kafka)
    try:
        bounds = {topic.name: opened.bounds(topic.name) for topic in ALL}
    finally:
        opened.close()
    rows = [
        {"topic": topic.name, "start": bounds[topic.name][0], "end": bounds[topic.name][1], "written_by": topic.writer}
        for topic in ALL
    ]
    columns = [
        Column("TOPIC", lambda row: row["topic"]),
        Column("FROM", lambda row: row["start"], right=True),
        Column("END", lambda row: row["end"], right=True),
        Column("WRITTEN BY", lambda row: row["written_by"]),
    ]
    show(form, {"topics": rows}, bounds, partial(table, rows, columns))
    return 0


def _kafka_topics(settings: "Settings", create: bool, partitions: int, replication: int, form: str) -> int:
    from events.log.kafka import topics as kafka_topics
    from events.topics import EVERY

    address, options = settings.kafka, settings.kafka_options
    created = kafka_topics.create(address, partitions, replication, options) if create else []
    more = kafka_topics.add_cells(address, partitions, options) if create else []
    differences = kafka_topics.check(address, partitions, options)

    def tell() -> None:
        if create:
            say(f"made {', '.join(created)}" if created else "all topics were there")
        if more:
            say(f"added cells, there are {partitions} now: {', '.join(more)}")
        for line in differences or [f"all topics at {address} are as they must be"]:
            say(line)

    body = {"made": created, "cells_added": more, "differences": differences}
    show(form, body, (topic.name for topic in EVERY), tell)
    return 1 if differences else 0


@log.command(epilog=examples("paceline log quarantine"))
@zone_option
@list_options
@with_client
def quarantine(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List the records that were skipped because they could not be decoded."""
    rows = list(client.quarantine())
    body = {"records": rows, "next_page_token": ""}
    columns = [
        Column("AT", lambda each: when(each["at"], zone), order=lambda each: each["at"]),
        Column("POSITION", lambda each: f"{each['topic']}:{each['offset']}"),
        Column("REASON", lambda each: each["reason"]),
        Column("BYTES", lambda each: each["size"], right=True),
        Column("DIGEST", lambda each: each["digest"]),
    ]
    show(form, body, (str(columns[1].cell(each)) for each in rows), lambda: table(rows, columns, shape))
