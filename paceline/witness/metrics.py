"""Metrics of a witness for Prometheus."""

from prometheus_client import Counter, Gauge

from paceline.witness.alarms import Finding
from paceline.witness.witness import Witness

ROUNDS = Counter("paceline_witness_rounds_total", "Rounds replayed.", ("cell", "machine"))
LAG = Gauge("paceline_witness_lag_records", "Records not replayed yet.", ("cell", "machine"))
HEAD = Gauge("paceline_witness_head_number", "Number of the last head that was published.", ("cell",))
HEAD_AT = Gauge("paceline_witness_head_seconds", "Time of the last head that was published, since 1970.", ("cell",))
ALARM = Gauge("paceline_witness_alarm", "1: the witness has found this.", ("cell", "alarm", "machine"))


def tell(witness: Witness) -> None:
    """Tells where a witness stands now."""
    cell = str(witness.log.cell)
    for each in witness.machines:
        ROUNDS.labels(cell, each.name).inc(each.take_count())
        LAG.labels(cell, each.name).set(each.lag)
    if witness.last is not None:
        HEAD.labels(cell).set(witness.last.head.number)
        HEAD_AT.labels(cell).set(witness.last.head.at_ms / 1000)


def tell_alarm(cell: int, finding: Finding) -> None:
    """Tells what was found."""
    ALARM.labels(str(cell), finding.alarm, finding.difference.machine).set(1)
