"""Metrics of a processor for Prometheus: rounds, decisions, batches, time per step, lag, epoch, what was ignored.

What happens with every round and step is noted and told once a second: a counter costs as much as what it counts.
"""

from collections import Counter as Count
from collections import defaultdict

from prometheus_client import Counter, Gauge, Histogram

from events.records.base import Event
from events.records.rounds import RoundCommitted
from processors.runtime import run_metrics

LABELS = ("cell", "machine")
ROUNDS = Counter("paceline_rounds_total", "Rounds accepted.", LABELS)
DECISIONS = Counter("paceline_decisions_total", "Decisions by kind.", (*LABELS, "kind"))
ROUND_BYTES = Histogram(
    "paceline_round_bytes", "Size of rounds.", LABELS, buckets=(200, 500, 1000, 5000, 20_000, 100_000, 1_000_000)
)
BATCH = Histogram("paceline_round_inputs", "Records applied per round.", LABELS, buckets=(0, 1, 3, 10, 100, 1000, 2000))
STEP = Histogram(
    "paceline_step_duration_seconds",
    "Time per step of the loop.",
    (*LABELS, "step"),
    buckets=(0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0),
)
LAG = Gauge("paceline_lag_records", "Records not applied yet.", (*LABELS, "topic"))
EPOCH = Gauge("paceline_epoch", "The epoch under which this process decides; 0: it doesn't.", LABELS)
IGNORED = Counter("paceline_ignored_rounds_total", "Records of machines' topics ignored.", (*LABELS, "topic", "cause"))


class Metrics:
    """The metrics of one machine of one cell; see `processors.runtime.driver.Observer`."""

    def __init__(self, cell: int, machine: str) -> None:
        self._labels = {"cell": str(cell), "machine": machine}
        self._rounds = ROUNDS.labels(**self._labels)
        self._bytes = ROUND_BYTES.labels(**self._labels)
        self._batch = BATCH.labels(**self._labels)
        self._committed: list[tuple[int, int]] = []
        self._kinds: Count[type[Event]] = Count()
        self.steps: defaultdict[str, list[float]] = defaultdict(list)
        """They list how many seconds each step of the loop took, until that is told."""

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        """Implements `Observer.committed`."""
        self._committed.append((size, sum([segment.end - segment.start for segment in record.inputs])))
        self._kinds.update(map(type, decisions))
        for decision in decisions:
            if type(decision) in run_metrics.COUNTED:
                run_metrics.count(self._labels["cell"], decision)

    def ignored(self, topic: str, cause: str) -> None:
        """Implements `Observer.ignored`."""
        IGNORED.labels(**self._labels, topic=topic, cause=cause).inc()

    def tell(self, epoch: int, lag: dict[str, int]) -> None:
        """Tells what was noted, and where the machine stands now."""
        committed, self._committed = self._committed, []
        self._rounds.inc(len(committed))
        for size, inputs in committed:
            self._bytes.observe(size)
            self._batch.observe(inputs)
        for kind, times in self._kinds.items():
            DECISIONS.labels(**self._labels, kind=kind.__name__).inc(times)
        self._kinds.clear()
        for name, times_s in self.steps.items():
            observe = STEP.labels(**self._labels, step=name).observe
            for seconds in times_s:
                observe(seconds)
        self.steps.clear()
        EPOCH.labels(**self._labels).set(epoch)
        for topic, records in lag.items():
            LAG.labels(**self._labels, topic=topic).set(records)
