"""The start of a machine: from its store, else a snapshot, else the log from its start, else the archive."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from events.log.archived import ArchivedLog
from events.log.port import Log, LogUnavailable
from events.topics import rounds_of
from processors.machine import Machine
from processors.runtime.snapshots import SnapshotFault, inputs, restore
from processors.runtime.store import RocksStore
from processors.state.conversion import conversion


class StartState(NamedTuple):
    """The log to read from, and what was done, as a sentence; empty where the store was enough, or nothing was lost."""

    log: Log
    notice: str


class MissingStart(NamedTuple):
    """Why a store is none to go on with, and the positions that must be read from without another."""

    why: str
    positions: Mapping[str, int]


def begin(log: Log, machine: Machine, folder: Path, snapshots: str = "", archive: str = "") -> StartState:
    """Before a processor opens its store in a folder: where that is not one to go on with, puts the newest good
    snapshot there, if there is one at the URL `snapshots`. Else the machine is folded from the log, with its archive at
    the URL `archive` in front where it no longer begins early enough. Where the store is one to go on with, nothing
    else is looked at.

    Raises `SnapshotFault` where none of them reaches back, `StoreFault` where the store that is there can't be opened,
    `LogUnavailable` where the log, or what is needed beside it, can't be reached: call it again.
    """
    missing = _missing(folder, log, machine)
    if missing is None:
        return StartState(log, "")
    unreachable, why = None, ""
    if snapshots:
        try:
            done = restore(snapshots, log, machine, folder)
            refused = "".join(f"; {each}" for each in done.refused)
            if done.manifest is not None:
                text = f"{missing.why}: the snapshot of round {done.manifest.round} in {snapshots} was taken{refused}"
                return StartState(log, text)
            why = f", and {snapshots} has no good snapshot{refused}"
        except LogUnavailable as unreached:
            unreachable, why = unreached, f", and no snapshot was taken: {unreached}"
    return _fold(log, missing, why, archive, unreachable)


def _fold(log: Log, missing: MissingStart, why: str, archive: str, unreachable: LogUnavailable | None) -> StartState:
    gap = _gap(log, missing.positions)
    if not gap:
        return StartState(log, f"{missing.why}{why}: it is made from the log" if why else "")
    if archive:
        both = ArchivedLog(log, archive)
        if not (still_missing := _gap(both, missing.positions)):
            return StartState(both, f"{missing.why}{why}: it is made from the archive in {archive} and the log")
        gap = f"{still_missing}, with its archive in {archive},"
    if unreachable is not None:
        raise unreachable
    raise SnapshotFault(
        f"{gap} and {missing.why}{why or ', and no snapshot location is set'}. Restore a snapshot and set its location "
        "(PACELINE_SNAPSHOTS), or set the archive that has the rest (PACELINE_ARCHIVE)."
    )


def _missing(folder: Path, log: Log, machine: Machine) -> MissingStart | None:
    """Why the store in a folder is none to go on with; None where it is one."""
    start = dict.fromkeys((*machine.facts, *map(rounds_of, (*machine.peers, machine.name))), 0)
    if not (folder / "CURRENT").exists():
        return MissingStart(f"{machine.name} has no store here", start)
    store = RocksStore(folder)
    try:
        progress = store.progress()
    finally:
        store.close()
    if progress is None:
        return MissingStart(f"the store of {machine.name} is empty", start)
    if conversion(machine.conversions, progress.state, machine.state) is None:
        return MissingStart(f"the store of {machine.name} has rows of another format", start)
    positions = {rounds_of(machine.name): progress.own.position, **inputs(progress, machine)}
    gap = _gap(log, positions)
    return MissingStart(f"the store of {machine.name} is further behind", positions) if gap else None


def _gap(log: Log, positions: Mapping[str, int]) -> str:
    """The sentence about a topic that starts after a position in it; empty: none."""
    for topic, position in positions.items():
        start, _ = log.bounds(topic)
        if position < start:
            return f"{topic} starts at {start}, offset {position} is needed,"
    return ""
