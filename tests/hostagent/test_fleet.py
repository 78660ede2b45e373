"""Simulated hosts on the same gateway, in virtual time."""

from collections import Counter

import msgspec
import pytest

from events.codec import encode
from events.columns import pack_ints
from events.log.port import NewRecord
from events.records.hosts import GatewayBeat, HostConnected, HostSilent
from events.records.jobs import JobSubmitted
from events.records.parts import HealthCheck, Simulated, TaskOverride
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.connections import LogMissing
from hostagent.messages import Orders
from paceline.client.output_ask import OutputAsk
from tests.hostagent.cell import Cell, TestClock, ended, ordered, stopping


class Fleeted(Cell):
    """A cell with a fleet; time passes only by `pass_ms`."""

    def __init__(self, hosts: int) -> None:
        self.time = TestClock()
        super().__init__(self.time)
        self.orders: list[tuple[tuple[str, ...], int, int]] = []
        self.fleet = Fleet(
            self.gateway,
            [SimHost(hosts, {"cpu": 8000, "memory": 32000})],
            self.time,
            session=1,
            on_order=lambda *order: self.orders.append(order),
        )
        self.rest()

    def rest(self) -> None:
        while self.turn() | self.fleet.step():
            pass

    def pass_ms(self, ms: int) -> None:
        self.rest()
        until = self.time.ms + ms
        while self.time.ms < until:
            waits = [wait for wait in (self.gateway.wait_ms(), self.fleet.wait_ms()) if wait is not None]
            self.time.ms = min(until, self.time.ms + max(1, min(waits)))
            self.rest()


def job(job_id: str, instances: int, simulated: Simulated | None = None) -> JobSubmitted:
    return JobSubmitted(job_id=job_id, pool="/p", instances=instances, simulated=simulated)


def test_a_thousand_hosts_run_fifty_tasks_each_to_their_end() -> None:
    cell = Fleeted(1000)
    cell.submit(job("j", 50_000, Simulated(duration_ms=200)))
    tasks = [("j", instance, 1) for instance in range(50_000)]
    cell.decide(ordered(tasks, [f"sim-{instance % 1000 + 1}" for instance in range(50_000)]))
    cell.rest()
    assert cell.fleet.running() == 50_000
    assert cell.orders == [(("j",), 50_000, cell.time.ms)]
    cell.pass_ms(200)
    assert cell.fleet.running() == 0
    said = list(cell.said())
    assert len(said) == len(set(said)) == 100_000
    assert Counter(state for *_, state, _ in said) == {"STARTED": 50_000, "EXITED": 50_000}
    cell.decide(ended(tasks))
    cell.rest()
    assert not cell.fleet.step()


def test_the_first_runs_fail_where_the_job_says_so() -> None:
    cell = Fleeted(2)
    cell.submit(job("j", 2, Simulated(duration_ms=10, exit_code=7, fail_runs=1)))
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["sim-1", "sim-2"]))
    cell.pass_ms(10)
    cell.decide(ended([("j", 0, 1)]), ordered([("j", 0, 2)], ["sim-2"]))
    cell.pass_ms(10)
    exits = [said for said in cell.said() if said[3] == "EXITED"]
    assert exits == [("j", 0, 1, "EXITED", 1), ("j", 1, 1, "EXITED", 1), ("j", 0, 2, "EXITED", 7)]


def test_runs_are_played_as_their_overrides_say() -> None:
    cell = Fleeted(1)
    overrides = (TaskOverride(simulated=Simulated(duration_ms=20, exit_code=7)), TaskOverride(env={"A": "1"}))
    columns = {"override_first": pack_ints([1, 2]), "override_count": pack_ints([1, 1]), "override": pack_ints([0, 1])}
    played = job("j", 3, Simulated(duration_ms=10))
    cell.submit(msgspec.structs.replace(played, overrides=overrides, **columns))
    cell.decide(ordered([("j", instance, 1) for instance in range(3)], ["sim-1"] * 3))
    cell.pass_ms(10)
    assert cell.fleet.running() == 1
    cell.pass_ms(10)
    exits = [said for said in cell.said() if said[3] == "EXITED"]
    assert exits == [("j", 0, 1, "EXITED", 0), ("j", 2, 1, "EXITED", 0), ("j", 1, 1, "EXITED", 7)]
    cell.decide(ended([("j", instance, 1) for instance in range(3)]))
    cell.rest()
    assert cell.inventories() == [[]]


def test_who_asks_for_the_output_of_a_simulated_run_is_told_that_there_is_none() -> None:
    cell = Fleeted(1)
    cell.submit(job("j", 1, Simulated(duration_ms=10)))
    cell.decide(ordered([("j", 0, 1)], ["sim-1"]))
    cell.rest()
    answer = cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 0, 100, 0, -1), "sim-1")
    cell.rest()
    with pytest.raises(LogMissing, match="host sim-1 is simulated: its tasks print nothing"):
        answer.result(0)


def test_one_run_fails_where_the_job_says_which() -> None:
    cell = Fleeted(1)
    cell.submit(job("j", 1, Simulated(duration_ms=10, fail_run=2)))
    for run in (1, 2, 3):
        cell.decide(*([ended([("j", 0, run - 1)])] if run > 1 else []), ordered([("j", 0, run)], ["sim-1"]))
        cell.pass_ms(10)
    exits = [said[2:] for said in cell.said() if said[3] == "EXITED"]
    assert exits == [(1, "EXITED", 0), (2, "EXITED", 1), (3, "EXITED", 0)]


