"""Jobs that have ended, in a whole cell: nobody holds anything of them, and their ids may return."""

import random

from events.codec import decode
from events.records.lifecycle import JobAccepted, RunsEnded
from events.records.parts import Simulated
from events.records.pools import CellConfigured
from events.records.rounds import RoundCommitted
from events.topics import rounds_of
from processors.runtime.deciding import Limits
from tests.helpers.drawn import seeds
from tests.helpers.machines import runs_of
from tests.helpers.whole_cell import Cell
from tests.processors.cell.test_cell import nothing_is_held


def decided(cell: Cell, kind: type) -> list:
    rounds = (decode(record.value) for record in cell.log.scan(rounds_of("lifecycle"), 0))
    values = [value for each in rounds if isinstance(each, RoundCommitted) for value in each.decisions]
    return [event for event in map(decode, values) if isinstance(event, kind)]


def test_neither_a_machine_nor_the_gateway_holds_a_row_of_a_job_that_has_ended() -> None:
    cell = Cell(hosts=4)
    cell.pool("/p")
    for number in range(3):
        cell.submit(f"j{number}", instances=5, ports=("http",), max_unavailable=None)
    cell.submit("service", kind="stateless", instances=3, max_unavailable=1)
    cell.run(1500)
    cell.delete("service")
    cell.run(3000)
    lifecycle, entitlement, placement, sla = (cell.drivers[name].machine for name in cell.drivers)
    for jobs in (lifecycle.jobs, entitlement.queues.jobs, placement.runs.jobs, sla.jobs):  # type: ignore[attr-defined]
        assert not len(jobs)
    for arena in (lifecycle.tasks.arena, entitlement.queues.arena, placement.runs.arena, sla.arena):  # type: ignore[attr-defined]
        assert not arena["owner"].any()
    wanted = cell.gateway._desired_runs.dump()
    assert (wanted["ports"], wanted["slots"]["stretches"]) == ({}, {})
    assert not any(wanted["specifications"].values())
    assert [cell.state(job_id) for job_id in ("j0", "j1", "j2", "service")] == ["SUCCEEDED"] * 3 + ["ABSENT"]
    cell.verify()


def test_simulated_failures_of_a_returned_id_come_as_at_its_first_time() -> None:
    cell = Cell(hosts=1)
    cell.append(CellConfigured(command_id="1", forget_after_ms=2000))
    cell.pool("/p")
    for _ in range(2):
        cell.submit("j", retries_max=1, simulated=Simulated(duration_ms=300, fail_runs=1))
        cell.run(1500)
        assert cell.state("j") == "SUCCEEDED"
        cell.run(4000)
    assert [runs_of(event) for event in decided(cell, RunsEnded)] == [[("j", 0, run)] for run in (1, 2, 3, 4)]
    cell.verify()


@seeds(6, 2)
def test_runs_of_an_id_count_on_however_often_it_returns_and_whoever_dies(seed: int) -> None:
    draw = random.Random(seed)
    cell = Cell(hosts=4, limits=Limits(records=draw.choice([3, 50]), budget=draw.choice([5, 1000])))
    cell.append(CellConfigured(command_id="1", forget_after_ms=500, ended_jobs_max=draw.choice([2, 1000])))
    cell.pool("/a", {"cpu": 2000})
    for _ in range(40):
        cell.submit(
            f"j{draw.randrange(4)}",
            pool="/a",
            instances=draw.choice([1, 3, 30]),
            resources={"cpu": draw.choice([100, 1000])},
            gang_min=draw.choice([0, 1]),
            max_unavailable=None,
            retries_max=1,
            simulated=Simulated(duration_ms=draw.choice([100, 700]), fail_runs=draw.choice([0, 1])),
        )
        cell.run(draw.choice([0, 100, 700]))
        cell.recover(draw.choice(list(cell.drivers)))
        if draw.random() < 0.3:
            cell.stop(f"j{draw.randrange(4)}")
    cell.run(60_000)
    ended = [run for event in decided(cell, RunsEnded) for run in runs_of(event)]
    assert len({*ended}) == len(ended), "no run of an id is ever another's"
    assert len(decided(cell, JobAccepted)) > 4, "ids returned"
    assert cell.fleet.running() == 0
    cell.verify()
    nothing_is_held(cell)
