"""Work and facts at the edge of what a round can hold: decided in parts, refused or skipped; the cell goes on."""

import pytest

from events.bounds import GANG_PORTS_MAX, PORTS_MAX
from events.codec import decode
from events.records.base import Event
from events.records.hosts import HostLossConfirmed
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import RoundCommitted
from events.topics import MACHINES, rounds_of
from processors.runtime.deciding import Limits
from tests.helpers.whole_cell import Cell

LONG = "x" * 5_000_000
ROOMY = {"cpu": 4_000_000, "memory": 1 << 24, "disk": 1 << 24}


@pytest.mark.parametrize(
    "fact",
    [
        JobSubmitted(job_id=LONG, pool="/p", command=("true",)),
        JobStopRequested(job_id=LONG, command_id="c"),
        JobStopRequested(job_id="a", command_id=LONG),
        PoolDefined(path=LONG, command_id="c"),
        PoolDefined(path="/q", command_id=LONG),
        PoolRemoved(path=LONG, command_id="c"),
        CellConfigured(command_id=LONG),
        HostLossConfirmed(host_id=LONG, command_id="c"),
    ],
    ids=[f"fact{number}" for number in range(8)],
)
def test_a_fact_whose_answer_would_not_fit_a_round_is_skipped_by_all(fact: Event) -> None:
    cell = Cell()
    cell.pool("/p")
    cell.quiet()
    cell.append(fact)
    cell.submit("a")
    cell.run(2000)
    assert cell.state("a") == "SUCCEEDED"
    cell.verify()
    skipped = {
        skip.reason
        for machine in MACHINES
        for record in cell.log.scan(rounds_of(machine), 0)
        if isinstance(round_ := decode(record.value), RoundCommitted)
        for skip in round_.skipped
    }
    assert skipped == {"TOO_LARGE"}


def test_a_gang_with_as_many_ports_as_are_allowed_is_placed_whole() -> None:
    size = GANG_PORTS_MAX // PORTS_MAX
    cell = Cell(hosts=size // 8, capacity=ROOMY)
    cell.pool("/p")
    ports = tuple(f"port-{number}" for number in range(PORTS_MAX))
    cell.submit("gang", instances=size, gang_min=size, ports=ports)
    cell.run(2000)
    assert cell.state("gang") == "SUCCEEDED"
    cell.verify()


def test_what_is_too_large_for_one_round_is_decided_in_several() -> None:
    cell = Cell(hosts=20, capacity=ROOMY, limits=Limits(round_bytes=8192))
    cell.pool("/p")
    cell.submit("a", instances=5000, resources={"cpu": 1})
    cell.run(4000)
    assert cell.state("a") == "SUCCEEDED"
    cell.verify()
    sizes = [len(record.value) for machine in MACHINES for record in cell.log.scan(rounds_of(machine), 0)]
    assert 4096 < max(sizes) <= 8192