def test_a_run_that_resists_its_stop_is_killed_at_once() -> None:
    cell = Fleeted(1)
    stubborn = job("j", 2, Simulated(duration_ms=900_000, ignores_stop=True))
    cell.submit(msgspec.structs.replace(stubborn, stop_grace_ms=600_000))
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["sim-1", "sim-1"]))
    cell.rest()
    cell.decide(stopping([("j", 0, 1), ("j", 1, 1)], ["sim-1", "sim-1"]))
    cell.pass_ms(1000)
    assert cell.fleet.running() == 2
    cell.decide(stopping([("j", 1, 1)], ["sim-1"], [1]))
    cell.rest()
    assert [said for said in cell.said() if said[3] == "STOPPED"] == [("j", 1, 1, "STOPPED", 137)]
    assert cell.fleet.running() == 1


def test_a_stopped_run_ends_as_stopped_and_does_not_exit_later() -> None:
    cell = Fleeted(1)
    cell.submit(job("j", 2))
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["sim-1", "sim-1"]))
    cell.decide(stopping([("j", 0, 1)], ["sim-1"]))
    cell.pass_ms(5000)
    assert [said for said in cell.said() if said[3] != "STARTED"] == [
        ("j", 0, 1, "STOPPED", 143),
        ("j", 1, 1, "EXITED", 0),
    ]


def test_a_run_that_the_cell_gave_up_is_not_heard_of_again() -> None:
    cell = Fleeted(2)
    cell.submit(job("j", 1))
    cell.decide(ordered([("j", 0, 1)], ["sim-1"]))
    cell.rest()
    cell.decide(ended([("j", 0, 1)]), ordered([("j", 0, 2)], ["sim-2"]))
    cell.pass_ms(5000)
    assert [said[2:4] for said in cell.said()] == [(1, "STARTED"), (2, "STARTED"), (2, "EXITED")]


def test_a_fleet_that_lives_is_never_silent() -> None:
    cell = Fleeted(3)
    cell.pass_ms(120_000)
    assert cell.facts("paceline.hosts", HostSilent) == []
    assert len(cell.facts("paceline.hosts", GatewayBeat)) == 13


def test_an_order_that_was_followed_is_not_followed_again() -> None:
    cell = Fleeted(1)
    seen: list[Orders] = []
    deliver = cell.fleet.deliver

    def noted(orders: Orders) -> None:
        seen.append(orders)
        deliver(orders)

    cell.fleet.deliver = noted  # type: ignore[method-assign]
    cell.submit(job("j", 1))
    cell.decide(ordered([("j", 0, 1)], ["sim-1"]))
    cell.pass_ms(2000)
    cell.decide(ended([("j", 0, 1)]))
    cell.rest()
    for orders in seen:
        deliver(orders)
    cell.pass_ms(2000)
    assert [said[3] for said in cell.said()] == ["STARTED", "EXITED"]


def test_a_host_that_another_gateway_took_connects_again_with_its_runs() -> None:
    cell = Fleeted(2)
    cell.submit(job("j", 2))
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["sim-1", "sim-2"]))
    cell.rest()
    taken = HostConnected(host_id="sim-2", session=100, gateway="other")
    cell.log.append([NewRecord("paceline.hosts", b"", encode(taken))])
    cell.rest()
    assert cell.inventories() == [[], [], [("j", 1, 1, "STARTED", 0)]]
    cell.pass_ms(2000)
    assert sorted(said for said in cell.said() if said[3] == "EXITED") == [
        ("j", 0, 1, "EXITED", 0),
        ("j", 1, 1, "EXITED", 0),
    ]


def test_a_run_that_is_stopped_before_its_host_heard_of_it_is_stopped() -> None:
    cell = Fleeted(1)
    cell.submit(job("j", 2))
    cell.decide(stopping([("j", 0, 1)], ["sim-1"]))
    cell.rest()
    assert list(cell.said()) == [("j", 0, 1, "STOPPED", 143)]


def test_a_simulated_run_with_a_check_is_healthy_when_it_is_ready_and_fails_when_the_job_says_so() -> None:
    cell = Fleeted(1)
    played = Simulated(duration_ms=10_000, ready_ms=20, unhealthy_ms=50, unhealthy_runs=1)
    cell.submit(msgspec.structs.replace(job("j", 1, played), health=HealthCheck("command", ("true",))))
    cell.decide(ordered([("j", 0, 1)], ["sim-1"]))
    cell.pass_ms(50)
    cell.decide(ended([("j", 0, 1)]), ordered([("j", 0, 2)], ["sim-1"]))
    cell.pass_ms(1000)
    assert [said[2:4] for said in cell.said()] == [
        (1, "STARTED"),
        (1, "HEALTHY"),
        (1, "UNHEALTHY"),
        (2, "STARTED"),
        (2, "HEALTHY"),
    ]


def test_a_simulated_run_whose_check_fails_before_it_is_ready_is_never_healthy() -> None:
    cell = Fleeted(1)
    played = Simulated(duration_ms=10_000, ready_ms=20, unhealthy_ms=10)
    cell.submit(msgspec.structs.replace(job("j", 1, played), health=HealthCheck("command", ("true",))))
    cell.decide(ordered([("j", 0, 1)], ["sim-1"]))
    cell.pass_ms(1000)
    assert [said[3] for said in cell.said()] == ["STARTED", "UNHEALTHY"]
