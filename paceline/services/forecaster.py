"""`paceline forecaster`: when waiting jobs are expected to begin, for the cells that its group gives to it."""

import threading
from collections.abc import Callable
from pathlib import Path

from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, LogError
from events.topics import FORECASTS
from paceline.forecast.book import TOPICS
from paceline.forecast.component import ForecastCell
from paceline.services.cell_log import with_archive
from paceline.services.faust_app import run_cells
from paceline.services.settings import Settings
from paceline.services.startup import Start, folder_of

PACE = {"fetch.min.bytes": 65_536, "fetch.wait.max.ms": 100}
WAIT_S = 0.5
FILE = "forecasts.msgpack"


def serve(settings: Settings, start: Start) -> None:
    """Runs until SIGTERM or SIGINT. Raises `CannotStart`."""

    def make(cell: int) -> ForecastCell:
        def say(text: str) -> None:
            start.say(cell, text)

        log = KafkaLog(settings.kafka, cell, {**PACE, **settings.kafka_options}, say)
        return ForecastCell(
            log,
            with_archive(log, settings.archive),
            folder_of(settings, cell) / FILE,
            settings.forecast.cpu_percent,
        )

    run_cells(settings, start, (*TOPICS, FORECASTS.name), make)


class ForecastThread:
    """The forecasts of a cell in the process of `paceline up`, in a thread of their own; `close` ends it."""

    def __init__(
        self, log: Log, folder: Path, cpu_percent: float, decides: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        """`folder`: keeps its file; `decides`: whether this process owns the cell. The log isn't closed."""
        self._cell = ForecastCell(log, log, folder / FILE, cpu_percent, decides)
        self._say = say
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forecaster", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        """A fault ends forecasts, and nothing else of the cell."""
        try:
            while not self._ending.is_set():
                if not self._cell.step():
                    self._cell.wait(WAIT_S)
        except LogError as error:
            if not self._ending.is_set():
                self._say(f"there are no more forecasts until the next start: {error}")
        finally:
            self._cell.stop_reading()
