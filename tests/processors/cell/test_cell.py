"""A whole cell in virtual time, in the words of its users."""

import random

import pytest

from events.codes import TaskState
from events.records.parts import Simulated
from events.records.pools import CellConfigured
from events.topics import ROUND_BYTES_MAX
from processors.entitlement.machine import Entitlement
from processors.placement.machine import Placement
from processors.runtime.deciding import Limits
from tests.helpers.drawn import seeds
from tests.helpers.whole_cell import Cell


def test_a_job_runs_from_submission_to_success() -> None:
    cell = Cell()
    cell.pool("/p")
    cell.submit("a", instances=20, resources={"cpu": 1000})
    cell.run(5000)
    assert cell.state("a") == "SUCCEEDED"
    assert cell.verify()["placement"].rounds > 0


@seeds(4, 2)
def test_whatever_order_topics_are_read_in_all_work_is_done(seed: int) -> None:
    cell = Cell(hosts=2, limits=Limits(records=7), seed=seed)
    for pool in ("/a", "/b"):
        cell.pool(pool, {"cpu": 2000})
    for number in range(6):
        spec = {"gang_min": 3} if number % 3 == 0 else {"retries_max": 1}
        cell.submit(f"j{number}", pool=("/a", "/b")[number % 2], instances=5, resources={"cpu": 700}, **spec)
        cell.run(300)
    cell.run(20_000)
    assert {cell.state(f"j{number}") for number in range(6)} == {"SUCCEEDED"}
    cell.verify()


def test_more_work_than_hosts_runs_in_turns() -> None:
    cell = Cell(hosts=2)
    cell.pool("/p")
    cell.submit("a", instances=40, resources={"cpu": 1000})
    cell.run(3000)
    assert cell.state("a") == "RUNNING"
    assert cell.fleet.running() <= 8
    cell.run(10_000)
    assert cell.state("a") == "SUCCEEDED"
    cell.verify()


def test_a_failed_task_is_retried_and_a_service_stops() -> None:
    cell = Cell()
    cell.pool("/p")
    cell.submit("retry", instances=3, retries_max=2, simulated=Simulated(duration_ms=500, fail_runs=2))
    cell.submit("service", kind="stateless", duration_ms=1_000_000)
    cell.run(6000)
    assert cell.state("retry") == "SUCCEEDED"
    assert cell.state("service") == "RUNNING"
    cell.stop("service")
    cell.run(1000)
    assert cell.state("service") == "KILLED"
    cell.verify()


def test_a_gang_starts_whole_and_fails_whole() -> None:
    cell = Cell(hosts=2)
    cell.pool("/p")
    cell.submit("filler", instances=4, resources={"cpu": 1000}, duration_ms=3000)
    cell.run(500)
    cell.submit("gang", instances=6, gang_min=6, resources={"cpu": 1000}, duration_ms=1000)
    cell.run(1000)
    assert cell.state("gang") == "PENDING", "four of its six would fit"
    cell.run(9000)
    assert cell.state("gang") == "SUCCEEDED"
    cell.verify()


def test_a_job_that_fits_nowhere_waits_until_such_a_host_comes() -> None:
    cell = Cell(hosts=1)
    cell.pool("/p")
    cell.submit("big", resources={"cpu": 100_000})
    cell.submit("small")
    cell.run(5000)
    assert cell.state("big") == "PENDING"
    assert cell.state("small") == "SUCCEEDED", "the big one doesn't block the pool"
    cell.verify()


def test_a_pool_below_its_reservation_gets_its_own_back() -> None:
    cell = Cell(hosts=2)
    cell.append(CellConfigured(command_id="1", preemption_delay_ms=2000))
    cell.pool("/a", {"cpu": 4000})
    cell.pool("/b", {"cpu": 4000})
    cell.submit("greedy", pool="/a", instances=8, resources={"cpu": 1000}, duration_ms=60_000)
    cell.run(2000)
    assert cell.fleet.running() == 8
    cell.submit("owner", pool="/b", instances=4, resources={"cpu": 1000}, duration_ms=60_000)
    cell.run(10_000)
    counts = cell.lifecycle.jobs["owner"].counts
    assert counts[TaskState.RUNNING] == 4
    assert cell.lifecycle.jobs["greedy"].counts[TaskState.RUNNING] == 4
    cell.verify()


