"""However much is to be decided at once, it goes into rounds that fit, in parts where it must, and the cell goes on."""

from collections import Counter
from collections.abc import Callable

import pytest

from events.codec import decode, encode
from events.codes import RunReport
from events.columns import pack_ints
from events.log.port import NewRecord
from events.records.base import Event
from events.records.hosts import GatewayBeat, HostConnected, HostLossConfirmed, HostOffered, HostSilent
from events.records.parts import Constraint, Simulated
from events.records.pools import CellConfigured, PoolDefined
from events.records.rounds import RoundCommitted
from events.records.tasks import HostInventory
from events.topics import MACHINES, rounds_of
from processors.runtime.deciding import Limits
from tests.helpers.whole_cell import Cell

ROUND_BYTES = 6144
MANY = 120
"""What is said of so many jobs, hosts or pools takes more than one round."""
LONG = "x" * 100
ROOMY = {"cpu": 4_000_000, "memory": 1 << 24, "disk": 1 << 24}


def small_cell(**more: object) -> Cell:
    """A cell whose rounds hold little."""
    return Cell(limits=Limits(round_bytes=ROUND_BYTES), **more)  # type: ignore[arg-type]


def rounds_with(cell: Cell) -> Counter[str]:
    """How many rounds hold decisions of each kind; all rounds of all machines fit, and replay comes to the same."""
    found = Counter[str]()
    for machine in MACHINES:
        for record in cell.log.scan(rounds_of(machine), 0):
            assert len(record.value) <= ROUND_BYTES
            round_ = decode(record.value)
            if isinstance(round_, RoundCommitted):
                found.update({type(decode(each)).__name__ for each in round_.decisions})
    cell.verify()
    return found


def name(number: int) -> str:
    return f"{LONG}{number}"


def append(cell: Cell, *facts: Event) -> None:
    cell.log.append([NewRecord(fact.topic, b"k", encode(fact)) for fact in facts])


def hosts_that_fall_silent(cell: Cell) -> None:
    append(cell, CellConfigured(command_id="1", host_lost_after_ms=1000, host_lost_grace_ms=2000))
    for number in range(MANY):
        host = name(number)
        offer = HostOffered(host_id=host, session=1, capacity={"cpu": 1000, "memory": 1000, "disk": 1000})
        append(cell, HostConnected(host_id=host, session=1, gateway="g"), offer, HostSilent(host_id=host, session=1))
    append(cell, GatewayBeat(gateway="g"))
    cell.run(6000, step=1000)


def hosts_are_lost(cell: Cell) -> None:
    hosts_that_fall_silent(cell)
    assert all(row.lost for row in cell.drivers["placement"].machine.hosts.table.values() if row.session == 1)  # type: ignore[attr-defined]


def operators_give_up_hosts(cell: Cell) -> None:
    append(cell, *(HostLossConfirmed(host_id=name(number), command_id=LONG) for number in range(MANY)))
    cell.run(1000)


def jobs_change(cell: Cell, jobs: int = MANY) -> None:
    for number in range(jobs):
        cell.submit(name(number), resources={"cpu": 1})
    cell.run(4000)
    assert {cell.state(name(number)) for number in range(jobs)} == {"SUCCEEDED"}


def jobs_are_forgotten(cell: Cell) -> None:
    jobs_change(cell, 3 * MANY)  # only a digest is said of each
    append(cell, CellConfigured(command_id="1", forget_after_ms=1000))
    cell.run(3000)
    assert {cell.state(name(number)) for number in range(3 * MANY)} == {"ABSENT"}


def jobs_wait_for_good(cell: Cell) -> None:
    for number in range(MANY):
        cell.submit(name(number), resources={"cpu": 1 << 30})
    cell.run(2000)
    jobs = cell.drivers["entitlement"].machine.queues.jobs.values()  # type: ignore[attr-defined]
    assert all(part.refusal for row in jobs for part in row.parts.values())


def jobs_find_no_place(cell: Cell) -> None:
    append(cell, CellConfigured(command_id="1", placement_patience_ms=1000))
    for number in range(MANY):
        cell.submit(
            name(number), ports=tuple(f"p{each}" for each in range(64)), resources={"cpu": 1}, duration_ms=100_000
        )
    cell.run(4000)


