"""Runs a cell from moment to moment: acts, rest, a look, and on to the next moment at which anything is due."""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from events.topics import ALL
from paceline.simulate.scenario.assertions import CellState
from paceline.simulate.world.cell import START_MS, Cell
from paceline.simulate.world.expectation_watch import Watch
from paceline.simulate.world.log_summary import LogSummaryComponent
from paceline.simulate.world.scripted_actions import Action

DROP_RECORDS = 20_000
"""In a trace, the log is dropped after so many records: all have read them."""


class Observer(Protocol):
    """Looks at a cell at rest."""

    def look(self, now_ms: int) -> None:
        """`now_ms` milliseconds from the start."""
        ...


class Run:
    """One run. Times are milliseconds from the start.

    It ends at `end_ms`, or as soon as nothing more is to happen and nothing is expected any more, if `rests` says so.
    """

    def __init__(
        self,
        cell: Cell,
        log_summary: LogSummaryComponent,
        actions: Iterator[Action],
        watch: Watch,
        end_ms: int,
        is_at_rest: Callable[[], bool] | None,
        observers: tuple[Observer, ...] = (),
        keeps_log: bool = True,
    ) -> None:
        self.cell = cell
        self.log_summary = log_summary
        self.watch = watch
        self.now_ms = 0
        self.wall_s = 0.0
        self._actions = actions
        self._action = next(actions, None)
        self._end_ms = end_ms
        self._is_at_rest = is_at_rest
        self._observers = observers
        self._keeps_log = keeps_log
        self._dropped_at = 0

    def cell_state(self) -> CellState:
        """The state of the cell for expectations."""
        return CellState(self.cell.machines, self.log_summary.observed)

    def run_to_end(self, on_moment: Callable[["Run"], None] = lambda run: None) -> None:
        """Runs to the end; `said` is told of each moment."""
        began = time.perf_counter()
        gc.freeze()  # what was imported lives as long as the process
        while True:
            self._moment()
            on_moment(self)
            ahead = self._next_ms()
            if ahead is None:
                break
            self.now_ms = ahead
            self.cell.clock.ms = START_MS + ahead
        self.watch.check(self.now_ms, self.cell.log.appended, self.cell_state(), self.position(), ended=True)
        self.wall_s = time.perf_counter() - began

    def end(self) -> None:
        """Has it end at the present moment."""
        self._end_ms = self.now_ms

    def ahead_ms(self) -> int | None:
        """When it ends, where that is known."""
        return None if self._is_at_rest is not None else self._end_ms

    def cut_short(self) -> bool:
        """Whether it ended though jobs ran, because nobody had said when to end."""
        return self._is_at_rest is not None and self.now_ms >= self._end_ms and bool(self.cell.running())

    def position(self) -> str:
        """Topic and offset of the newest accepted round."""
        topic, offset = self.log_summary.last
        return f"{topic}:{offset}"

    def _moment(self) -> None:
        while self._action is not None and self._action.at_ms <= self.now_ms:
            self._action.do()
            self._action = next(self._actions, None)
        self.cell.run_until_quiet()
        for observer in self._observers:
            observer.look(self.now_ms)
        self.watch.check(self.now_ms, self.cell.log.appended, self.cell_state(), self.position())
        if not self._keeps_log and self.cell.log.appended - self._dropped_at >= DROP_RECORDS:
            self._dropped_at = self.cell.log.appended
            self.cell.read_all()
            for topic, end in self.cell.log.ends([topic.name for topic in ALL]).items():
                self.cell.log.truncate(topic, end)

    def _next_ms(self) -> int | None:
        """The next moment; None: the end was reached."""
        if self.now_ms >= self._end_ms:
            return None
        if self._is_at_rest is not None and self._action is None and self.watch.next_ms() is None:
            at_ms = self.cell.next_but_beats_ms()
            never = at_ms is None or (at_ms - START_MS >= self._end_ms and not self.cell.running())
            if never or self._is_at_rest():  # never: what is open waits for what won't come
                return None
        at_ms = self.cell.next_ms()
        times = [self._end_ms] if at_ms is None else [self._end_ms, at_ms - START_MS]
        if self._action is not None:
            times.append(self._action.at_ms)
        looks = self.watch.next_ms()
        if looks is not None:
            times.append(looks)
        return max(min(times), self.now_ms)
