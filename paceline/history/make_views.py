"""Makes views of a moment: `python -m paceline.history.make_views`, started by `paceline.moments.view_maker`.

Reads an `Order` from standard input and writes lines of `Progress` to standard output. It ends when standard input
ends: then nobody is left who wants the views.
"""

import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from events.log.port import Log
from paceline.history.open_log import open_log
from paceline.history.start_state import FOLDER, VIEWS
from paceline.moments.log_cut import CutLog
from paceline.moments.order import Order, Progress
from paceline.services.settings import Settings
from projections.views import tables
from projections.views.projector import Projector

NICE = 10
SAY_S = 0.1


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
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.nice(NICE)
    os.umask(0o077)
    log = open_log(Settings(**msgspec.structs.asdict(order.log)))
    make(log, order, Say())
    log.close()
    return 0


def make(log: Log, order: Order, say: Callable[[int, int], None]) -> None:
    """Folds the log up to the ends of an order, from what is nearest before them."""
    target = Path(order.target)
    start = Path(order.log.data) / FOLDER / VIEWS
    if start.exists():
        shutil.copyfile(start, target)
    engine = tables.open_engine(target)
    projector = Projector(CutLog(log, order.ends), engine)
    begun, of = sum(projector.positions().values()), sum(order.ends.values())
    say(0, of - begun)
    projector.fold_whole(lambda done: say(done - begun, of - begun))
    projector.stop_reading()
    engine.dispose()
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # all of it in one file, which nobody writes to any more


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not through the buffer, whose lock would be held when this process ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
