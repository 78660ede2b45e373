"""Takes a stretch of history out of a log: the records, and the states and views that it starts from."""

from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from events import VERSION
from events.log.port import Log
from events.topics import ALL, VIEWED, rounds_of
from paceline.client.errors import PacelineError
from paceline.history.history_file import FORMAT, FileRecord, of_record, write
from paceline.history.start_state import VIEWS
from paceline.moments.log_cut import CutLog, before, closed, write_time
from processors.machine import Machine
from processors.runtime.replay import Replay
from processors.runtime.snapshots import inputs
from processors.runtime.store import MemoryStore

CHUNK_BYTES = 1 << 20
Say = Callable[[str], None]


class Begin(NamedTuple):
    """The state at the start of a stretch, where it is known."""

    stores: Mapping[str, MemoryStore]
    """The store of each machine after its last round before the stretch."""
    starts: Mapping[str, int]
    """Where the stretch starts, by topic."""
    views: Path | None
    """The views before the first record; None: the log has its first."""


class Exported(NamedTuple):
    """The contents of a file: records of topics, and the round that each machine starts after."""

    records: int
    rounds: dict[str, int]


def export(
    log: Log,
    machines: Mapping[str, Callable[[], Machine]],
    from_ms: int,
    to_ms: int,
    file: Path,
    say: Say,
    begin: Begin | None = None,
) -> Exported:
    """Writes the stretch that was appended from one time to another, both milliseconds since 1970, to a file.

    States and views at its start are folded from the log, which must reach back to its beginning, with its archive if
    need be, or from where `begin` stands. Raises `LogError`, `PacelineError` where the log has nothing of that time, or
    a round before the stretch doesn't fit its inputs.
    """
    starts, stops = begin.starts if begin is not None else before(log, from_ms), before(log, to_ms + 1)
    _check_time(log, starts, stops, from_ms, to_ms)
    ends = {topic: max(end, starts[topic]) for topic, end in closed(log, stops).items()}
    with TemporaryDirectory(prefix="paceline-export-") as folder:
        stores = {}
        for name, make in machines.items():
            say(f"folding {name} up to the start")
            stores[name] = begin.stores[name] if begin is not None else _fold(log, make(), starts)
        say("folding the views up to the start")
        if begin is not None and begin.views is not None:
            copyfile(begin.views, Path(folder) / VIEWS)
        positions = _views(log, starts, Path(folder))
        for name, store in stores.items():
            progress = store.progress()
            at = inputs(progress, machines[name]()) if progress else dict.fromkeys(_topics(machines[name]()), 0)
            at[rounds_of(name)] = progress.own.position if progress else 0
            positions = {topic: min(each, at.get(topic, each)) for topic, each in positions.items()}
        say("writing the records")
        part = file.with_name(f"{file.name}.part")
        try:
            with part.open("wb") as out:
                head = _head(log, from_ms, to_ms, positions, ends)
                records = write(out, _parts(log, head, stores, Path(folder) / VIEWS, positions, ends))
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    rounds = {name: progress.own.round if (progress := store.progress()) else 0 for name, store in stores.items()}
    return Exported(records, rounds)


def up_to(log: Log, from_ms: int, to_ms: int) -> CutLog:
    """The log up to the end of a stretch. Raises as `export`."""
    starts, stops = before(log, from_ms), before(log, to_ms + 1)
    _check_time(log, starts, stops, from_ms, to_ms)
    return CutLog(log, closed(log, stops))


def _check_time(log: Log, starts: Mapping[str, int], ends: Mapping[str, int], from_ms: int, to_ms: int) -> None:
    """Refuses a time outside the log. One within it in which nothing was appended is a time like any other."""
    bounds = {topic.name: log.bounds(topic.name) for topic in ALL}
    if all(starts[name] >= end for name, (_, end) in bounds.items()):
        raise PacelineError(f"Nothing in the log is as new as {write_time(from_ms)}.")
    if all(ends[name] <= start for name, (start, _) in bounds.items()):
        raise PacelineError(f"Nothing in the log is as old as {write_time(to_ms)}.")


def _topics(machine: Machine) -> tuple[str, ...]:
    return (*machine.facts, *map(rounds_of, machine.peers))


def _fold(log: Log, machine: Machine, starts: Mapping[str, int]) -> MemoryStore:
    """The store of a machine after its last round before the stretch."""
    own_topic = rounds_of(machine.name)
    store = MemoryStore()
    run = Replay(machine, CutLog(log, {own_topic: starts[own_topic]}), store)
    for _ in run.rounds(decide=False):
        pass
    if run.result.difference is not None:
        raise PacelineError(f"{run.result.difference.reason.removesuffix('.')}. See `paceline log verify`.")
    return store


def _views(log: Log, starts: Mapping[str, int], folder: Path) -> dict[str, int]:
    """Makes the views at the start; returns the positions that they stand at."""
    from projections.views.projector import Projector

    projector = Projector(CutLog(log, starts), folder)
    projector.fold_whole()
    positions = projector.positions()
    projector.close()
    return positions


def _head(log: Log, from_ms: int, to_ms: int, starts: Mapping[str, int], ends: Mapping[str, int]) -> FileRecord:
    spans = [{"topic": topic.name, "start": starts[topic.name], "end": ends[topic.name]} for topic in VIEWED]
    fields = {"format": FORMAT, "cell": log.cell, "from_ms": from_ms, "to_ms": to_ms}
    return FileRecord("Head", {**fields, "build": VERSION, "topics": spans})


def _parts(
    log: Log,
    head: FileRecord,
    stores: Mapping[str, MemoryStore],
    views: Path,
    starts: Mapping[str, int],
    ends: Mapping[str, int],
) -> Iterator[FileRecord]:
    """All that stands in the file before its end."""
    yield head
    for name, store in stores.items():
        progress = store.progress()
        if progress is None:
            continue
        for row in store.rows():
            yield FileRecord("Row", {"machine": name, **row._asdict()})
        yield FileRecord("Progress", {"machine": name, "progress": msgspec.msgpack.encode(progress)})
    with views.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield FileRecord("Views", {"chunk": chunk})
    for topic in VIEWED:
        end = ends[topic.name]
        if starts[topic.name] < end:
            records = log.scan(topic.name, starts[topic.name])
            for record in takewhile(lambda each: each.offset < end, records):  # noqa: B023 - read within this turn
                yield of_record(record)
