"""Services that the first update creates, because their policy says so."""

from typing import Any

from events.codes import Code
from events.records.lifecycle import InstancesChanged, JobAccepted, JobRejected, RunsOrdered, UpdateEnded, UpdateStarted
from events.records.parts import Cause
from tests.helpers.machines import of, one, runs_of
from tests.processors.lifecycle.test_updates import HEALTHY_MS, Cell, policy


def creation(**fields: Any) -> Any:
    return policy(creation=True, **fields)


class Failing(Cell):
    """The first version exits as soon as it starts."""

    def submit(self, job_id: str, **spec: object) -> list[Any]:
        self.fails.add(1)
        return super().submit(job_id, **spec)


def test_instances_are_created_in_batches_that_are_healthy_before_the_next() -> None:
    cell = Cell(update=creation(batch=3, healthy_ms=HEALTHY_MS))

    assert one(cell.said, JobAccepted).instances == 0
    started = one(cell.said, UpdateStarted)
    assert (started.kind, started.number, started.version, started.added) == ("create", 1, 1, 4)
    assert started.cause == Cause(topic="paceline.jobs", offset=0)
    assert cell.taken() == [[0, 1, 2]]
    cell.wait(HEALTHY_MS)
    assert cell.taken() == [[0, 1, 2], [3]]
    cell.wait(HEALTHY_MS)
    assert cell.ends() == [(1, "SUCCEEDED", "")]
    assert cell.running() == [1] * 4


def test_nothing_starts_before_a_creation_that_starts_paused_is_resumed() -> None:
    cell = Cell(update=creation(start_paused=True))

    assert cell.machine.jobs["web"].tasks == 0
    answer = cell.act("resume")
    assert answer.code == Code.DONE
    assert cell.running() == [1] * 4


def test_a_creation_fails_as_an_update_does_and_the_next_update_adds_the_rest() -> None:
    cell = Failing(update=creation(batch=1, max_failures=1, max_attempts=2, healthy_ms=HEALTHY_MS, roll_back=True))

    cell.wait(60_000)
    assert cell.ends() == [(1, "FAILED", Code.MAX_FAILURES)]
    assert {instance for each in of(cell.said, RunsOrdered) for _, instance, _ in runs_of(each)} == {0}
    cell.update(command=("better",))
    cell.wait(60_000)
    assert cell.ends()[1:] == [(2, "SUCCEEDED", "")]
    assert cell.running() == [2] * 4


def test_an_update_takes_the_place_of_a_creation() -> None:
    cell = Cell(update=creation(start_paused=True))

    cell.update(update=policy(), instances=2)
    assert cell.ends() == [(1, "ABORTED", Code.OVERRIDDEN), (2, "SUCCEEDED", "")]
    assert cell.running() == [2] * 2


def test_an_sla_does_not_slow_the_creation_down() -> None:
    cell = Cell(max_unavailable=1, update=creation(batch=2, healthy_ms=HEALTHY_MS))

    assert cell.taken() == [[0, 1]]
    cell.wait(HEALTHY_MS)
    assert cell.taken() == [[0, 1], [2, 3]]


def test_a_stop_of_the_whole_job_holds_its_creation_until_it_is_started() -> None:
    cell = Cell(update=creation(batch=2, healthy_ms=HEALTHY_MS))

    cell.settle(cell.stop("web"))
    cell.wait(HEALTHY_MS)
    assert cell.taken() == [[0, 1]]
    assert not of(cell.said, UpdateEnded)
    cell.act("start")
    cell.wait(2 * HEALTHY_MS)
    assert cell.running() == [1] * 4
    assert cell.ends() == [(1, "SUCCEEDED", "")]


def test_instances_of_a_stateful_job_are_created_one_after_another() -> None:
    cell = Cell(kind="stateful", update=creation(healthy_ms=HEALTHY_MS), on_silence="stop_after", stop_after_ms=10_000)

    assert one(cell.said, UpdateStarted).policy.batch == 1
    assert cell.running() == [1]
    cell.wait(3 * HEALTHY_MS)
    assert cell.taken() == [[0], [1], [2], [3]]


def test_an_id_that_is_used_again_goes_on_with_higher_runs() -> None:
    cell = Cell()
    cell.act("delete", force=True)
    cell.settle(cell.submit("web", **cell.spec | {"update": creation(batch=2)}))

    added = of(cell.said, InstancesChanged)[-1]
    assert added.first_run == 2
    assert cell.running() == [1] * 4
    assert set(cell.column("run")) == {2}


def test_only_services_are_created_by_an_update() -> None:
    said = Cell().submit("b", kind="batch", instances=2, update=creation())

    refused = one(said, JobRejected)
    assert (refused.code, refused.message) == (
        Code.INVALID_SPEC,
        "update creation is for stateless and stateful jobs",
    )
