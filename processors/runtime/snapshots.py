"""Snapshots: the store of a machine kept elsewhere, so that an owner without one reads only the tail of the log.

A snapshot is a folder `cell-N/MACHINE/round-R` under a URL of fsspec: the files of a RocksDB checkpoint, each named by
its hash, and `manifest.json`, written last, without which the others don't count. Nothing of it is believed: files,
rows and the round in the log must have the hashes that the manifest and the store say, or the snapshot is refused and
the next older one is tried.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

import msgspec
from rocksdict import Options, Rdict, WriteBatch

from events import VERSION
from events.log.object_store import Files
from events.log.port import Log, LogGap, LogUnavailable
from events.rounds import in_log
from events.structs import known
from events.topics import rounds_of
from processors.machine import Machine
from processors.runtime.store import Progress, RocksStore, SecondaryStore, StoreFault
from processors.state.conversion import conversion
from processors.state.table import RowChange, hash_rows

FORMAT = 1
MANIFEST = "manifest.json"
KEPT_SNAPSHOTS = 3
"""So many snapshots of a machine are kept: the newest, and older ones in case it is refused."""
PAUSE_ROWS = 20
"""Beside a machine at work, whoever hashes rows leaves the interpreter to it after so many."""
COPY_BATCH = 1000
_ROUND = re.compile(r"round-(\d{20})")
_NOT_DATA = ("LOCK", "LOG")


class SnapshotFault(StoreFault):
    """A snapshot can't be taken or used; the message says why."""


class NoRoundYet(SnapshotFault):
    """There is nothing to take a snapshot of."""


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a snapshot: its name in the store's folder, its size in bytes, its BLAKE2b-256 in hexadecimal."""

    name: str
    size: int
    hash: str


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a snapshot. `position`: the offset after the round in the machine's own topic; `inputs`: where
    each topic that it reads continues; `now`: its logical time in milliseconds; `state` and `logic`: numbers of the
    format of its rows and of its decisions; hashes in hexadecimal; `build`: the Paceline that took it.
    """

    format: int
    cell: int
    machine: str
    round: int
    epoch: int
    position: int
    inputs: dict[str, int]
    now: int
    state: int
    state_hash: str
    round_hash: str
    logic: int
    build: str
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def covered(self) -> int:
        """The number of offsets of all its topics that it covers."""
        return self.position + sum(self.inputs.values())

    def needs(self) -> dict[str, int]:
        """Per topic the first offset that the log must still have for it: its own round, and what follows."""
        return {rounds_of(self.machine): self.position - 1, **self.inputs}


class StoredSnapshot(NamedTuple):
    """A snapshot as it is found: `fault` says why it can't be used, as far as that is known."""

    machine: str
    round: int
    path: str
    manifest: Manifest | None
    fault: str = ""


class Restored(NamedTuple):
    """The result of a restore: the snapshot that was used, None where none was good, and why newer ones were
    refused.
    """

    manifest: Manifest | None
    refused: list[str]


def take(store: RocksStore, url: str, cell: int, machine: Machine) -> Manifest:
    """Takes a snapshot of an open store, as it is after a round, and uploads it; then those that are older than the
    last few are removed. Raises `SnapshotFault`, `LogUnavailable` where the place can't be reached.
    """
    folder = stage(store)
    try:
        return put(folder, url, cell, machine)
    finally:
        shutil.rmtree(folder)


def stage(store: RocksStore) -> Path:
    """Checkpoints an open store beside its folder; whoever calls it removes what it returns. Raises `StoreFault`."""
    folder = store.folder.with_name(f"{store.folder.name}.snapshot")
    shutil.rmtree(folder, ignore_errors=True)
    store.checkpoint(folder)
    return folder


def take_from(folder: Path, url: str, cell: int, machine: Machine) -> Manifest:
    """Takes a snapshot of the store in a folder, whether its processor runs or not. Raises as `take`."""
    with TemporaryDirectory(prefix=f"{folder.name}.snapshot-", dir=folder.parent) as scratch:
        copied = Path(scratch) / "store"
        _copy(folder, copied)
        return put(copied, url, cell, machine)


