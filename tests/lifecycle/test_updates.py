"""Updates of a service, in the machine alone: hosts and the other machines answer at once, or as a test says."""

from typing import Any

from events.codec import encode
from events.codes import Code, Outcome, RunReport
from events.columns import ints
from events.records.base import Event
from events.records.jobs import JobActionRequested, JobSubmitted, JobUpdateRequested
from events.records.lifecycle import (
    CommandAnswered,
    GangsQueued,
    InstancesTaken,
    JobSlaChanged,
    RunsEnded,
    RunsOrdered,
    UpdateEnded,
)
from events.records.parts import UpdatePolicy
from tests.lifecycle.harness import World
from tests.machines import Run, of, one, ranges_of, runs_of

SERVICE = {"pool": "/p", "kind": "stateless", "command": ("one",), "instances": 4}


class Cell(World):
    """Hosts place, start and stop at once what lifecycle orders; versions in `fails` exit as soon as they start."""

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        self.spec = SERVICE | spec
        self.fails: set[int] = set()
        self.commands = 0
        self.versions: dict[Run, int] = {}
        """Of each run that was ordered the version."""
        self.settle(self.submit("web", **self.spec))

    def update(self, expected_version: int = 0, **changes: Any) -> CommandAnswered:
        self.spec |= changes
        self.commands += 1
        job = JobSubmitted(job_id="web", **self.spec)
        wanted = JobUpdateRequested(
            job_id="web", command_id=f"u{self.commands}", spec=encode(job), expected_version=expected_version
        )
        return one(self.settle(self.fact("paceline.jobs", wanted)), CommandAnswered)

    def act(self, action: str, **fields: Any) -> CommandAnswered:
        self.commands += 1
        wanted = JobActionRequested(job_id="web", command_id=f"a{self.commands}", action=action, **fields)
        return one(self.settle(self.fact("paceline.jobs", wanted)), CommandAnswered)

    def settle(self, said: list[Event]) -> list[Event]:
        """Everybody answers until nothing is left to be said."""
        out, now = list(said), list(said)
        while now:
            said, now = now, []
            for event in said:
                now += self.answer(event)
            out += now
        return out

    def answer(self, event: Event) -> list[Event]:
        match event:
            case GangsQueued():
                runs = [
                    (job, at, run)
                    for job, first, count, run, _ in ranges_of(event)
                    for at in range(first, first + count)
                ]
                return self.place(*runs)
            case RunsOrdered():
                versions = ints(event.version).tolist() or [1] * len(runs_of(event))
                self.versions |= dict(zip(runs_of(event), versions, strict=True))
                said = self.report(RunReport.STARTED, *runs_of(event))
                failing = [run for run in runs_of(event) if self.versions[run] in self.fails]
                return said + (self.report(RunReport.EXITED, *failing, exit_code=1) if failing else [])
            case _:
                return self.stopping(event)

    def stopping(self, event: Event) -> list[Event]:
        return self.report(RunReport.STOPPED, *runs_of(event)) if type(event).__name__ == "RunsStopping" else []

    def running(self) -> list[int]:
        """The version that each instance runs, 0: none."""
        machine = self.machine
        row = machine.jobs["web"]
        arena = machine.tasks.arena
        state = arena["state"][row.base : row.base + row.instances].tolist()
        version = arena["version"][row.base : row.base + row.instances].tolist()
        return [number if each == 3 else 0 for each, number in zip(state, version, strict=True)]


def test_an_update_goes_through_all_instances_in_batches() -> None:
    cell = Cell(update=UpdatePolicy(batch=2))
    answer = cell.update(command=("two",))
    assert (answer.code, answer.version, answer.update) == (Code.DONE, 2, 1)
    assert answer.message == "update 1 takes 4 instances to version 2, at most 2 at a time"
    assert cell.running() == [2, 2, 2, 2]
    taken = [(ints(each.first).tolist(), ints(each.count).tolist()) for each in of(cell.said, InstancesTaken)]
    assert taken == [([0], [2]), ([2], [2])]
    assert one(cell.said, UpdateEnded).state == "SUCCEEDED"
    for ended in of(cell.said, RunsEnded):
        assert {*ints(ended.outcome).tolist()} == {Outcome.REPLACED}
        assert {*ints(ended.kept).tolist()} == {1}, "it keeps its admission"


def test_an_updated_instance_goes_back_to_its_host() -> None:
    cell = Cell(instances=2)
    cell.update(command=("two",))
    assert [ints(each.hold).tolist() for each in of(cell.said, RunsEnded)] == [[1, 1]]
    cell.settle(cell.stop("web"))
    assert not of(cell.said, RunsEnded)[-1].hold, "nobody comes back"


def test_an_update_may_give_a_service_an_sla_or_take_it() -> None:
    cell = Cell()
    assert cell.update(max_unavailable=1).message == "update 1 takes 0 instances to version 2"
    said = one(cell.said, JobSlaChanged)
    assert (said.max_unavailable, said.instances, ints(said.count).tolist(), ints(said.run).tolist()) == (
        1,
        4,
        [4],
        [1],
    )
    cell.update(max_unavailable=2)
    cell.update(max_unavailable=None)
    assert [each.max_unavailable for each in of(cell.said, JobSlaChanged)] == [1, 2, None]
    assert cell.act("roll_back", version=1).code == Code.DONE
    assert len(of(cell.said, JobSlaChanged)) == 3, "version 1 has none either"
