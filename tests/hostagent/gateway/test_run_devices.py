"""The devices of runs on their way from a decision to the order of their host."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.columns import Names, pack_ints
from events.device_columns import RunDevice, device_fields
from events.records.hosts import HostOffered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import RunsOrdered
from events.records.parts import Alternative, AlternativeAmount, HostDevice, PlacementRules
from hostagent.gateway.connections import Attach, Connect, Report
from hostagent.gateway.facts import columns_of, offered
from hostagent.messages import DeviceOrder, Hello, line
from tests.hostagent.cell import Cell, Task, TestClock, ended
from tests.hostagent.gateway.test_component import Host, settle

CARD, HALF, CORE = RunDevice("GPU-1", 1000, 0), RunDevice("GPU-2", 500, 4096), RunDevice("core/12", 1000, 0)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    cell = Cell(TestClock(), tmp_path / "gateway.msgpack")
    cell.submit(JobSubmitted(job_id="j", pool="/p", instances=10), JobSubmitted(job_id="k", pool="/p", instances=2))
    return cell


def order(tasks: Mapping[Task, tuple[str, list[RunDevice]]]) -> RunsOrdered:
    """Runs with their hosts and devices."""
    jobs, hosts = Names(), Names()
    job = [jobs[job_id] for job_id, _, _ in tasks]
    host = [hosts[name] for name, _ in tasks.values()]
    return RunsOrdered.pack(
        job_ids=jobs.all(),
        job=job,
        instance=[instance for _, instance, _ in tasks],
        run=[run for _, _, run in tasks],
        host_ids=hosts.all(),
        host_session=[1] * len(hosts),
        host=host,
        **device_fields([devices for _, devices in tasks.values()]),
    )


def told(host: Host) -> dict[tuple[str, int, int], tuple[tuple[DeviceOrder, ...], tuple[int, ...]]]:
    """The devices and cores of all starts that a link was told of, by job, instance and run."""
    return {
        (lines.jobs[item.job].job_id, item.instance, item.run): (item.devices, item.cores)
        for lines in map(line, host.got)
        for item in lines.items
        if item.kind == 0
    }


def test_each_run_is_told_of_its_own_devices_and_cores(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    tasks = {("j", 3, 1): ("h1", [CARD, CORE]), ("k", 0, 1): ("h1", list[RunDevice]()), ("j", 1, 1): ("h1", [HALF])}
    cell.decide(order(tasks))
    settle(cell)
    assert told(host) == {
        ("j", 3, 1): ((DeviceOrder("GPU-1"),), (12,)),
        ("k", 0, 1): ((), ()),
        ("j", 1, 1): ((DeviceOrder("GPU-2", 500, 4096),), ()),
    }


def test_hosts_behind_one_link_and_behind_several_are_told_of_their_own(cell: Cell) -> None:
    shared, other = Host(cell, "h1"), Host(cell, "h3")
    for name in ("h1", "h2"):
        cell.gateway.post(Connect(name, Hello(1, {"cpu": 1000}), shared.answers.append))
    settle(cell)
    cell.gateway.post(Attach({"h1": 1, "h2": 1}, shared))
    other.connect(1)
    settle(cell)
    tasks = {("j", at, 1): (f"h{3 - at}", [RunDevice(f"of-{3 - at}", 1000, 0)]) for at in range(3)}
    cell.decide(order(tasks))
    settle(cell)
    ids = {task: devices[0].id for each in (shared, other) for task, (devices, _) in told(each).items()}
    assert ids == {("j", 0, 1): "of-3", ("j", 1, 1): "of-2", ("j", 2, 1): "of-1"}
    assert told(other).keys() == {("j", 0, 1)}


def test_a_gateway_that_restarts_still_knows_them_and_those_of_no_earlier_run(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    cell.decide(order({("j", 0, 1): ("h1", [CARD]), ("j", 1, 1): ("h1", [HALF])}))
    cell.decide(ended([("j", 1, 1)]), order({("j", 1, 2): ("h1", [])}))
    settle(cell)
    cell.gateway.close()
    cell.new_gateway()
    settle(cell)
    back = Host(cell)
    back.connect(2)
    settle(cell)
    assert told(back) == {("j", 0, 1): ((DeviceOrder("GPU-1"),), ()), ("j", 1, 2): ((), ())}


def test_what_a_host_offers_in_an_earlier_session_is_not_written(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    host.connect(2)
    settle(cell)
    offers = len(cell.facts("paceline.hosts", HostOffered))
    cell.gateway.post(Report((1,), columns_of("h1", []), host.acknowledged.append, offer=_hello(1)))
    cell.gateway.post(Report((2,), columns_of("h1", []), host.acknowledged.append, offer=_hello(2)))
    settle(cell)
    assert host.acknowledged == [False, True]
    assert cell.facts("paceline.hosts", HostOffered)[offers:] == [offered("h1", _hello(2))]


def _hello(session: int) -> Hello:
    return Hello(session, {"cpu": 1000, "gpu": 1000}, devices=[HostDevice("0", "gpu")])


def test_a_run_has_the_amounts_of_the_alternative_that_it_took(cell: Cell) -> None:
    _submit_any(cell)
    host = Host(cell)
    host.connect(1)
    settle(cell)
    tasks = {("any", at, 1): ("h1", list[RunDevice]()) for at in range(3)}
    cell.decide(replace(order(tasks), alternative=pack_ints([0, 1, 1])))
    settle(cell)
    assert _cpu_told(host) == {0: 1000, 1: 4000, 2: 4000}


def test_alternatives_reach_the_hosts_that_are_connected_where_others_are_not(cell: Cell) -> None:
    _submit_any(cell)
    here, away = Host(cell, "h1"), Host(cell, "h2")
    here.connect(1)
    settle(cell)
    tasks = {("any", at, 1): (name, list[RunDevice]()) for at, name in enumerate(("h2", "h1", "h2"))}
    cell.decide(replace(order(tasks), alternative=pack_ints([0, 1, 1])))
    settle(cell)
    assert _cpu_told(here) == {1: 4000}
    away.connect(1)
    settle(cell)
    assert _cpu_told(away) == {0: 1000, 2: 4000}


def _submit_any(cell: Cell) -> None:
    """A job whose tasks take 1 or 4 CPUs."""
    amounts = [{"cpu": 1000}, {"cpu": 4000, "memory": 2048}]
    each = tuple(Alternative(tuple(AlternativeAmount(*one) for one in asked.items())) for asked in amounts)
    rules = PlacementRules(alternatives=each)
    cell.submit(JobSubmitted(job_id="any", pool="/p", instances=3, resources=amounts[0], rules=rules))


def _cpu_told(host: Host) -> dict[int, int]:
    """The CPU of each instance that a link was told to start."""
    lines = [line(each) for each in host.got]
    return {item.instance: of.jobs[item.job].cpu for of in lines for item in of.items if item.kind == 0}
