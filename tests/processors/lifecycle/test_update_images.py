"""Updates that begin once hosts have pulled the image of the new version (`update.prefetch`)."""

from typing import Any

import pytest

from events.bounds import PULL_MS
from events.codes import Code, UpdateState
from events.records.base import Event
from events.records.lifecycle import (
    ImagePrefetchOrdered,
    InstancesTaken,
    UpdateEnded,
    UpdateImagePulled,
    UpdateStarted,
)
from events.records.parts import Isolation
from events.records.placement import HostLost
from events.records.tasks import ImagePrefetched
from tests.helpers.machines import Run, of, one
from tests.processors.lifecycle.test_updates import Cell, policy

DIGESTS = {image: f"sha256:{number * 64}" for image, number in (("r/web:1", "1"), ("r/web:2", "2"), ("r/web:3", "3"))}


def contained(image: str) -> Isolation:
    return Isolation(level="container", image=image, image_digest=DIGESTS[image])


class Images(Cell):
    """Three instances on h1, h2 and h3, which answer when the test says so."""

    def __init__(self, **update: Any) -> None:
        update = {"prefetch": True, **update}
        super().__init__(instances=3, update=policy(**update), isolation=contained("r/web:1"))

    def place(self, *runs: Run, host: str = "") -> list[Event]:
        return [event for run in runs for event in super(Images, self).place(run, host=host or f"h{run[1] + 1}")]

    def begin(self, image: str = "r/web:2", **changes: Any) -> list[Event]:
        """Updates to an image; what lifecycle says of it."""
        known = len(self.at)
        self.update(isolation=contained(image), **changes)
        return list(self.at.values())[known:]

    def pulled(self, *host_ids: str, image: str = "r/web:2", fault: str = "") -> list[Event]:
        out: list[Event] = []
        for host_id in host_ids:
            told = {"host_id": host_id, "session": 1, "job_id": "web", "image_digest": DIGESTS[image], "fault": fault}
            out += self.settle(self.fact("paceline.tasks", ImagePrefetched(**told)))
        return out

    def lose(self, host_id: str) -> list[Event]:
        return self.settle(self.peer("placement", HostLost(host_id=host_id, session=1, code="SILENT", silent_ms=1)))


def counts(event: UpdateImagePulled) -> tuple[int, int, int, bool]:
    return event.hosts, event.have, event.faults, event.waits


@pytest.fixture
def cell() -> Images:
    return Images()


def test_the_hosts_of_the_instances_pull_the_image_before_the_first_instance_is_taken(cell: Images) -> None:
    said = cell.begin()
    order = one(said, ImagePrefetchOrdered)
    assert (order.image, order.image_digest, order.host_ids) == ("r/web:2", DIGESTS["r/web:2"], ("h1", "h2", "h3"))
    assert not of(said, InstancesTaken)
    assert cell.running() == [1, 1, 1]
    assert [counts(each) for each in of(cell.pulled("h1", "h3"), UpdateImagePulled)] == [
        (3, 1, 0, True),
        (3, 2, 0, True),
    ]
    assert cell.running() == [1, 1, 1]
    last = cell.pulled("h2")
    assert counts(one(last, UpdateImagePulled)) == (3, 3, 0, False)
    assert one(last, UpdateImagePulled).cause.topic == "paceline.tasks"  # type: ignore[union-attr]
    assert cell.running() == [2, 2, 2]
    assert one(last, UpdateEnded).state == UpdateState.SUCCEEDED


def test_only_hosts_of_instances_that_change_are_asked(cell: Images) -> None:
    cell.stop_some("web", (1, 1))
    cell.settle([])
    assert one(cell.begin(), ImagePrefetchOrdered).host_ids == ("h1", "h3")


def test_a_host_that_cannot_pull_it_holds_nobody_up_and_its_fault_is_told(cell: Images) -> None:
    cell.begin()
    cell.pulled("h1", "h2")
    said = one(cell.pulled("h3", fault="no such image"), UpdateImagePulled)
    assert (counts(said), said.fault) == ((3, 2, 1, False), "no such image")
    assert cell.running() == [2, 2, 2]


