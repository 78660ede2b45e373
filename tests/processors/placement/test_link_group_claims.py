"""Room that is made on link groups for gangs in segments: others leave, or hosts are reserved."""

import random
from collections import Counter
from typing import Any

from events.cell_settings import DEFAULTS
from events.codes import Code
from events.device_columns import devices_of
from events.records.base import Event
from events.records.parts import HostDevice, PlacementRules, TaskShape
from events.records.placement import HostsReserved, TasksPlaced
from tests.helpers.drawn import seeds
from tests.helpers.machines import Run, mixed, of
from tests.processors.placement.sharing import Giver, Shared, Taker, asks, places, victims
from tests.processors.placement.test_link_groups import Islands, fewest

Card = tuple[str, str]
"""Host and link group of a card."""


def cell_of(islands: Islands, cpus: dict[str, int]) -> Shared:
    cell = Shared()
    for host, cpu in cpus.items():
        groups = [group for (of_host, group), count in islands.items() if of_host == host for _ in range(count)]
        cards = tuple(HostDevice(f"{number}", "gpu", link_group=group) for number, group in enumerate(groups))
        cell.host(host, cpu=cpu * 1000, gpu=1000 * len(cards), devices=cards)
    return cell


def shape(cards: int = 1, **rules: Any) -> TaskShape:
    return TaskShape({"cpu": 1000, "gpu": 1000 * cards}, rules=PlacementRules(**rules) if rules else None)


def cards_of(said: list[Event], islands: Islands) -> dict[Run, list[Card]]:
    """The cards of the tasks that were placed."""
    groups = {
        host: [group for (at, group), n in islands.items() if at == host for _ in range(n)] for host, _ in islands
    }
    out: dict[Run, list[Card]] = {}
    for event in of(said, TasksPlaced):
        for item, held in devices_of(event):
            host = event.host_ids[event.host_array[item]]
            run = event.job_ids[event.job_array[item]], int(event.instance_array[item]), int(event.run_array[item])
            out[run] = [(host, groups[host][int(card)]) for card, _, _ in held]
    return out


def drawn(draw: random.Random) -> tuple[Islands, dict[str, int]]:
    hosts = [f"h{number}" for number in range(draw.randint(1, 3))]
    islands = {(host, group): draw.randint(1, 4) for host in hosts for group in draw.choice(["l", "lr"])}
    return islands, {host: draw.randint(1, 9) for host in hosts}


@seeds(2_000, suite=100)
def test_others_leave_for_segments_wherever_link_groups_hold_them_without_those(seed: int) -> None:
    """Some tasks stay, others may leave: there is a plan if and only if the gang fits where only those are that stay,
    and when all have left it is there, each segment in one link group.
    """
    draw = random.Random(seed)
    islands, cpus = drawn(draw)
    cell = cell_of(islands, cpus)
    stays = cards_of(cell.run("firm", draw.randint(1, 3), shapes=(shape(),), preemptible=False), islands)
    said = cell.run("soft", 12, shapes=(shape(),))
    soft = cards_of(said, islands)
    cards, segment = draw.randint(1, 2), draw.randint(1, 3)
    tasks = segment * draw.randint(2 if segment == 1 else 1, 3)
    level = draw.choice([{"near": "link_group"}, {"within": "link_group"}])
    said = cell.run("gang", tasks, gang_min=tasks, shapes=(shape(cards, segments=segment, **level),), pool="/a")
    left = Counter(islands)
    left.subtract(card for held in stays.values() for card in held)
    used = Counter(host for held in stays.values() for host, _ in held)
    holds = fewest(dict(left), {host: cpu - used[host] for host, cpu in cpus.items()}, cards, segment, tasks)
    if not cards_of(said, islands):
        asked = asks(cell.right(Taker("gang", count=tasks, gang=1, pool="/a"), Giver("/p")))
        assert len(asked) == (holds is not None)
        if not asked:
            return
        assert {*victims(asked[0])} <= {*soft}
        assert sum(places(asked[0]).values()) == tasks
        cell.order(asked[0])
        said = cell.leave(*victims(asked[0]))
    by_rank = [held for (job, _, _), held in sorted(cards_of(said, islands).items()) if job == "gang"]
    assert len(by_rank) == tasks
    for first in range(0, tasks, segment):
        assert len({card for held in by_rank[first : first + segment] for card in held}) == 1