def test_settings_are_facts_and_every_machine_goes_by_them() -> None:
    cell = Cell(hosts=1)
    cell.pool("/p")
    cell.append(
        CellConfigured(command_id="1", placement_patience_ms=1000, return_backoff_ms=7000, forget_after_ms=2000)
    )
    cell.append(CellConfigured(command_id="2", placement_patience_ms=-1))
    cell.submit("small")
    cell.submit("wide", instances=2, ports=tuple(f"p{number}" for number in range(64)), duration_ms=60_000)
    cell.run(1900)
    assert cell.state("small") == "SUCCEEDED"
    cell.run(4000)
    assert cell.state("small") == "ABSENT", "forgotten after two seconds"
    patience_ms = cell.drivers["placement"].machine._settings.now.placement_patience_ms  # type: ignore[attr-defined]
    assert patience_ms == 1000, "what makes no sense is refused"
    cell.recover("placement")
    assert cell.drivers["placement"].machine._settings.now.return_backoff_ms == 7000  # type: ignore[attr-defined]
    cell.verify()


@seeds(6, 2)
def test_machines_that_die_at_any_time_lose_and_double_nothing(seed: int) -> None:
    draw = random.Random(seed)
    bounds = {"records": [3, 50], "budget": [5, 1000], "round_bytes": [16_384, ROUND_BYTES_MAX]}
    cell = Cell(hosts=4, limits=Limits(**{name: draw.choice(values) for name, values in bounds.items()}))
    for pool in ("/a", "/b"):
        cell.pool(pool, {"cpu": 2000})
    for number in range(12):
        kind = draw.choice(["batch", "batch", "stateless"])
        cell.submit(
            f"j{number}",
            pool=draw.choice(["/a", "/b"]),
            kind=kind,
            instances=draw.choice([1, 3, 30]),
            resources={"cpu": draw.choice([100, 1000])},
            retries_max=1,
            simulated=Simulated(duration_ms=draw.choice([300, 2000]), fail_runs=draw.choice([0, 1])),
        )
        cell.run(draw.choice([0, 100, 700]))
        cell.recover(draw.choice(list(cell.drivers)))
        if draw.random() < 0.3:
            cell.stop(f"j{draw.randrange(number + 1)}")
    cell.run(30_000)
    for job_id in list(cell.lifecycle.jobs):
        row = cell.lifecycle.jobs[job_id]
        if row.kind == "stateless":
            cell.delete(job_id)
    cell.run(10_000)
    assert not len(cell.lifecycle.jobs), "all have ended"
    assert cell.fleet.running() == 0
    cell.verify()
    nothing_is_held(cell)


def nothing_is_held(cell: Cell) -> None:
    """When all is over, pools and hosts have everything back."""
    placement, entitlement = cell.drivers["placement"].machine, cell.drivers["entitlement"].machine
    assert isinstance(placement, Placement)
    assert isinstance(entitlement, Entitlement)
    assert not placement.hosts.used.any()
    assert not any(any(holding.allocation) for _, holding in entitlement.usage.items())
    assert not any(any(lines.waiting) or lines.claims for _, lines in entitlement.order.items())
    for driver in cell.drivers.values():
        driver.fold.state.take_changes()
        assert driver.fold.state.rehash() == driver.fold.state.hash


@pytest.mark.parametrize("name", ["lifecycle", "entitlement"])
def test_a_machine_that_was_restored_after_its_newest_job_was_forgotten_goes_on_alike(name: str) -> None:
    cell = Cell()
    cell.append(CellConfigured(command_id="1", forget_after_ms=2000))
    cell.pool("/p")
    cell.submit("kept", duration_ms=100_000)
    cell.quiet()
    cell.submit("forgotten")
    cell.run(6000)
    assert cell.state("forgotten") == "ABSENT"
    cell.pool("/q")  # answered by a round, so that the stores have forgotten it too
    cell.run(200)
    cell.recover(name)
    cell.submit("late")
    cell.run(500)
    cell.submit("later")
    cell.run(6000)
    cell.verify()
