"""An update through a whole cell: where instances go, what they ask, and how many are there meanwhile."""

from collections.abc import Sequence

import pytest

from events.codec import encode
from events.codes import TaskState
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.parts import Simulated, UpdatePolicy
from tests.helpers.whole_cell import Cell

FOREVER = Simulated(duration_ms=10**8, ready_ms=300)


def policy(batch: int = 0) -> UpdatePolicy:
    """An instance is done as soon as it is available."""
    return UpdatePolicy(batch=batch, healthy_ms=0)


class Updated(Cell):
    """Two full hosts of four cores with a service of eight instances, and a job that waits for room."""

    def __init__(self, hosts: int = 2, others: int = 8, **spec: object) -> None:
        super().__init__(hosts)
        self.pool("/p")
        self.spec = {
            "kind": "stateless",
            "instances": 8,
            "resources": {"cpu": 1000},
            "simulated": FOREVER,
            "update": policy(),
        } | spec
        self.submit("web", **self.spec)
        self.run(1000)
        self.submit("other", instances=others, resources={"cpu": 1000}, duration_ms=10**8)
        self.run(1000)
        self.fewest = self.running("web")

    def update(self, **changes: object) -> None:
        self.spec |= changes
        job = JobSubmitted(job_id="web", pool="/p", **self.spec)  # type: ignore[arg-type]
        self.append(JobUpdateRequested(job_id="web", command_id=str(changes), spec=encode(job)))

    def running(self, job_id: str) -> int:
        return self.lifecycle.jobs[job_id].counts[TaskState.RUNNING]

    def hosts(self) -> Sequence[int]:
        row, arena = self.lifecycle.jobs["web"], self.lifecycle.tasks.arena
        return arena["host"][row.base : row.base + row.instances].tolist()

    def version(self) -> set[int]:
        row, arena = self.lifecycle.jobs["web"], self.lifecycle.tasks.arena
        return {*arena["version"][row.base : row.base + row.instances].tolist()}

    def watch(self, ms: int) -> None:
        """Lets time pass and counts the fewest instances that run."""
        for _ in range(ms // 100):
            self.run(100)
            self.fewest = min(self.fewest, self.running("web"))


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_instances_go_back_to_their_hosts_though_others_wait_for_room(batch: int) -> None:
    cell = Updated(update=policy(batch))
    before = cell.hosts()
    cell.update(command=("two",))
    cell.watch(10_000)
    assert cell.version() == {2}
    assert cell.running("web") == 8
    assert cell.hosts() == before
    assert cell.running("other") == 0
    assert cell.fewest >= 8 - (batch or 8)
    cell.verify()


def test_instances_go_back_to_their_hosts_though_another_host_is_emptier() -> None:
    cell = Updated(hosts=3, others=6, instances=2, strategy="spread")
    before = cell.hosts()
    cell.update(command=("two",))
    cell.watch(10_000)
    assert (cell.version(), cell.hosts()) == ({2}, before)


def test_an_sla_bounds_how_many_are_missing_whatever_the_batch() -> None:
    cell = Updated(max_unavailable=2)
    cell.update(command=("two",))
    cell.watch(10_000)
    assert (cell.version(), cell.fewest) == ({2}, 6)
    cell.verify()


def test_a_service_that_asks_less_leaves_room_for_others() -> None:
    cell = Updated(update=policy(2))
    cell.update(resources={"cpu": 500})
    cell.watch(20_000)
    assert (cell.version(), cell.running("web"), cell.running("other")) == ({2}, 8, 4)
    cell.update(instances=4)
    cell.watch(20_000)
    assert (cell.running("web"), cell.running("other")) == (4, 6)
    cell.verify()


def test_a_service_that_asks_more_takes_what_its_instances_leave() -> None:
    cell = Updated(instances=4, update=policy(1))
    assert cell.running("other") == 4
    cell.stop("other")
    cell.run(1000)
    cell.update(resources={"cpu": 2000})
    cell.watch(20_000)
    assert (cell.version(), cell.running("web"), cell.fewest) == ({2}, 4, 3)
    cell.verify()


def test_a_machine_that_is_taken_over_in_the_middle_goes_on_alike() -> None:
    cell = Updated(update=policy(2))
    before = cell.hosts()
    cell.update(command=("two",))
    for name in ("placement", "sla", "entitlement", "lifecycle"):
        cell.run(100, step=50)
        cell.recover(name)
    cell.run(10_000)
    assert (cell.version(), cell.hosts()) == ({2}, before)
    cell.verify()
