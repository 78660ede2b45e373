"""Metrics for Prometheus that are read from the views when they are asked for."""

import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import REGISTRY, Collector

from projections.queries import job_metrics, pool_metrics
from projections.queries.metric_families import Family, Sample, Samples
from projections.views.reader import Views

KEPT_S = 5.0
"""All metrics of one scrape are of one look at the views."""
FAMILIES = (*pool_metrics.FAMILIES, *job_metrics.FAMILIES)


class Watched:
    """The views that are told of."""

    def __init__(self) -> None:
        self._views: dict[str, Views] = {}
        self._looks: dict[str, Samples] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def add(self, cell: int, views: Views) -> Callable[[], None]:
        """Tells of these views too, until the function is called that is returned."""
        with self._lock:
            self._views[str(cell)] = views
            self._until = 0.0

        def remove() -> None:
            with self._lock:
                if self._views.get(str(cell)) is views:
                    del self._views[str(cell)]
                    self._until = 0.0

        return remove

    def samples(self, name: str) -> Iterator[Sample]:
        """Label values and value of each sample of a metric."""
        with self._lock:
            now = time.monotonic()
            if now >= self._until:
                self._looks = {cell: _look(cell, views) for cell, views in self._views.items()}
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
        """See `Collector.describe`."""
        yield self._family.kind(self._family.name, self._family.text, labels=self._labelnames)

    def collect(self) -> Iterator[Metric]:
        """See `Collector.collect`."""
        found = self._family.kind(self._family.name, self._family.text, labels=self._labelnames)
        for labels, value in WATCHED.samples(self._family.name):
            found.add_metric(labels, value)
        yield found


for _family in FAMILIES:
    REGISTRY.register(ViewMetric(_family))


def _look(cell: str, views: Views) -> Samples:
    samples: Samples = {family.name: [] for family in FAMILIES}
    now_ms = int(time.time() * 1000)
    with views.read() as connection:
        pool_metrics.look(connection, cell, now_ms, samples)
        job_metrics.look(connection, cell, now_ms, samples)
    return samples