def put(folder: Path, url: str, cell: int, machine: Machine, pause_s: float = 0.0) -> Manifest:
    """Uploads a checkpoint in a folder of its own, once its rows hash to its round; `breath_s`: how long it pauses each
    time that it leaves the interpreter to others. Raises as `take`.
    """
    progress = _checked(folder, machine.name, pause_s)
    own = progress.own
    files, sources = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(_NOT_DATA):
            continue
        files.append(StoredFile(path.name, path.stat().st_size, _hash(path)))
        sources.append(path)
    manifest = Manifest(
        format=FORMAT,
        cell=cell,
        machine=machine.name,
        round=own.round,
        epoch=own.epoch,
        position=own.position,
        inputs=inputs(progress, machine),
        now=progress.now,
        state=progress.state,
        state_hash=progress.hash.hex(),
        round_hash=own.hash.hex(),
        logic=machine.logic,
        build=VERSION,
        files=tuple(files),
    )
    target = Files(url)
    name = _path(cell, machine.name, own.round)
    for file, path in zip(files, sources, strict=True):
        target.put(path, f"{name}/{file.hash}")
    target.write(f"{name}/{MANIFEST}", msgspec.json.format(msgspec.json.encode(manifest)))
    with suppress(LogUnavailable):  # it is taken; what can't be removed now, or ever, is no fault of it
        older = [round_ for round_ in _rounds(target, cell, machine.name) if round_ < own.round]
        for round_ in older[KEPT_SNAPSHOTS - 1 :]:
            target.remove(_path(cell, machine.name, round_))
    return manifest


def stored(url: str, cell: int, machine: str) -> Iterator[StoredSnapshot]:
    """The snapshots of a machine, the newest first, with what their manifests say; files aren't looked at."""
    files = Files(url)
    return (_load(files, cell, machine, round_) for round_ in _rounds(files, cell, machine))


def verify(url: str, log: Log, machine: str) -> Iterator[StoredSnapshot]:
    """Checks every snapshot of a machine of the log's cell, the newest first: files, rows and the round in the log."""
    for snapshot in stored(url, log.cell, machine):
        with TemporaryDirectory(prefix="paceline-snapshot-") as folder:
            yield _verify(url, log, snapshot, Path(folder) / "store")


def restore(url: str, log: Log, machine: Machine, folder: Path, before: int | None = None) -> Restored:
    """Puts the newest good snapshot of a machine into the folder of its store, in place of what is there; `before`: of
    those that were taken before that round.

    Raises `LogUnavailable` where the place or the log can't be reached. Nobody may have the store open.
    """
    refused: list[str] = []
    restored = folder.with_name(f"{folder.name}.restoring")
    for snapshot in stored(url, log.cell, machine.name):
        if before is not None and snapshot.round >= before:
            continue
        shutil.rmtree(restored, ignore_errors=True)
        manifest, fault = snapshot.manifest, snapshot.fault
        if manifest is not None and not _usable(manifest, machine):
            fault = f"its rows have format {manifest.state}, which this build, with {machine.state}, can't convert"
        fault = fault or _verify(url, log, snapshot, restored).fault
        if not fault:
            shutil.rmtree(folder, ignore_errors=True)
            restored.replace(folder)
            return Restored(manifest, refused)
        refused.append(f"round {snapshot.round} is refused: {fault}")
    shutil.rmtree(restored, ignore_errors=True)
    return Restored(None, refused)


def needs(url: str, log: Log, machines: Mapping[str, Callable[[], Machine]]) -> dict[str, dict[str, int]]:
    """The positions from which machines need the log, for `events.log.archive.oldest_needed`: the newest good snapshot
    of each machine, and the older ones that the log still reaches back to. A machine without a good one needs all of
    its topics.
    """
    out = {}
    for name, make in machines.items():
        machine = make()
        newest = next((each for each in verify(url, log, name) if _is_good(each, machine)), None)
        if newest is None:
            topics = (*machine.facts, *map(rounds_of, (*machine.peers, name)))
            out[f"{name}, which has no good snapshot"] = dict.fromkeys(topics, 0)
            continue
        for each in stored(url, log.cell, name):
            if each.manifest is not None and each.round <= newest.round and not _lacks(log, each.manifest):
                out[f"the snapshot of {name}, round {each.round}"] = each.manifest.needs()
    return out


def inputs(progress: Progress, machine: Machine) -> dict[str, int]:
    """Where each topic that a machine reads continues."""
    topics = (*machine.facts, *map(rounds_of, machine.peers))
    return {topic: progress.own.inputs.get(topic, 0) for topic in topics}


def _is_good(snapshot: StoredSnapshot, machine: Machine) -> bool:
    return not snapshot.fault and snapshot.manifest is not None and _usable(snapshot.manifest, machine)


def _usable(manifest: Manifest, machine: Machine) -> bool:
    """Whether a machine can go on with rows of this format: whoever opens the store converts them."""
    return conversion(machine.conversions, manifest.state, machine.state) is not None


def _load(files: Files, cell: int, machine: str, round_: int) -> StoredSnapshot:
    path = _path(cell, machine, round_)
    snapshot = StoredSnapshot(machine, round_, f"{files.url}/{path}", None)
    try:
        manifest = msgspec.json.decode(files.read(f"{path}/{MANIFEST}"), type=known(Manifest))
    except FileNotFoundError:
        return snapshot._replace(fault="it has no manifest: it was not uploaded to its end")
    except msgspec.DecodeError as error:
        return snapshot._replace(fault=f"its manifest can't be read: {error}")
    if manifest.format > FORMAT:
        return snapshot._replace(fault=f"it has format {manifest.format}, which a newer Paceline reads")
    if (manifest.cell, manifest.machine) != (cell, machine):
        return snapshot._replace(fault=f"it is of {manifest.machine} of cell {manifest.cell}")
    if manifest.round != round_:
        return snapshot._replace(fault=f"its manifest says round {manifest.round}")
    return snapshot._replace(manifest=manifest)


