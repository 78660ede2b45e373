"""Makes views of a moment: `python -m paceline.history.make_views`, started by `paceline.moments.view_maker`.

Reads an `Order` from standard input and writes lines of `Progress` to standard output. It ends when standard input
ends: then nobody is left who wants the views.
"""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from events.log.port import Log, LogFault, LogGap
from paceline.history.open_log import open_log
from paceline.history.start_state import FOLDER, VIEWS
from paceline.moments import copies
from paceline.moments.copies import begin_from
from paceline.moments.log_cut import CutLog
from paceline.moments.order import GONE, Order, Progress
from paceline.moments.ordered_work import read_order
from paceline.moments.page_files import DAMAGED
from paceline.services.settings import Settings
from projections.views import tables
from projections.views.projector import Projector

NICE = 10
SAY_S = 0.1
TRIES = 2


class Say:
    """Tells how far the making is, not too often."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, of: int) -> None:
        """That `done` of `of` records are folded."""
        now = time.monotonic()
        if now - self._last >= SAY_S:
            self._last = now
            sys.stdout.buffer.write(msgspec.json.encode(Progress(done, of)) + b"\n")
            sys.stdout.flush()


def main() -> int:
    """Makes the views that standard input orders."""
    order = read_order(Order, NICE)
    os.umask(0o077)
    log = open_log(Settings(**msgspec.structs.asdict(order.log)))
    try:
        make(log, order, Say())
    except LogGap as error:
        sys.stdout.write(f"{error}\n")
        return GONE
    except Exception as error:
        why = str(error).partition("\n")[0]  # some go on with advice
        sys.stdout.write(f"{type(error).__name__}: {why}\n")
        return 1
    finally:
        log.close()
    return 0


def make(log: Log, order: Order, say: Callable[[int, int], None]) -> None:
    """Folds the log up to the ends of an order, from what is nearest before them."""
    target = Path(order.target)
    start = Path(order.log.data) / FOLDER / VIEWS
    if start.exists():
        shutil.copyfile(start, target)
    elif _copied(order):
        try:
            _fold(log, order, say)
            return
        except LogFault:  # the copies are of another log
            _remove(target)
    _fold(log, order, say)


def _copied(order: Order) -> bool:
    """Whether there is a copy to begin from, which is then the target. Copies may be left out meanwhile."""
    for _ in range(TRIES):
        try:
            return begin_from(Path(order.folder) / copies.FOLDER, order.ends, Path(order.target))
        except DAMAGED:
            _remove(Path(order.target))
    return False


def _remove(target: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)


def _fold(log: Log, order: Order, say: Callable[[int, int], None]) -> None:
    target = Path(order.target)
    engine = tables.open_engine(target)
    projector = Projector(CutLog(log, order.ends), engine)
    begun, of = sum(projector.positions().values()), sum(order.ends.values())
    say(0, of - begun)
    projector.fold_whole(lambda done: say(done - begun, of - begun))
    projector.stop_reading()
    engine.dispose()
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # all of it in one file, which nobody writes to any more


if __name__ == "__main__":
    sys.exit(main())
