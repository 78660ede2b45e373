"""`paceline projector`: the views of the cells that its group gives to this process, in a database for each.

The group is that of a data folder: each machine that serves an API keeps views of its own, of all cells.
"""

from contextlib import ExitStack, closing
from typing import Any

from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.transactions import Transactions
from events.topics import VIEWED
from paceline.moments.copier import Copier
from paceline.services.cell_log import with_archive
from paceline.services.faust_app import run_cells
from paceline.services.settings import Settings
from paceline.services.startup import Start, folder_of
from projections.queries.view_metrics import WATCHED
from projections.views.projector import PACE_MS, Projector

PACE = {"fetch.min.bytes": 65536, "fetch.wait.max.ms": 50}
"""Many records at once cost the views, and the broker, much less than one by one."""


class ViewsPart:
    """The views of one cell; see `cells.Part`."""

    def __init__(self, settings: Settings, start: Start, cell: int) -> None:
        self._log = KafkaLog(
            settings.kafka, cell, {**PACE, **settings.kafka_options}, on_trouble=lambda text: start.say(cell, text)
        )
        with ExitStack() as opened:
            opened.callback(self._log.close)
            self._transactions = Transactions(self._log, [topic.name for topic in VIEWED])
            # views that are rebuilt begin before the log where that was cut
            folder = folder_of(settings, cell)
            self._copier = Copier(folder, settings.views.copy_every, lambda text: start.say(cell, text))
            self._projector = Projector(with_archive(self._log, settings.archive), folder, self._copier.folded, PACE_MS)
            opened.pop_all()
        self._unwatch = WATCHED.add(self._projector.views, self._log, settings.alarm_unread_ms)

    def step(self) -> bool:
        """Implements `Part.step`."""
        self._transactions.step()
        return self._projector.step()

    def wait(self, seconds: float) -> None:
        """Implements `Part.wait`."""
        self._projector.wait(seconds)

    def close(self) -> None:
        """Implements `Part.close`."""
        self._unwatch()
        self._copier.close()
        with closing(self._log):
            self._projector.close()

    def cut(self) -> None:
        """Implements `Part.cut`."""
        self._log.close()

    def positions(self) -> dict[str, int]:
        """Implements `Part.positions`."""
        return self._projector.positions()

    def recovers(self) -> bool:
        """Implements `Part.recovers`. The views are read where they are opened."""
        return False

    def status(self) -> dict[str, Any]:
        """Implements `Part.standing`."""
        trouble = {"trouble": self._log.link.trouble} if self._log.link.trouble else {}
        return {"ready": not trouble, **trouble, "positions": dict(self._projector.positions())}


def serve(settings: Settings, start: Start) -> None:
    """Runs until SIGTERM or SIGINT. Raises `CannotStart`."""
    run_cells(settings, start, [topic.name for topic in VIEWED], lambda cell: ViewsPart(settings, start, cell))
