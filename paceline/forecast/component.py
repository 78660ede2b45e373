"""Forecasts for one cell: follows its log, and appends to `paceline.forecasts`, which no machine reads (decision 128).

Of each job the first forecast is scored, once it has begun; later ones take its place on pages. What was scored is
learnt again from the topic at the next start.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import Gauge

from events.acceptance import Chain
from events.codec import encode
from events.delivery import Inbox, read_fact
from events.log.embedded import wall_clock_ms
from events.log.port import Log, LogUnavailable, NewRecord, Reader
from events.records.base import Event
from events.records.forecasts import ForecastsMade, ForecastsScored
from events.topics import FORECASTS
from paceline.forecast.book import MACHINES, TOPICS, Book
from paceline.forecast.forecaster import Forecast, Forecaster
from paceline.forecast.records import NEVER, Outcome, made, read, scored

RECORDS = 1000
EVERY_MS = 60_000
"""Between two passes, at least."""
TAIL = 20_000
"""So many records of its own are read at a start."""
MOVED_MIN_MS = 30_000
"""A forecast that has moved by less, and by less than a tenth of its interval, isn't said again."""
RETRY_S = 1.0
KEY = b"forecasts"
LOOK_S = 1.0
"""Seconds between two questions for the ends of the topics."""
LAG = Gauge("paceline_forecast_lag_records", "Records that forecasts don't know of yet.", ("cell", "topic"))
PASS_AT = Gauge(
    "paceline_forecast_pass_seconds",
    "Time at which all that waits was forecast last, or of the start, since 1970.",
    ("cell",),
)


