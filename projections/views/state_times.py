"""Durations of tasks in each state, for Prometheus: counted by this process as the views fold the log."""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import REGISTRY, Collector

from events.codes import TaskState
from events.columns import I32, I64
from projections.views.blocks import Blocks

STATES = (TaskState.QUEUED, TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING, TaskState.BACKOFF)
"""Those that end."""
BOUNDS_S = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
_BUCKETS = len(BOUNDS_S) + 1
_SIZE = (max(TaskState) + 1) * _BUCKETS


class StateTimes:
    """Those of a cell."""

    def __init__(self) -> None:
        self.counts: I64 = np.zeros((max(TaskState) + 1, _BUCKETS), dtype=np.int64)
        """By state and bucket."""
        self.sums: I64 = np.zeros(max(TaskState) + 1, dtype=np.int64)
        """Seconds by state."""

    def left(self, tasks: Blocks, places: I64, states: I32, now_s: int) -> None:
        """Tasks have left these states now."""
        seconds = np.maximum(0, now_s - tasks["state_s"][places])
        tasks["state_s"][places] = now_s
        bucket = np.searchsorted(BOUNDS_S, seconds, side="left")
        self.counts += np.bincount(states * _BUCKETS + bucket, minlength=_SIZE).reshape(self.counts.shape)
        self.sums += np.bincount(states, seconds, len(self.sums)).astype(np.int64)

    def left_one(self, state: int, seconds: int) -> None:
        """A task has left a state in which it was for so long."""
        seconds = max(0, seconds)
        self.counts[state, bisect_left(BOUNDS_S, seconds)] += 1
        self.sums[state] += seconds


class StateTimesMetric(Collector):
    """The metric `paceline_task_state_seconds`."""

    def __init__(self) -> None:
        self._cells: dict[int, StateTimes] = {}
        self._labelnames = ("cell", "state")

    def of(self, cell: int) -> StateTimes:
        """Those of a cell, to add to."""
        return self._cells.setdefault(cell, StateTimes())

    def describe(self) -> Iterator[Metric]:
        """Implements `Collector.describe`."""
        yield HistogramMetricFamily(
            "paceline_task_state_seconds", "How long tasks were in a state.", labels=self._labelnames
        )

    def collect(self) -> Iterator[Metric]:
        """Implements `Collector.collect`."""
        [family] = self.describe()
        assert isinstance(family, HistogramMetricFamily)
        for cell, times in list(self._cells.items()):
            for state in STATES:
                counts = np.cumsum(times.counts[state]).tolist()
                buckets = list(zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True))
                family.add_metric((str(cell), state.name), buckets, int(times.sums[state]))
        yield family


STATE_TIMES = StateTimesMetric()
REGISTRY.register(STATE_TIMES)
