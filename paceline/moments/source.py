"""Moments of the cells of a server, and their views: what the API gets as `MomentSource`."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from events.log.port import Log
from paceline.moments.log_cut import CutLog
from paceline.moments.order import LogAddress, Order, Progress
from paceline.moments.resolver import Past, Resolver
from paceline.moments.view_maker import MakerLimits, ViewMaker
from projections.api.moments import Asker, Making, Moment, PastCell
from projections.views import tables
from projections.views.reader import Views

COMMAND = [sys.executable, "-m", "paceline.history.make_views"]
OPEN_MAX = 16
"""Views that are open at once."""


class CellPast(NamedTuple):
    """The sources of a cell's past: its log behind its archive, where another process opens that, the folder of the
    cell's views, and when it begins where that isn't the log's start.
    """

    log: Log
    address: LogAddress
    folder: Path
    since_ms: int = 0


class CellMoments:
    """Implements `MomentSource`."""

    def __init__(self, cells: Mapping[int, CellPast], limits: MakerLimits, command: list[str] = COMMAND) -> None:
        self._cells = cells
        self._resolver = Resolver({cell: Past(each.log, each.since_ms) for cell, each in cells.items()})
        self._makers = {cell: _maker(each, limits, command) for cell, each in cells.items()}
        self._lock = threading.Lock()
        self._open: dict[Path, PastCell] = {}

    def resolve(self, text: str) -> Moment:
        """Implements `MomentSource.resolve`."""
        return self._resolver.resolve(text)

    def look(self, moment: Moment, asker: Asker) -> Mapping[int, PastCell] | Making:
        """Implements `MomentSource.look`."""
        self._close_removed()
        ready: dict[int, PastCell] = {}
        waits: list[Progress] = []
        for cell, ends in moment.ends.items():
            answer = self._makers[cell].ask(ends, asker)
            if isinstance(answer, Progress):
                waits.append(answer)
            else:
                ready[cell] = self._opened(answer, ends, cell)
        if waits:
            return Making(moment, sum(each.done for each in waits), sum(each.of for each in waits))
        return ready

    def close(self) -> None:
        """Ends what is being made, and removes what was."""
        for maker in self._makers.values():
            maker.close()
        for past in self._open.values():
            past.views.close()

    def _close_removed(self) -> None:
        """Closes views whose files are removed: only then the disk has their room."""
        with self._lock:
            for path in [path for path in self._open if not path.exists()]:
                self._open.pop(path).views.close()

    def _opened(self, path: Path, ends: Mapping[str, int], cell: int) -> PastCell:
        with self._lock:
            past = self._open.pop(path, None)
            if past is None:
                past = PastCell(Views(tables.open_made(path)), CutLog(self._cells[cell].log, ends))
            self._open[path] = past
            while len(self._open) > OPEN_MAX:
                self._open.pop(next(iter(self._open))).views.close()
            return past


def _maker(past: CellPast, limits: MakerLimits, command: list[str]) -> ViewMaker:
    def order(ends: Mapping[str, int], target: Path) -> bytes:
        return msgspec.json.encode(Order(past.address, dict(ends), str(target), str(past.folder)))

    return ViewMaker(past.folder, command, order, limits)