class ForecastCell:
    """See `paceline.services.cell_thread.CellComponent`. `decides`: whether this process is the one that appends;
    `cpu_percent`: of one core, at most, once it has caught up.
    """

    def __init__(
        self,
        log: Log,
        history: Log,
        cpu_percent: float,
        decides: Callable[[], bool] = lambda: True,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`history`: the log with its archive, for a start."""
        self._log, self._history = log, history
        self._cpu_part = cpu_percent / 100
        self._decides, self._now_ms = decides, now_ms
        self._reader: Reader | None = None
        self._trouble = ""
        self._look_at = 0.0
        self.passes = 0

    def step(self) -> bool:
        """Implements `CellComponent.step`."""
        try:
            reader = self._reader or self._begin()
            records = reader.poll(RECORDS, 0)
            self._take(records)
            if time.monotonic() >= self._look_at:
                self._look(reader)
            if not records and self._decides():
                self._score()
                if self._is_due():
                    self._pass()
        except LogUnavailable as error:
            self._trouble = str(error)
            return False
        self._trouble = ""
        return bool(records)

    def wait(self, seconds: float) -> None:
        """Implements `CellComponent.wait`."""
        if self._reader is None or self._trouble:
            time.sleep(min(seconds, RETRY_S))
        else:
            self._take(self._reader.poll(RECORDS, seconds))

    def close(self) -> None:
        """Implements `CellComponent.close`."""
        self.stop_reading()
        self._log.close()

    def stop_reading(self) -> None:
        """Gives back the reader; the log stays open."""
        if self._reader is not None:
            self._reader.close()

    def cut(self) -> None:
        """Implements `CellComponent.cut`."""
        self._log.close()

    def positions(self) -> dict[str, int]:
        """Implements `CellComponent.positions`."""
        return dict(self._inbox.positions) if self._reader is not None else {}

    def recovers(self) -> bool:
        """Implements `CellComponent.recovers`."""
        return self._reader is None

    def status(self) -> dict[str, Any]:
        """Implements `CellComponent.status`."""
        trouble = {"trouble": self._trouble} if self._trouble else {}
        return {"ready": self._reader is not None and not trouble, **trouble, "passes": self.passes}

    def _begin(self) -> Reader:
        """Reads what it has said before, and the log from its start."""
        self._forecaster = Forecaster()
        self._book = Book(self._forecaster.past)
        self._first: dict[str, Forecast] = {}
        """By job its first forecast, until that is scored."""
        self._told: dict[str, Forecast] = {}
        start, end = self._log.bounds(FORECASTS.name)
        for record in self._log.scan(FORECASTS.name, max(start, end - TAIL)):
            self._recall(read_fact(record).event)
        positions = {topic: self._history.bounds(topic)[0] for topic in TOPICS}
        self._inbox = Inbox(positions, {}, {machine: Chain() for machine in MACHINES}, self._log.cell)
        self._reader = self._history.reader(positions)
        self._due_ms = self._pause_ms = 0
        self._used_s = time.thread_time()
        PASS_AT.labels(str(self._log.cell)).set(self._now_ms() / 1000)
        return self._reader

    def _look(self, reader: Reader) -> None:
        """Compares what it has read with the ends of the topics."""
        for topic, end in reader.ends().items():
            LAG.labels(str(self._log.cell), topic).set(max(0, end - self._inbox.positions[topic]))
        self._look_at = time.monotonic() + LOOK_S

    def _recall(self, event: Event | None) -> None:
        if isinstance(event, ForecastsMade):
            for forecast in read(event):
                self._first.setdefault(forecast.job_id, forecast)
                self._told[forecast.job_id] = forecast
        elif isinstance(event, ForecastsScored):
            for job_id, began_ms in zip(event.job_ids, event.began_array.tolist(), strict=True):
                self._told.pop(job_id, None)
                first = self._first.pop(job_id, None)
                if first is not None and began_ms != NEVER:
                    self._forecaster.learn(first, max(0, began_ms - first.made_ms))

    def _take(self, records: Iterable[Any]) -> None:
        self._inbox.add(list(records))
        for delivered in self._inbox.deliver(RECORDS):
            self._book.take(delivered)

    def _score(self) -> None:
        """Says what came of forecasts."""
        begun, self._book.begun = self._book.begun, []
        outcomes = []
        for job_id, began_ms in begun:
            self._told.pop(job_id, None)
            if (first := self._first.pop(job_id, None)) is not None:
                outcomes.append(Outcome(first, began_ms))
                if began_ms != NEVER:
                    self._forecaster.learn(first, max(0, began_ms - first.made_ms))
        self._append(scored(outcomes))

    def _is_due(self) -> bool:
        now_ms = self._now_ms()
        self._due_ms = min(self._due_ms, now_ms + self._pause_ms)  # the clock may have been set back
        return now_ms >= self._due_ms

    def _pass(self) -> None:
        """Forecasts all that waits, and says what is new of it."""
        forecasts = self._forecaster.make(self._book.present(self._now_ms()))
        new = [each for each in forecasts if _moved(self._told.get(each.job_id), each)]
        for each in new:
            self._first.setdefault(each.job_id, each)
            self._told[each.job_id] = each
        self._append(made(new))
        self.passes += 1
        PASS_AT.labels(str(self._log.cell)).set(self._now_ms() / 1000)
        used_s = time.thread_time()
        pause_ms = 1000 * (used_s - self._used_s) / self._cpu_part
        self._used_s = used_s
        self._pause_ms = max(EVERY_MS, round(pause_ms))
        self._due_ms = self._now_ms() + self._pause_ms

    def _append(self, events: Iterable[Event]) -> None:
        records = [NewRecord(event.topic, KEY, encode(event)) for event in events]
        if records:
            self._log.append(records)


def _moved(before: Forecast | None, now: Forecast) -> bool:
    """Whether a forecast says something else than the last one of its job."""
    if before is None or before.raw.method != now.raw.method:
        return True
    least = max(MOVED_MIN_MS, (now.interval.high - now.interval.low) / 10)
    pairs = zip(before.interval, now.interval, strict=True)
    return any(abs(before.made_ms + then - now.made_ms - this) >= least for then, this in pairs)
