"""Metrics for Prometheus that are read from the views when they are asked for."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.registry import REGISTRY, Collector

from events.log.port import Log, LogError
from projections.queries import (
    forecast_metrics,
    job_metrics,
    machine_lag,
    maintenance_metrics,
    pool_metrics,
    preemption_loops,
    stalls,
)
from projections.queries.metric_families import Family, Sample, Samples
from projections.views.reader import Views

KEPT_S = 5.0
"""All metrics of one scrape are of one look at the views."""
FAMILIES = (
    machine_lag.LATE,
    *pool_metrics.FAMILIES,
    *preemption_loops.FAMILIES,
    *stalls.FAMILIES,
    *job_metrics.FAMILIES,
    *maintenance_metrics.FAMILIES,
    *forecast_metrics.FAMILIES,
)


class _Cell(NamedTuple):
    views: Views
    log: Log
    alarm_unread_ms: int


class Watched:
    """The views that are told of."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}
        self._looks: dict[str, Samples] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def add(self, views: Views, log: Log, alarm_unread_ms: int) -> Callable[[], None]:
        """Tells of the views of the cell of a log too, until the function is called that is returned.
        `alarm_unread_ms`: see `machine_lag.late_since_ms`.
        """
        cell = log.cell
        with self._lock:
            self._cells[str(cell)] = _Cell(views, log, alarm_unread_ms)
            self._until = 0.0

        def remove() -> None:
            with self._lock:
                if str(cell) in self._cells and self._cells[str(cell)].views is views:
                    del self._cells[str(cell)]
                    self._until = 0.0

        return remove

    def samples(self, name: str) -> Iterator[Sample]:
        """Label values and value of each sample of a metric."""
        with self._lock:
            now = time.monotonic()
            if now >= self._until:
                self._looks = {cell: _look(cell, *each) for cell, each in self._cells.items()}
                self._until = now + KEPT_S
            looks = list(self._looks.values())
        for look in looks:
            yield from look.get(name, ())


WATCHED = Watched()


class ViewMetric(Collector):
    """One metric of all views that are watched."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._labelnames = ("cell", *family.labels)

    def describe(self) -> Iterator[Metric]:
        """Implements `Collector.describe`."""
        yield self._family.kind(self._family.name, self._family.text, labels=self._labelnames)

    def collect(self) -> Iterator[Metric]:
        """Implements `Collector.collect`."""
        family = self._family.kind(self._family.name, self._family.text, labels=self._labelnames)
        for labels, value in WATCHED.samples(self._family.name):
            family.add_metric(labels, value)
        yield family


for _family in FAMILIES:
    REGISTRY.register(ViewMetric(_family))


def _look(cell: str, views: Views, log: Log, alarm_unread_ms: int) -> Samples:
    samples: Samples = {family.name: [] for family in FAMILIES}
    now_ms = int(time.time() * 1000)
    with views.read() as connection:
        with suppress(LogError):  # what can't be asked is no sample
            lags = machine_lag.machine_lags(connection, log, machine_lag.ends_of(log), now_ms, alarm_unread_ms)
            machine_lag.look(list(lags), cell, now_ms, samples)
        pool_metrics.look(connection, cell, now_ms, samples)
        preemption_loops.look(preemption_loops.loops(connection, now_ms), cell, samples)
        stalls.look(stalls.stalls(connection), cell, samples)
        job_metrics.look(connection, cell, now_ms, samples)
        maintenance_metrics.look(connection, cell, now_ms, samples)
        forecast_metrics.look(connection, cell, now_ms, samples)
    return samples
