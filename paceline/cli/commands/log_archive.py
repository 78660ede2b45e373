"""`paceline log archive`: keep the beginning of the log elsewhere, and remove it from the log."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from events.bounds import LONG_MAX
from events.topics import rounds_of
from paceline.cli.commands.common import data_option, examples, log_options, report_option
from paceline.client.json_type import Json
from paceline.output import Column, show, table
from paceline.services.processes import PUBLISHERS, group_of

if TYPE_CHECKING:
    from events.log.archive import NeededFrom, TruncatableLog
    from events.log.port import Log
    from paceline.services.settings import Settings


READERS = tuple(map(group_of, PUBLISHERS))
"""Prefixes of the groups whose positions are needed."""


class ArchivedTopic(NamedTuple):
    """The result for a topic: records archived and removed now, the ends of archive and log, readers that need more."""

    topic: str
    archived: int
    archived_to: int
    removed: int
    log_from: int
    needed_from: int
    needed_by: str


@click.command(
    epilog=examples(
        "paceline log archive --archive s3://bucket/log --snapshots s3://bucket/snapshots",
        "paceline log archive --keep 100000 --remove",
        "paceline log archive --topic hosts --before 250000",
    )
)
@data_option
@log_options
@click.option("--archive", "url", metavar="URL", help="Location of the archive. [default: the setting]")
@click.option("--snapshots", metavar="URL", help="Location of the snapshots. [default: the setting]")
@click.option("--topic", metavar="NAME", help="Only this topic, such as jobs. [default: all]")
@click.option(
    "--before", type=click.IntRange(0, LONG_MAX), metavar="OFFSET", help="Only offsets before this one; needs --topic."
)
@click.option(
    "--keep", type=click.IntRange(0, LONG_MAX), default=0, help="Number of offsets of each topic to keep in the log."
)
@click.option("--remove", "removing", is_flag=True, help="Remove archived records that nothing needs from the log.")
@report_option
def archive(
    data: Path | None,
    config: Path | None,
    log: Json,
    url: str | None,
    snapshots: str | None,
    topic: str | None,
    before: int | None,
    keep: int,
    removing: bool,
    form: str,
) -> None:
    """Archive the log up to the oldest needed position, and with --remove delete the archived records from the log.

    A position is needed as long as the snapshots of a machine, the views or gateways in the data folder, or on Kafka
    the consumer groups of projectors and fan-outs read on from it. A reader that is further behind reads the archive,
    if its settings name it. Every record is read back from the archive and compared before it is removed; an embedded
    log must not be in use by a cell.
    """
    from paceline.services.settings import load

    settings = load(config, data=data, **log, snapshots=snapshots, archive=url)
    if not settings.archive or not settings.snapshots:
        missing = "snapshots" if settings.archive else "archive"
        raise click.UsageError(f"no place is known: give --{missing} URL, or PACELINE_{missing.upper()}")
    if before is not None and topic is None:
        raise click.UsageError("--before is an offset of one topic: name it with --topic")
    opened = _open(settings, removing)
    try:
        needed = _needed(settings, opened)
        if topic is not None:
            needed = _only(needed, topic)
        done = [_one(settings, opened, name, each, before, keep, removing) for name, each in needed.items()]
    finally:
        opened.close()
    show(form, {"topics": [each._asdict() for each in done]}, table=lambda: _print(done))


def _one(
    settings: "Settings",
    log: "TruncatableLog",
    topic: str,
    needed: "NeededFrom",
    before: int | None,
    keep: int,
    removing: bool,
) -> ArchivedTopic:
    """Archives one topic, and removes what may go."""
    from events.log import archive as archives
    from paceline.client.errors import PacelineError

    start, end = log.bounds(topic)
    upto = min(needed.position, end - keep, end if before is None else before)
    if before is not None and before > upto:
        raise PacelineError(
            f"{topic} must stay from {upto} on, not from {before}: offset {needed.position} is needed by {needed.by}, "
            f"the log ends at {end} and --keep is {keep}. Nothing was archived or removed."
        )
    new = archives.archive(log, settings.archive, topic, upto)
    removed = archives.remove(log, settings.archive, topic, upto) if removing else 0
    stretches = archives.Archive(settings.archive, log.cell).stretches(topic)
    archived_to = stretches[-1].end if stretches else start
    archived = sum(each.records for each in new)
    return ArchivedTopic(topic, archived, archived_to, removed, log.bounds(topic)[0], needed.position, needed.by)


def _open(settings: "Settings", removing: bool) -> "TruncatableLog":
    """The log alone; the embedded one for reading only, unless something is to be removed from it."""
    from paceline.services.cell_log import bare_log

    if removing and not settings.kafka:
        from events.log.embedded import EmbeddedLog

        return EmbeddedLog(settings.data / "log", settings.cell)
    return bare_log(settings)


def _needed(settings: "Settings", log: "Log") -> "dict[str, NeededFrom]":
    """Per topic what must stay, in the order of the topic table."""
    from events.log.archive import oldest_needed
    from events.topics import RANK
    from processors.cell_machines import machines
    from processors.runtime.snapshots import needs

    readers: dict[str, Mapping[str, int]] = {}
    folders = (settings.data, settings.data / f"cell-{settings.cell}")
    for folder in folders:
        readers[f"the views in {folder}"] = _views(folder)
    for folder in (*folders, *sorted(path for path in folders[1].glob("*") if path.is_dir())):
        readers[f"the gateway of {folder}"] = _gateway(folder, settings.cell)
    readers[f"the fan-out of {settings.data}"] = _fanout(settings)
    readers |= _members(settings)
    oldest = oldest_needed({**needs(settings.snapshots, log, machines(settings.cell)), **readers})
    return {topic: oldest[topic] for topic in sorted(oldest, key=lambda name: (RANK.get(name, len(RANK)), name))}


def _members(settings: "Settings") -> dict[str, dict[str, int]]:
    """The positions that projectors and fan-outs on Kafka publish, here and elsewhere; those without one are new, and
    need the archive or nothing.
    """
    if not settings.kafka:
        return {}
    from events.log.kafka.groups import groups

    reader_groups = groups(settings.kafka, lambda name: name.startswith(READERS), settings.kafka_options)
    return {
        f"the group {name}": {topic: read for (topic, cell), read in group.read.items() if cell == settings.cell}
        for name, group in reader_groups.items()
    }


def _views(folder: Path) -> Mapping[str, int]:
    """Where the views in a folder continue; empty where there are none."""
    from events.topics import ALL
    from projections.views.reader import folded
    from projections.views.tables import attach

    engine = attach(folder / "views.sqlite")
    if engine is None:
        return {}
    with engine.connect() as connection:
        positions = folded(connection)
    engine.dispose()
    return {topic.name: positions.get(topic.name, 0) for topic in ALL}


def _gateway(folder: Path, cell: int) -> Mapping[str, int]:
    """Where the gateway continues that keeps its fold in a folder; empty where there is none."""
    import msgspec

    path = folder / "gateway.msgpack"
    saved = msgspec.msgpack.decode(path.read_bytes(), strict=False) if path.exists() else {}
    return saved["positions"] if saved.get("cell") == cell else {}


def _fanout(settings: "Settings") -> Mapping[str, int]:
    """Where the fan-out of a data folder continues; empty where there is none."""
    import msgspec

    saved = (settings.data / "fanout").glob(f"*-{settings.cell}.msgpack")
    read = {path: msgspec.msgpack.decode(path.read_bytes()) for path in saved}
    return {rounds_of(path.stem.rpartition("-")[0]): each["position"] for path, each in read.items()}


def _only(needed: "dict[str, NeededFrom]", topic: str) -> "dict[str, NeededFrom]":
    name = f"paceline.{topic.removeprefix('paceline.')}"
    if name not in needed:
        raise click.BadParameter(f"{name} is none of {', '.join(needed)}", param_hint="--topic")
    return {name: needed[name]}


def _print(done: list[ArchivedTopic]) -> None:
    table(
        done,
        [
            Column("TOPIC", lambda each: each.topic),
            Column("ARCHIVED", lambda each: each.archived, right=True),
            Column("UP TO", lambda each: each.archived_to, right=True),
            Column("REMOVED", lambda each: each.removed, right=True),
            Column("LOG FROM", lambda each: each.log_from, right=True),
            Column("NEEDED FROM", lambda each: each.needed_from, right=True),
            Column("BY", lambda each: each.needed_by),
        ],
    )
