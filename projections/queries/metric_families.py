"""The names of metrics that are read from the views, and their samples."""

from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Kind = type[GaugeMetricFamily] | type[CounterMetricFamily]
Sample = tuple[tuple[str, ...], float]
"""Label values, that of the cell first, and the value."""
Samples = dict[str, list[Sample]]
"""By the names of metrics."""


class Family(NamedTuple):
    """A metric; each has the label `cell` before its others."""

    kind: Kind
    name: str
    text: str
    labels: tuple[str, ...] = ()
