"""Cells whose gangs are to be near each other, drawn by seed, under faults: in racks, on hosts and in link groups, with
hosts that go to another host pool and work that is moved.
"""

from collections import Counter

from events.codec import decode
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import JobAccepted
from events.records.placement import HostPoolMoveStarted, TasksPlaced
from events.records.rounds import RoundCommitted
from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_topology import draw_topology
from paceline.simulate.world.cell import SimulatedCell
from tests.helpers.drawn import seeds
from tests.helpers.random_sharing import draw_delays
from tests.paceline.simulate.sharing import play

ACTS = 20


@seeds(60, 3)
def test_topology_under_faults_breaks_no_promise(seed: int) -> None:
    Trial(draw_topology(seed, ACTS), Faults(seed)).run()


def test_a_pool_is_told_whether_its_share_or_its_host_pools_leave_it_no_more() -> None:
    """A share fell below what host pools hold: a process that had begun anew a round before missed it."""
    Trial(draw_topology(60, ACTS), Faults(60)).run()


def _decisions(cell: SimulatedCell, machine: str) -> list[Event]:
    rounds = [decode(record.value) for record in cell.log.scan(f"paceline.{machine}", 0)]
    return [decode(each) for round_ in rounds if isinstance(round_, RoundCommitted) for each in round_.decisions]


def test_the_scenarios_have_a_little_of_everything() -> None:
    met: Counter[str] = Counter()
    for seed in (3, 4, 8, 9, 13):
        cell = play(draw_topology(seed, ACTS), draw_delays(seed))
        jobs = {each.job_id: each for each in _decisions(cell, "lifecycle") if isinstance(each, JobAccepted)}
        for event in (*_decisions(cell, "placement"), *_decisions(cell, "entitlement")):
            if isinstance(event, TasksPlaced):
                met.update(each for job_id in event.job_ids for each in _rules(jobs[job_id]))
            elif isinstance(event, HostPoolMoveStarted):
                met["moves by load" if event.code == "LOAD_ABOVE" else "moves"] += 1
            elif isinstance(event, PreemptionsOrdered):
                met[f"orders {event.code}"] += 1
        cell.close()
    near = ("near link_group", "near rack", "near host", "within rack", "within link_group", "segments", "shares")
    assert all(met[name] for name in (*near, "moves", "moves by load", "orders REBALANCED")), met


def _rules(job: JobAccepted) -> list[str]:
    """What is met with a job that has a place."""
    shape = job.shapes[0]
    shares = ["shares"] if shape.resources.get("gpu", 0) % 1000 else []
    if shape.rules is None:
        return shares
    near = [f"near {shape.rules.near}", "segments" if shape.rules.segments else ""] if shape.rules.near else []
    return [*shares, *near, *([f"within {shape.rules.within}"] if shape.rules.within else [])]
