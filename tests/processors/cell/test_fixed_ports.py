"""Jobs with a port that must have its number, in a whole cell."""

from events.codec import decode
from events.columns import ints
from events.records.lifecycle import RunsOrdered
from events.records.rounds import RoundCommitted
from events.spec.job import JobSpec, from_event
from tests.helpers.whole_cell import Cell


def test_a_fixed_port_is_given_to_one_run_of_a_host_after_another() -> None:
    ports = ["http", {"name": "admin", "port": 8080}]
    spec = {"pool": "/p", "command": ["x"], "ports": ports, "sim": {"duration": "1s"}}
    jobs = [JobSpec.model_validate(spec | {"job_id": name}).to_event() for name in "ab"]
    assert from_event(jobs[0], {})["ports"] == ports
    cell = Cell(hosts=1)
    cell.pool("/p")
    for job in jobs:
        cell.append(job)
    cell.run(900)
    assert [cell.state(name) for name in "ab"] == ["RUNNING", "PENDING"]
    cell.run(3000)
    assert [cell.state(name) for name in "ab"] == ["SUCCEEDED", "SUCCEEDED"]
    rounds = (decode(record.value) for record in cell.log.scan("paceline.lifecycle", 0))
    decisions = [decode(value) for each in rounds if isinstance(each, RoundCommitted) for value in each.decisions]
    given = [ints(each.ports).tolist() for each in decisions if isinstance(each, RunsOrdered)]
    assert given == [[31_000, 8080], [31_000, 8080]]
    cell.verify()
