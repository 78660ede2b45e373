"""A service with an SLA keeps what it was promised while another pool takes its own back."""

from events.codes import TaskState
from events.records.parts import Amounts
from tests.cell.world import Cell


def test_preemption_disturbs_no_more_of_a_service_than_its_sla_allows() -> None:
    cell = Cell(hosts=2)
    cell.pool("/a", Amounts(0, 0, 0, 0))
    cell.pool("/b", Amounts(4000, 0, 0, 0))
    service = {"kind": "stateless", "instances": 8, "max_unavailable": 2}
    cell.submit("service", pool="/a", cpu_milli=1000, duration_ms=10**7, **service)
    cell.run(2000)
    assert cell.lifecycle.jobs["service"].counts[TaskState.RUNNING] == 8
    cell.submit("batch", pool="/b", instances=4, cpu_milli=1000, duration_ms=3000)
    fewest = 8
    for _ in range(100):
        cell.run(100)
        fewest = min(fewest, cell.lifecycle.jobs["service"].counts[TaskState.RUNNING])
    assert fewest == 6, "two of eight may be unavailable"
    cell.run(20_000)
    assert cell.lifecycle.jobs["service"].counts[TaskState.RUNNING] == 8
    cell.verify()
