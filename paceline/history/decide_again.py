"""Decides one round again: `python -m paceline.history.decide_again`, started by `paceline.moments.replays`.

Reads a `RoundOrder` from standard input, and writes lines of `Progress` and at last a `RoundResult` to standard output.
The machine begins from the newest snapshot before the round, from where an imported history starts, or from the first
record; the rounds in between are applied.
"""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from events.log.port import Log
from paceline.client.errors import PacelineError
from paceline.history.make_views import NICE, Say
from paceline.history.open_log import open_log
from paceline.history.start_state import start_of
from paceline.history.verify import difference_body
from paceline.moments.order import RoundOrder, RoundResult
from paceline.moments.ordered_work import read_order
from paceline.services.process_setup import GC_THRESHOLDS
from paceline.services.settings import Settings
from processors.cell_machines import machines
from processors.machine import Machine
from processors.runtime.replay import Replay
from processors.runtime.snapshots import restore
from processors.runtime.store import MemoryStore, RocksStore


def main() -> int:
    """Decides the round that standard input names."""
    gc.set_threshold(*GC_THRESHOLDS)
    order = read_order(RoundOrder, NICE)
    log = open_log(Settings(**msgspec.structs.asdict(order.log)))
    try:
        result = decide_again(log, order, Say())
    except PacelineError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    finally:
        log.close()
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return 0


def decide_again(log: Log, order: RoundOrder, say: Callable[[int, int], None]) -> RoundResult:
    """Applies the rounds before, and decides that round. Raises `PacelineError` where there is none."""
    machine = machines(log.cell)[order.machine]()
    started = time.monotonic()
    replay = Replay(machine, log, _start(log, order, machine))
    result = replay.result
    last = None
    for last in replay.rounds(first=order.round, last=order.round):
        say(last.round - result.begun, order.round - result.begun)
    difference = result.difference
    if difference is None and (last is None or last.round != order.round):
        raise PacelineError(f"There is no round {order.round} of {order.machine} in the log.")
    return RoundResult(
        machine.logic,
        bool(result.rounds),
        len(last.decisions) if last else 0,
        result.begun,
        round((time.monotonic() - started) * 1000),
        result.hash.hex(),
        difference_body(difference) if difference else None,
    )


def _start(log: Log, order: RoundOrder, machine: Machine) -> MemoryStore | None:
    own = start_of(Path(order.log.data), order.machine)
    return own or newest_snapshot(log, order.snapshots, order.round, machine)


def newest_snapshot(log: Log, snapshots: str, before: int, machine: Machine) -> MemoryStore | None:
    """The newest good snapshot of a machine before a round; None where there is none. `snapshots`: their URL, empty:
    none are kept.
    """
    if not snapshots:
        return None
    with TemporaryDirectory(prefix="paceline-replay-") as folder:
        store = Path(folder) / "store"
        if restore(snapshots, log, machine, store, before=before).manifest is None:
            return None
        stored = RocksStore(store)
        try:
            progress, rows = stored.progress(), list(stored.rows())
        finally:
            stored.close()
    copy = MemoryStore()
    if progress is not None:
        copy.commit(rows, progress)
    return copy


if __name__ == "__main__":
    sys.exit(main())
