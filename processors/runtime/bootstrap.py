"""What a machine begins from: its store, else a snapshot, else the log from its start, else the archive."""

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


class Beginning(NamedTuple):
    """The log to read from, and what was done, as a sentence; empty where the store was enough, or nothing was lost."""

    log: Log
    said: str


class Lack(NamedTuple):
    """Why a store is none to go on with, and the positions that must be read from without another."""

    why: str
    positions: Mapping[str, int]


def begin(log: Log, machine: Machine, folder: Path, snapshots: str = "", archive: str = "") -> Beginning:
    """Before a processor opens its store in a folder: where that is not one to go on with, puts the newest good
    snapshot there, if there is one at the URL `snapshots`. Else the machine is folded from the log, with its archive at
    the URL `archive` in front where it no longer begins early enough. Where the store is one to go on with, nothing
    else is looked at.

    Raises `SnapshotFault` where none of them reaches back, `StoreFault` where the store that is there can't be opened,
    `LogUnavailable` where the log, or what is needed beside it, can't be reached: call it again.
    """
    lack = _lack(folder, log, machine)
    if lack is None:
        return Beginning(log, "")
    away, why = None, ""
    if snapshots:
        try:
            done = restore(snapshots, log, machine, folder)
            refused = "".join(f"; {each}" for each in done.refused)
            if done.manifest is not None:
                text = f"{lack.why}: the snapshot of round {done.manifest.round} in {snapshots} was taken{refused}"
                return Beginning(log, text)
            why = f", and {snapshots} has no good snapshot{refused}"
        except LogUnavailable as unreached:
            away, why = unreached, f", and no snapshot was taken: {unreached}"
    return _fold(log, lack, why, archive, away)


def _fold(log: Log, lack: Lack, why: str, archive: str, away: LogUnavailable | None) -> Beginning:
    gap = _gap(log, lack.positions)
    if not gap:
        return Beginning(log, f"{lack.why}{why}: it is made from the log" if why else "")
    if archive:
        both = ArchivedLog(log, archive)
        if not (lacks := _gap(both, lack.positions)):
            return Beginning(both, f"{lack.why}{why}: it is made from the archive in {archive} and the log")
        gap = f"{lacks}, with its archive in {archive},"
    if away is not None:
        raise away
    raise SnapshotFault(
        f"{gap} and {lack.why}{why or ', and no place of snapshots is set'}. Bring a snapshot back and name its place "
        "(PACELINE_SNAPSHOTS), or name the archive that has the rest (PACELINE_ARCHIVE)."
    )


def _lack(folder: Path, log: Log, machine: Machine) -> Lack | None:
    """Why the store in a folder is none to go on with; None where it is one."""
    start = dict.fromkeys((*machine.facts, *map(rounds_of, (*machine.peers, machine.name))), 0)
    if not (folder / "CURRENT").exists():
        return Lack(f"{machine.name} has no store here", start)
    store = RocksStore(folder)
    try:
        standing = store.standing()
    finally:
        store.close()
    if standing is None:
        return Lack(f"the store of {machine.name} is empty", start)
    if conversion(machine.conversions, standing.state, machine.state) is None:
        return Lack(f"the store of {machine.name} has rows of another format", start)
    positions = {rounds_of(machine.name): standing.own.position, **inputs(standing, machine)}
    gap = _gap(log, positions)
    return Lack(f"the store of {machine.name} is further behind", positions) if gap else None


def _gap(log: Log, positions: Mapping[str, int]) -> str:
    """Which topic starts after a position in it; empty: none."""
    for topic, position in positions.items():
        start, _ = log.bounds(topic)
        if position < start:
            return f"{topic} starts at {start}, offset {position} is needed,"
    return ""
