"""A service with an SLA keeps what it was promised while another pool takes its own back."""

from events.codes import TaskState
from events.records.pools import CellConfigured
from tests.helpers.whole_cell import Cell


def test_preemption_disturbs_no_more_of_a_service_than_its_sla_allows() -> None:
    cell = Cell(hosts=2)
    cell.append(CellConfigured(command_id="1", preemption_delay_ms=2000))
    cell.pool("/a", {})
    cell.pool("/b", {"cpu": 4000})
    service = {"kind": "stateless", "instances": 8, "max_unavailable": 2}
    cell.submit("service", pool="/a", resources={"cpu": 1000}, duration_ms=10**7, **service)
    cell.run(2000)
    assert cell.lifecycle.jobs["service"].counts[TaskState.RUNNING] == 8
    cell.submit("batch", pool="/b", instances=4, resources={"cpu": 1000}, duration_ms=3000)
    fewest = 8
    for _ in range(100):
        cell.run(100)
        fewest = min(fewest, cell.lifecycle.jobs["service"].counts[TaskState.RUNNING])
    assert fewest == 6, "two of eight may be unavailable"
    cell.run(20_000)
    assert cell.lifecycle.jobs["service"].counts[TaskState.RUNNING] == 8
    cell.verify()


def test_who_waits_for_a_preemption_gets_another_when_sla_defers_it_late() -> None:
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="1", preemption_delay_ms=2000))
    cell.pool("/a")
    cell.pool("/b", {"cpu": 2000})
    cell.run(2000)
    cell.submit("batch", pool="/a", instances=2, resources={"cpu": 1000}, duration_ms=10**8)
    cell.run(2000)
    service = {"kind": "stateless", "max_unavailable": 0, "duration_ms": 10**8}
    cell.submit("service", pool="/a", instances=2, resources={"cpu": 1000}, **service)
    cell.run(3000)
    cell.submit("reserved", pool="/b", instances=2, resources={"cpu": 1000}, duration_ms=10**8)
    sla = cell.drivers.pop("sla")
    cell.run(10_000)
    cell.drivers["sla"] = sla
    cell.run(10_000)
    assert cell.state("reserved") == "RUNNING", "the batch job leaves, since the service may not"
    assert cell.state("batch") == "PENDING"
    cell.verify()
