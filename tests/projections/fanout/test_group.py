"""A fan-out without cells: whether it stands by, or is cut off from its group."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from events.log.kafka import membership as kafka_membership
from events.log.kafka.membership import Wait
from projections.fanout import group as made_of
from projections.fanout.group import Group, join_again


def consumer(
    coordinator_id: int | None, generation: int, keeping: "Future[None] | None" = None, joins: bool = False
) -> SimpleNamespace:
    keeping = keeping or Future()
    coordinator = SimpleNamespace(coordinator_id=coordinator_id, generation=generation, _coordination_task=keeping)
    subscription = SimpleNamespace(reassignment_in_progress=joins)
    client = SimpleNamespace(_coordinator=coordinator, _subscription=subscription)
    return SimpleNamespace(_thread=SimpleNamespace(_consumer=client))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def group(said: list[str], monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(kafka_membership, "WITHOUT_SECONDS", -1.0)
    return Group(Wait("here:9092", "paceline.fanout", said.append))


def test_a_member_that_was_given_no_cells_stands_by(group: Group, said: list[str]) -> None:
    group.look(consumer(1, 3), has_cells=False, sharing=False)
    assert group.joined
    assert said == []


def test_one_that_has_never_had_cells_is_ready_when_they_are_shared(group: Group) -> None:
    group.look(consumer(1, 3), has_cells=False, sharing=True)
    assert not group.joined
    group.look(consumer(1, 3), has_cells=False, sharing=False)
    assert group.joined
    group.look(consumer(1, 4), has_cells=False, sharing=True)
    assert group.joined, "it stands by while others come and go"


@pytest.mark.parametrize("cut_off", [consumer(None, 3), consumer(1, -1), consumer(None, -1)])
def test_one_that_is_cut_off_from_its_group_says_so_once_and_says_when_that_is_over(
    group: Group, said: list[str], cut_off: SimpleNamespace
) -> None:
    for _ in range(3):
        group.look(cut_off, has_cells=False, sharing=False)
    assert not group.joined
    (text,) = said
    assert text.startswith("Kafka at here:9092 gives out no cells of group paceline.fanout")
    group.look(consumer(1, 4), has_cells=False, sharing=False)
    assert group.joined
    assert said[1:] == ["Kafka at here:9092 gives out cells of group paceline.fanout again."]


def test_one_that_has_cells_publishes_them_whoever_coordinates(group: Group, said: list[str]) -> None:
    group.look(consumer(None, 3), has_cells=True, sharing=False)
    assert group.joined
    assert said == []


def test_one_whose_membership_nobody_keeps_any_more_hears_of_it(group: Group) -> None:
    keeping: Future[None] = Future()
    keeping.set_exception(AssertionError("no broker was known"))
    with pytest.raises(AssertionError, match="no broker was known"):
        group.look(consumer(1, 3, keeping), has_cells=True, sharing=False)


def test_one_whose_group_is_never_done_with_sharing_is_told(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    group.look(consumer(1, 3), has_cells=True, sharing=True)
    monkeypatch.setattr(made_of, "SHARING_S", -1.0)
    group.look(consumer(1, 3, joins=True), has_cells=True, sharing=True)  # the group is away, not faust
    with pytest.raises(TimeoutError, match="shared anew"):
        group.look(consumer(1, 3), has_cells=True, sharing=True)
    group.look(consumer(1, 3), has_cells=True, sharing=False)


class Coordinator:
    """Notes what is done about an error."""

    def __init__(self) -> None:
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done: list[str] = []

    def coordinator_dead(self) -> None:
        self.done.append("dead")

    def reset_generation(self) -> None:
        self.done.append("anew")


def test_an_answer_of_the_group_that_nobody_knows_makes_it_join_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_of, "AGAIN_S", 0.01)

    async def answered() -> list[str]:
        coordinator = Coordinator()
        await join_again(coordinator, KafkaError("UnknownError()"))
        return coordinator.done

    assert asyncio.run(answered()) == ["dead", "anew"]


def test_an_answer_that_stays_the_same_ends_the_membership() -> None:
    async def answered() -> None:
        await join_again(Coordinator(), GroupAuthorizationFailedError("paceline.fanout"))

    with pytest.raises(GroupAuthorizationFailedError):
        asyncio.run(answered())
