"""Forecasts for one cell: follows its log, and appends to `paceline.forecasts`, which no machine reads (decision 128).

Of each job the first forecast is scored, once it has begun; later ones take its place on pages. What was said counts
once it is read back, so that whoever follows the topic knows the same. All that is known is kept in a file, from which
a start goes on; without one the log is read from its start.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import Gauge

from events.acceptance import Chain
from events.codec import encode
from events.delivery import Inbox
from events.log.embedded import wall_clock_ms
from events.log.port import AppendUnknown, Log, LogRecord, LogUnavailable, NewRecord, Reader
from events.records.base import Event
from events.records.forecasts import ForecastsMade, ForecastsScored
from events.topics import FORECASTS
from paceline.forecast import checkpoint
from paceline.forecast.book import MACHINES, TOPICS, Book
from paceline.forecast.checkpoint import FORMAT, Checkpoint
from paceline.forecast.forecaster import Forecast, Forecaster
from paceline.forecast.records import NEVER, Outcome, made, read, scored

RECORDS = 1000
EVERY_MS = 60_000
"""Between two passes, at least."""
KEPT_MS = 300_000
"""Between two writes of the file that saves reading the log from its start."""
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
        path: Path | None,
        cpu_percent: float,
        decides: Callable[[], bool] = lambda: True,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`history`: the log with its archive, for a start; `path`: the file that keeps what is known; None: nothing
        does.
        """
        self._log, self._history, self._path = log, history, path
        self._cpu_part = cpu_percent / 100
        self._decides, self._now_ms = decides, now_ms
        self._reader: Reader | None = None
        self._trouble = ""
        self._look_at = 0.0
        self._is_whole = True
        """Whether all is known of what `positions` says."""
        self.passes = 0

    def step(self) -> bool:
        """Implements `CellComponent.step`."""
        try:
            reader = self._reader or self._begin()
            records = reader.poll(RECORDS, 0)
            self._take(records)
            if time.monotonic() >= self._look_at:
                self._look(reader)
            has_more = not records and self._knows_all(reader) and self._go_on()
        except AppendUnknown as error:
            self.stop_reading()
            self._trouble = str(error)
            return False
        except LogUnavailable as error:
            self._trouble = str(error)
            return False
        self._trouble = ""
        return bool(records) or has_more

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
        """Keeps what it knows, unless a fault has cut it off, and gives back the reader; the log stays open."""
        if self._reader is not None:
            if self._is_whole:
                self._keep()
            self._reader.close()
            self._reader = None

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
        """Goes on from the file, or reads the log from its start."""
        self._forecaster = Forecaster()
        self._book = Book(self._forecaster.past)
        self._first: dict[str, Forecast] = {}
        """By job its first forecast, until that is scored."""
        self._newest: dict[str, Forecast] = {}
        bounds = {topic: self._history.bounds(topic) for topic in (*TOPICS, FORECASTS.name)}
        if (state := self._kept(bounds)) is not None:
            self._forecaster.load(state.forecaster)
            self._book.state = state.book
            self._first, self._newest, self._chains = state.first, state.newest, state.chains
            self._inbox = Inbox(state.positions, state.known_positions, self._chains, self._log.cell)
        else:
            self._chains = {machine: Chain() for machine in MACHINES}
            self._inbox = Inbox(
                {topic: start for topic, (start, _) in bounds.items()}, {}, self._chains, self._log.cell
            )
        self._awaited = {topic: end for topic, (_, end) in bounds.items()}
        """So far it reads before it says anything: to where the log ended, and later to what it has said itself."""
        self._reader = self._history.reader(self._inbox.positions)
        now_ms = self._now_ms()
        self._due_ms = self._pause_ms = 0
        self._keep_at_ms, self._used_s = now_ms + KEPT_MS, time.thread_time()
        PASS_AT.labels(str(self._log.cell)).set(now_ms / 1000)
        return self._reader

    def _kept(self, bounds: Mapping[str, tuple[int, int]]) -> Checkpoint | None:
        """The state on disk, where the log can be read on from there."""
        state = checkpoint.load(self._path, self._log.cell) if self._path is not None else None
        if state is None or state.positions.keys() != bounds.keys():
            return None
        return state if all(start <= state.positions[topic] <= end for topic, (start, end) in bounds.items()) else None

    def _keep(self) -> None:
        """Puts all that is known on disk."""
        self._keep_at_ms = self._now_ms() + KEPT_MS
        if self._path is None:
            return
        checkpoint.save(
            self._path,
            Checkpoint(
                FORMAT,
                self._log.cell,
                self._inbox.positions,
                self._inbox.known,
                self._chains,
                self._book.state,
                self._forecaster.dump(),
                self._first,
                self._newest,
            ),
        )

    def _knows_all(self, reader: Reader) -> bool:
        """Whether it has read all that was there when it began, and all that it has said."""
        position = self._inbox.positions.__getitem__ if self._inbox.waiting else reader.position
        return all(position(topic) >= end for topic, end in self._awaited.items())

    def _go_on(self) -> bool:
        """Says what is due, and keeps what it knows; whether it has said anything."""
        book, now_ms = self._book.state, self._now_ms()
        book.begun = [each for each in book.begun if each[0] in self._first]
        self._keep_at_ms = min(self._keep_at_ms, now_ms + KEPT_MS)
        if now_ms >= self._keep_at_ms:
            self._keep()
        if not self._decides():
            return False
        if book.begun:
            return self._append(scored([Outcome(self._first[job_id], began_ms) for job_id, began_ms in book.begun]))
        return self._is_due() and self._pass()

    def _is_due(self) -> bool:
        now_ms = self._now_ms()
        self._due_ms = min(self._due_ms, now_ms + self._pause_ms)  # the clock may have been set back
        return now_ms >= self._due_ms

    def _look(self, reader: Reader) -> None:
        """Compares what it has read with the ends of the topics."""
        for topic, end in reader.ends().items():
            LAG.labels(str(self._log.cell), topic).set(max(0, end - self._inbox.positions[topic]))
        self._look_at = time.monotonic() + LOOK_S

    def _recall(self, event: Event | None) -> None:
        """Takes what was said, here or before; a record that can't be, which nobody refuses, is passed over."""
        with suppress(ValueError, IndexError):
            self._recall_all(event)

    def _recall_all(self, event: Event | None) -> None:
        if isinstance(event, ForecastsMade):
            for forecast in list(read(event)):
                self._first.setdefault(forecast.job_id, forecast)
                self._newest[forecast.job_id] = forecast
        elif isinstance(event, ForecastsScored):
            for job_id, began_ms in list(zip(event.job_ids, event.began_array.tolist(), strict=True)):
                self._newest.pop(job_id, None)
                first = self._first.pop(job_id, None)
                if first is not None and began_ms != NEVER:
                    self._forecaster.learn(first, max(0, began_ms - first.made_ms))

    def _take(self, records: Iterable[LogRecord]) -> None:
        self._is_whole = False
        self._inbox.add(list(records))
        for delivered in self._inbox.deliver(RECORDS):
            if delivered.record.topic == FORECASTS.name:
                self._recall(delivered.event)
            else:
                self._book.take(delivered)
        self._is_whole = True

    def _pass(self) -> bool:
        """Forecasts all that waits, and says what is new of it; whether anything is."""
        forecasts = self._forecaster.make(self._book.present(self._now_ms()))
        is_new = self._append(made([each for each in forecasts if _moved(self._newest.get(each.job_id), each)]))
        self.passes += 1
        PASS_AT.labels(str(self._log.cell)).set(self._now_ms() / 1000)
        used_s = time.thread_time()
        pause_ms = 1000 * (used_s - self._used_s) / self._cpu_part
        self._used_s = used_s
        self._pause_ms = max(EVERY_MS, round(pause_ms))
        self._due_ms = self._now_ms() + self._pause_ms
        return is_new

    def _append(self, events: Iterable[Event]) -> bool:
        records = [NewRecord(event.topic, KEY, encode(event)) for event in events]
        if records:
            self._awaited = {FORECASTS.name: self._log.append(records)[-1] + 1}
        return bool(records)


def _moved(before: Forecast | None, now: Forecast) -> bool:
    """Whether a forecast says something else than the last one of its job."""
    if before is None or before.raw.method != now.raw.method:
        return True
    least = max(MOVED_MIN_MS, (now.interval.high - now.interval.low) / 10)
    pairs = zip(before.interval, now.interval, strict=True)
    return any(abs(before.made_ms + then - now.made_ms - this) >= least for then, this in pairs)
