"""A cell in which several users have moved what blame is asked of."""

from typing import Any

from events.records.hosts import HostsDrainRequested
from events.records.jobs import JobPriorityRequested, JobStopRequested
from events.records.parts import Actor
from events.records.pools import CellConfigured, PoolDefined
from tests.helpers.whole_cell import Cell


def by(name: str) -> Actor:
    """Somebody who says who they are."""
    return Actor(name, "environment")


def _of_a(command_id: str, name: str, **fields: Any) -> PoolDefined:
    fields = {"limit": {"cpu": 8000, "memory": 90_000}, "share": {"cpu": 3}} | fields
    return PoolDefined(path="/a", command_id=command_id, actor=by(name), **fields)


def moved_cell() -> Cell:
    """Several users change pools, settings, jobs and hosts; `high` of carol preempts a task of `low`."""
    cell = Cell(hosts=2)
    cell.append(CellConfigured(command_id="1", preemption_delay_ms=9000, actor=by("ann"), reason="slowly"))
    cell.append(CellConfigured(command_id="2", settle_ms=1000, actor=by("bob")))
    cell.append(CellConfigured(command_id="3", preemption_delay_ms=2000, actor=by("carol"), reason="quick"))
    cell.append(_of_a("4", "ann", limit={"cpu": 9000, "memory": 90_000}))
    cell.append(_of_a("5", "bob", reason="too much"))
    cell.append(_of_a("6", "carol", description="maps"))
    cell.append(_of_a("6b", "ben", description="maps", share_default=2))
    cell.append(PoolDefined(path="/b", command_id="7", actor=by("dan")))
    resources = {"cpu": 1000}
    cell.submit("low", pool="/a", instances=8, resources=resources, duration_ms=1_000_000, actor=by("lou"))
    cell.submit("gone", pool="/a", resources=resources, duration_ms=1_000_000, actor=by("lou"))
    cell.run(3000)
    cell.append(JobPriorityRequested(job_id="low", command_id="8", priority=3, actor=by("eve"), reason="later"))
    cell.append(JobStopRequested(job_id="gone", command_id="9", actor=by("fay"), reason="not needed"))
    cell.submit("high", pool="/b", resources=resources, duration_ms=1_000_000, preemptible=False, actor=by("carol"))
    cell.run(10_000)
    cell.append(PoolDefined(path="/b", command_id="raise", reservation={"cpu": 1000}, actor=by("dan"), reason="urgent"))
    cell.run(12_000)
    cell.append(HostsDrainRequested(host_ids=("sim-2",), command_id="d", actor=by("gus"), reason="disk"))
    cell.run(3000)
    return cell
