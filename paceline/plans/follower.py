"""The machines of a cell as its log has them: restored from what is stored of them, then moved on round by round.

They decide nothing. A copy of them, such as a process that was forked from this one, may go on as a `Branch`.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from events.log.port import Log
from events.records.rounds import RoundCommitted
from events.rounds import accept, in_log
from events.topics import ALL, rounds_of
from processors.cell_machines import machines
from processors.machine import Machine
from processors.runtime.fold import Fold, Recorded
from processors.runtime.snapshots import restore, stored
from processors.runtime.store import SecondaryStore, Store, StoreFault


class Follower:
    """The four machines of a cell, up to some ends of its log."""

    def __init__(self, log: Log, store_folders: Iterable[Path] = (), snapshots: str = "") -> None:
        """`store_folders`: where stores may be, each machine's in a folder of its name; `snapshots`: their URL, empty:
        none are kept. What isn't stored is folded from the first record.
        """
        folders = list(store_folders)
        self.folds = {name: _begun(make, log, folders, snapshots) for name, make in machines(log.cell).items()}

    def follow(self, log: Log) -> None:
        """Applies all rounds that the log has. Raises `LogGap`, `HistoryDiffers`, `RoundFault`."""
        for fold in self.folds.values():
            recorded = Recorded(log, fold)
            for record in log.scan(fold.topic, fold.own.position):
                delivered = accept(record, fold.own, fold.machine.name, fold.cell)
                if isinstance(delivered.event, RoundCommitted):
                    recorded.finish(delivered)


def _begun(make: Callable[[], Machine], log: Log, folders: Iterable[Path], snapshots: str) -> Fold:
    """A machine from the furthest of what is stored of it, else from the first record."""
    machine = make()
    for folder in folders:
        path = folder / machine.name
        if not path.is_dir():
            continue
        try:
            with SecondaryStore(path) as store:
                progress = store.progress()
                newest = next(stored(snapshots, log.cell, machine.name), None) if snapshots else None
                if progress is not None and (newest is None or newest.round <= progress.own.round):
                    return restored(machine, log, store)
        except StoreFault:  # another's, or being made: there may be a snapshot
            machine = make()
    if snapshots:
        with TemporaryDirectory(prefix="paceline-plan-") as scratch:
            target = Path(scratch) / "store"
            if restore(snapshots, log, machine, target).manifest is not None:
                with SecondaryStore(target) as store:
                    return restored(machine, log, store)
    return Fold(machine, log.cell)


def restored(machine: Machine, log: Log, store: Store) -> Fold:
    """A machine as its store has it. Raises `StoreFault` where that is damaged, or of another log or format."""
    progress, fold = store.progress(), Fold(machine, log.cell)
    if progress is None:
        return fold
    if progress.state != machine.state:
        raise StoreFault(f"The store of {machine.name} has rows of another format.")
    own = progress.own
    if own.round and not in_log(log, rounds_of(machine.name), own.position, own.hash):
        raise StoreFault(f"The store of {machine.name} is of another log.")
    fold.restore(store)
    return fold


def starts_of(folds: Iterable[Fold], ends: Mapping[str, int]) -> dict[str, int]:
    """Per topic the first offset that a branch of these machines still reads: what no round has taken in yet."""
    starts = {topic.name: ends[topic.name] for topic in ALL}
    for fold in folds:
        for topic, position in (*fold.positions().items(), (fold.topic, fold.own.position)):
            starts[topic] = min(starts[topic], position)
    return starts