def _verify(url: str, log: Log, snapshot: StoredSnapshot, folder: Path) -> StoredSnapshot:
    """Fetches a snapshot into a folder that isn't there yet and checks all of it."""
    manifest = snapshot.manifest
    if manifest is None:
        return snapshot
    try:
        _check_log(log, manifest)
        _fetch(url, manifest, folder)
        progress = _checked(folder, manifest.machine)
    except StoreFault as fault:
        return snapshot._replace(fault=str(fault))
    own = progress.own
    stands = msgspec.structs.replace(
        manifest,
        round=own.round,
        epoch=own.epoch,
        position=own.position,
        inputs={topic: own.inputs.get(topic, 0) for topic in manifest.inputs},
        now=progress.now,
        state=progress.state,
        state_hash=progress.hash.hex(),
        round_hash=own.hash.hex(),
    )
    if manifest != stands:
        return snapshot._replace(fault="its store doesn't stand where its manifest says")
    return snapshot


def _check_log(log: Log, manifest: Manifest) -> None:
    """That the log has what the snapshot needs, and its very round. Raises `SnapshotFault`."""
    if lacks := _lacks(log, manifest):
        raise SnapshotFault(lacks)
    topic = rounds_of(manifest.machine)
    try:
        there = in_log(log, topic, manifest.position, bytes.fromhex(manifest.round_hash))
    except LogGap as gap:
        raise SnapshotFault(str(gap)) from gap
    if not there:
        raise SnapshotFault(f"its round {manifest.round} is not what the log has at {topic}:{manifest.position - 1}")


def _lacks(log: Log, manifest: Manifest) -> str:
    """The sentence about records that a snapshot needs and the log doesn't have; empty: none."""
    for topic, position in manifest.needs().items():
        start, end = log.bounds(topic)
        if not start <= position <= end:
            return f"it needs offset {position} of {topic}, and the log has {start} to {end}"
    return ""


def _fetch(url: str, manifest: Manifest, folder: Path) -> None:
    files = Files(url)
    folder.mkdir(parents=True)
    name = _path(manifest.cell, manifest.machine, manifest.round)
    for file in manifest.files:
        target = folder / Path(file.name).name
        try:
            files.get(f"{name}/{file.hash}", target)
        except FileNotFoundError as error:
            raise SnapshotFault(f"its file {file.name} is missing") from error
        if target.stat().st_size != file.size or _hash(target) != file.hash:
            raise SnapshotFault(f"its file {file.name} has another hash than its manifest says")


def _checked(folder: Path, machine: str, pause_s: float = 0.0) -> Progress:
    """Where the store in a folder stands, once its rows hash to that."""
    store = RocksStore(folder)
    try:
        progress = store.progress()
        if progress is None:
            raise NoRoundYet(f"The store of {machine} has no round yet: there is nothing to take a snapshot of.")
        if hash_rows(_with_pauses(store.rows(), pause_s)) != progress.hash:
            raise SnapshotFault(f"The rows of {machine} don't hash to its round {progress.own.round}: it is damaged.")
    finally:
        store.close()
    return progress


def _with_pauses(rows: Iterator[RowChange], pause_s: float) -> Iterator[RowChange]:
    for number, row in enumerate(rows):
        if pause_s and number % PAUSE_ROWS == 0:
            time.sleep(pause_s)
        yield row


def _copy(folder: Path, target: Path) -> None:
    """Copies a store that another process may be writing, as it is at this moment."""
    try:
        source = SecondaryStore(folder)
    except StoreFault as fault:
        raise SnapshotFault(str(fault)) from fault
    with source:
        copy = Rdict(str(target), Options(raw_mode=True))
        batch = WriteBatch(raw_mode=True)
        for key, row in cast(Iterator[tuple[bytes, bytes]], source.db.items()):
            batch.put(key, row)
            if batch.len() >= COPY_BATCH:
                copy.write(batch)
                batch = WriteBatch(raw_mode=True)
        copy.write(batch)
        copy.close()


def _rounds(files: Files, cell: int, machine: str) -> list[int]:
    """The rounds that there are snapshots of, the newest first."""
    snapshot = map(_ROUND.fullmatch, reversed(files.names(f"cell-{cell}/{machine}")))
    return [int(each[1]) for each in snapshot if each]


def _path(cell: int, machine: str, round_: int) -> str:
    return f"cell-{cell}/{machine}/round-{round_:020d}"


def _hash(path: Path) -> str:
    hasher = blake2b(digest_size=32)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            hasher.update(piece)
    return hasher.hexdigest()
