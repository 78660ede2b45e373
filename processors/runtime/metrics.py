"""What a processor tells Prometheus: rounds, decisions, batches, time per step, lag, epoch, what was ignored."""

from collections import Counter as Count

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
        self._steps: dict[str, Histogram] = {}

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        """See `Observer.committed`."""
        self._rounds.inc()
        self._bytes.observe(size)
        self._batch.observe(sum(segment.end - segment.start for segment in record.inputs))
        for kind, times in Count(type(decision).__name__ for decision in decisions).items():
            DECISIONS.labels(**self._labels, kind=kind).inc(times)
        for decision in decisions:
            run_metrics.count(self._labels["cell"], decision)

    def ignored(self, topic: str, cause: str) -> None:
        """See `Observer.ignored`."""
        IGNORED.labels(**self._labels, topic=topic, cause=cause).inc()

    def step(self, name: str, seconds: float) -> None:
        """A step of the loop took so long."""
        if name not in self._steps:
            self._steps[name] = STEP.labels(**self._labels, step=name)
        self._steps[name].observe(seconds)

    def set_state(self, epoch: int, lag: dict[str, int]) -> None:
        """Where the machine stands now."""
        EPOCH.labels(**self._labels).set(epoch)
        for topic, records in lag.items():
            LAG.labels(**self._labels, topic=topic).set(records)