def test_a_lost_host_leaves_the_count(cell: Images) -> None:
    cell.begin()
    cell.pulled("h1")
    assert counts(one(cell.lose("h2"), UpdateImagePulled)) == (2, 1, 0, True)
    cell.pulled("h2")  # what it says now counts no more
    assert counts(one(cell.pulled("h3"), UpdateImagePulled)) == (2, 2, 0, False)


def test_after_ten_minutes_it_begins_whoever_lacks_the_image(cell: Images) -> None:
    cell.begin()
    cell.pulled("h1")
    assert not of(cell.wait(PULL_MS - 2000), InstancesTaken)
    said = cell.wait(4000)
    late = one(said, UpdateImagePulled)
    assert counts(late) == (3, 1, 0, False)
    assert late.cause is not None
    assert late.cause.due_ms > 0
    assert cell.running() == [2, 2, 2]
    assert not of(cell.pulled("h2"), UpdateImagePulled)


def test_a_paused_update_hears_of_its_image_and_begins_when_it_is_resumed() -> None:
    cell = Images()
    cell.begin()
    assert cell.act("pause").code == Code.DONE
    assert len(of(cell.pulled("h1", "h2", "h3"), UpdateImagePulled)) == 3
    assert cell.running() == [1, 1, 1]
    cell.act("resume")
    assert cell.running() == [2, 2, 2]


def test_a_pause_lets_the_ten_minutes_pass(cell: Images) -> None:
    cell.begin()
    cell.act("pause")
    assert counts(one(cell.wait(PULL_MS + 2000), UpdateImagePulled)) == (3, 0, 0, False)
    assert cell.running() == [1, 1, 1]
    cell.act("resume")
    assert cell.running() == [2, 2, 2]


@pytest.mark.parametrize("action", ["abort", "roll_back"])
def test_what_ends_it_ends_the_wait(cell: Images, action: str) -> None:
    cell.update(env={"A": "1"}, update=policy())  # a version to go back to
    cell.begin(update=policy(prefetch=True))
    assert cell.act(action).code == Code.DONE
    assert not cell.machine.updates.image_waits.table
    assert cell.machine.updates.table.get("web") is None
    assert not of(cell.pulled("h1", "h2", "h3"), UpdateImagePulled)
    assert cell.running() == [2, 2, 2]  # nobody was taken


def test_a_newer_update_waits_for_its_own_image(cell: Images) -> None:
    cell.begin()
    cell.begin("r/web:3")
    assert not of(cell.pulled("h1", "h2", "h3"), UpdateImagePulled)
    cell.pulled("h1", "h2", "h3", image="r/web:3")
    assert cell.running() == [3, 3, 3]


def test_restarts_and_what_changes_no_instance_wait_for_nothing(cell: Images) -> None:
    cell.act("restart")
    assert cell.run_of(0)[2] == 2
    said = cell.begin("r/web:1", labels={"team": "maps"})
    assert one(said, UpdateStarted).updated == 0
    assert not of(said, ImagePrefetchOrdered)


def test_a_canary_waits_for_all_hosts_once() -> None:
    cell = Images(canary=1)
    cell.begin()
    cell.pulled("h1", "h2")
    assert cell.running() == [1, 1, 1]
    cell.pulled("h3")
    assert cell.running() == [2, 1, 1]
    cell.act("promote")
    assert cell.running() == [2, 2, 2]


def test_a_machine_that_began_anew_goes_on_waiting(cell: Images) -> None:
    cell.begin()
    cell.pulled("h1")
    cell.restart()
    cell.pulled("h2", "h3")
    assert cell.running() == [2, 2, 2]


def test_a_job_that_is_deleted_meanwhile_leaves_no_wait(cell: Images) -> None:
    cell.begin()
    cell.settle(cell.stop("web"))
    cell.act("delete")
    assert not cell.machine.updates.image_waits.table