def test_nobody_leaves_where_whole_segments_are_free_already() -> None:
    islands = {("a", "l"): 4, ("a", "r"): 4, ("b", "l"): 4}
    cell = cell_of(islands, {"a": 9, "b": 9})
    soft = cards_of(cell.run("soft", 12, shapes=(shape(),)), islands)
    free = [run for run, (card,) in soft.items() if card == ("a", "r")]
    cell.end(*free)
    cell.run("gang", 8, gang_min=8, shapes=(shape(near="link_group", segments=4),), pool="/a")
    (ask,) = asks(cell.right(Taker("gang", count=8, gang=1, pool="/a"), Giver("/p")))
    leave = victims(ask)
    assert len(leave) == 4
    assert len({soft[run][0] for run in leave}) == 1, "those of one link group leave, whole"


def test_what_segments_have_got_so_far_nobody_else_takes() -> None:
    islands = {("a", "l"): 2, ("a", "r"): 2}
    cell = cell_of(islands, {"a": 9})
    cell.run("soft", 4, shapes=(shape(),))
    cell.run("gang", 4, gang_min=4, shapes=(shape(near="link_group", segments=2),), pool="/a")
    (ask,) = asks(cell.right(Taker("gang", count=4, gang=1, pool="/a"), Giver("/p")))
    leave = victims(ask)
    assert len(leave) == 4
    cell.order(ask)
    cell.run("other", 4, shapes=(shape(),))
    for run in leave[:-1]:
        assert not cards_of(cell.leave(run), islands)
    placed = cards_of(cell.leave(leave[-1]), islands)
    assert [placed["gang", rank, 1][0][1] for rank in range(4)] in (["l", "l", "r", "r"], ["r", "r", "l", "l"])


def test_members_of_several_shapes_in_segments_get_one_link_group() -> None:
    islands = {("a", "l"): 2, ("a", "r"): 2, ("b", "l"): 3}
    cell = cell_of(islands, {"a": 9, "b": 9})
    soft = cards_of(cell.run("soft", 7, shapes=(shape(),)), islands)
    rules = {"near": "link_group", "segments": 2}
    cell.run("gang", gang_min=2, **mixed((1, shape(2, **rules)), (1, shape(1, **rules))), pool="/a")
    (ask,) = asks(cell.right(Taker("gang", count=2, gang=1, pool="/a"), Giver("/p")))
    leave = victims(ask)
    assert [soft[run][0] for run in leave] == [("b", "l")] * 3
    cell.order(ask)
    placed = cards_of(cell.leave(*leave), islands)
    assert {card for held in placed.values() for card in held} == {("b", "l")}


@seeds(1_000, suite=50)
def test_hosts_are_reserved_for_segments_on_link_groups(seed: int) -> None:
    """Where nobody leaves for a gang, it has hosts reserved if and only if it fits there once they are empty, and gets
    them, each segment in one link group, as soon as they are.
    """
    draw = random.Random(seed)
    islands, cpus = drawn(draw)
    cell = cell_of(islands, cpus)
    firm = cards_of(cell.borrow("firm", 12, shapes=(shape(),), preemptible=False), islands)
    segment = draw.randint(1, 3)
    tasks = segment * draw.randint(2 if segment == 1 else 1, 3)
    said = cell.run("gang", tasks, gang_min=tasks, shapes=(shape(near="link_group", segments=segment),), pool="/a")
    if cards_of(said, islands):
        return
    reserved = of(cell.later(DEFAULTS.reserve_after_ms + 1000), HostsReserved)
    assert bool(reserved) == (fewest(islands, cpus, 1, segment, tasks) is not None)
    if not reserved:
        return
    assert reserved[0].state == Code.RESERVED
    assert sum(places(reserved[0]).values()) == tasks
    cell.borrow("other", 12, shapes=(shape(),))
    placed: dict[Run, list[Card]] = {}
    for run in draw.sample(sorted(firm), len(firm)):
        placed |= cards_of(cell.end(run), islands)
    by_rank = [held for (job, _, _), held in sorted(placed.items()) if job == "gang"]
    assert len(by_rank) == tasks
    for first in range(0, tasks, segment):
        assert len({card for held in by_rank[first : first + segment] for card in held}) == 1
