"""A fan-out without cells: whether it stands by, or is cut off from its group."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from events import kafka_membership
from events.kafka_membership import Wait
from projections.fanout.group import Group


def consumer(coordinator_id: int | None, generation: int, keeping: "Future[None] | None" = None) -> SimpleNamespace:
    keeping = keeping or Future()
    coordinator = SimpleNamespace(coordinator_id=coordinator_id, generation=generation, _coordination_task=keeping)
    return SimpleNamespace(_thread=SimpleNamespace(_consumer=SimpleNamespace(_coordinator=coordinator)))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def group(said: list[str], monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(kafka_membership, "WITHOUT_SECONDS", -1.0)
    return Group(Wait("here:9092", "paceline.fanout", said.append))


def test_a_member_that_was_given_no_cells_stands_by(group: Group, said: list[str]) -> None:
    group.look(consumer(1, 3), has_cells=False)
    assert group.joined
    assert said == []


@pytest.mark.parametrize("cut_off", [consumer(None, 3), consumer(1, -1), consumer(None, -1)])
def test_one_that_is_cut_off_from_its_group_says_so_once_and_says_when_that_is_over(
    group: Group, said: list[str], cut_off: SimpleNamespace
) -> None:
    for _ in range(3):
        group.look(cut_off, has_cells=False)
    assert not group.joined
    (text,) = said
    assert text.startswith("Kafka at here:9092 gives out no cells of group paceline.fanout")
    group.look(consumer(1, 4), has_cells=False)
    assert group.joined
    assert said[1:] == ["Kafka at here:9092 gives out cells of group paceline.fanout again."]


def test_one_that_has_cells_publishes_them_whoever_coordinates(group: Group, said: list[str]) -> None:
    group.look(consumer(None, 3), has_cells=True)
    assert group.joined
    assert said == []


def test_one_whose_membership_nobody_keeps_any_more_hears_of_it(group: Group) -> None:
    keeping: Future[None] = Future()
    keeping.set_exception(AssertionError("no broker was known"))
    with pytest.raises(AssertionError, match="no broker was known"):
        group.look(consumer(1, 3, keeping), has_cells=True)