def jobs_are_returned(cell: Cell) -> None:
    nowhere = (Constraint("rack", "in", ("none",)),)
    for number in range(MANY):
        cell.submit(name(number), resources={"cpu": 1}, constraints=nowhere)
    cell.run(4000)


def pools_are_defined(cell: Cell) -> None:
    append(cell, *(PoolDefined(path=f"/{LONG[:50]}{number}", command_id=name(number)) for number in range(MANY)))
    cell.run(4000)
    assert len(cell.drivers["entitlement"].machine.shared.reported) == MANY + 2  # type: ignore[attr-defined]


def runs_are_preempted(cell: Cell) -> None:
    append(cell, CellConfigured(command_id="1", preemption_delay_ms=1000))
    cell.pool("/owner", {"cpu": 4_000_000})
    cell.submit("greedy", instances=300, resources={"cpu": 40_000}, duration_ms=600_000)
    cell.run(3000)
    cell.submit("owner", pool="/owner", instances=100, resources={"cpu": 40_000}, duration_ms=600_000)
    cell.run(8000)
    assert cell.lifecycle.jobs["owner"].counts[3] == 100


def gangs_start_again(cell: Cell) -> None:
    fails = Simulated(duration_ms=500, fail_runs=1)
    for number in range(MANY):
        cell.submit(name(number), instances=2, gang_min=2, resources={"cpu": 1}, retries_max=1, simulated=fails)
    cell.run(8000)
    assert {cell.state(name(number)) for number in range(MANY)} == {"SUCCEEDED"}


def a_host_has_runs_that_nobody_wants(cell: Cell) -> None:
    count = 10 * MANY
    inventory = HostInventory(
        host_id="stranger",
        session=1,
        job_ids=(LONG,),
        job=pack_ints([0] * count),
        instance=pack_ints(range(count)),
        run=pack_ints([1] * count),
        state=pack_ints([RunReport.STARTED] * count),
        exit_code=pack_ints([0] * count),
    )
    append(cell, inventory)
    cell.run(1000)
    assert cell.lifecycle.hosts.table["stranger"].stopped == count


def disruptions_wait(cell: Cell) -> None:
    append(cell, CellConfigured(command_id="1", preemption_delay_ms=1000))
    cell.pool("/owner", {"cpu": ROOMY["cpu"]})
    service = {"kind": "stateless", "max_unavailable": 0, "duration_ms": 600_000}
    cell.submit("greedy", instances=300, resources={"cpu": 40_000}, **service)
    cell.run(3000)
    cell.submit("owner", pool="/owner", instances=100, resources={"cpu": 40_000}, duration_ms=600_000)
    cell.run(5000)


SCENES: dict[Callable[[Cell], None], tuple[str, ...]] = {
    hosts_are_lost: ("HostLost",),
    operators_give_up_hosts: ("HostAnswered",),
    jobs_are_forgotten: ("JobAccepted", "JobChanged", "JobsForgotten"),
    jobs_wait_for_good: ("GangsHeld",),
    jobs_find_no_place: ("GangsUnplaced",),
    jobs_are_returned: ("GangsReturned",),
    pools_are_defined: ("PoolAnswered", "EntitlementsSet"),
    runs_are_preempted: ("PreemptionAsked", "PreemptionsOrdered"),
    gangs_start_again: ("GangsQueued",),
    a_host_has_runs_that_nobody_wants: ("RunsStopping",),
    disruptions_wait: ("DisruptionAsked", "DisruptionDeferred", "PreemptionAnswered"),
}
"""What happens, and what is then decided in several rounds."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_what_no_round_can_hold_at_once_is_decided_in_parts(scene: Callable[[Cell], None]) -> None:
    cell = small_cell(hosts=3, capacity=ROOMY)
    cell.pool("/p")
    cell.quiet()
    scene(cell)
    rounds = rounds_with(cell)
    assert {kind: rounds[kind] for kind in SCENES[scene] if rounds[kind] <= 1} == {}
