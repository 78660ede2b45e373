"""A placement is derived again: the best hosts at that decision, the first of which was chosen."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from events.abilities import IMAGE_WEIGHT, image_attribute
from events.choices import SCORE_ONE, choice_columns, choice_of
from events.codec import decode
from events.records.hosts import HostImages
from events.records.jobs import JobActionRequested, JobStopRequested
from events.records.parts import Constraint, DeviceModels, HostDevice, PlacementRules
from events.records.placement import TasksPlaced
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.spec.job import JobSpec
from events.strategies import STRATEGIES
from hostagent.fleet import SimHost
from paceline.moments.order import LogAddress, PlacementOrder, PlacementResult
from paceline.plans.place_again import NotDerived, place_again
from processors.placement.machine import Placement
from tests.paceline.plans.cells import PlannedCell

HOSTS = [
    SimHost(6, {"cpu": 8_000, "memory": 65_536, "disk": 100_000}, {"rack": "a"}, "a-##"),
    SimHost(6, {"cpu": 16_000, "memory": 32_768, "disk": 100_000}, {"rack": "b"}, "b-##"),
]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    cell = PlannedCell(tmp_path, HOSTS)
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1000)
    yield cell
    cell.close()


def decisions(cell: PlannedCell) -> Iterator[tuple[int, int, TasksPlaced]]:
    """All placements: round, index, decision."""
    for record in cell.log.scan("paceline.placement", 0):
        event = decode(record.value)
        if isinstance(event, RoundCommitted):
            for index, decision in enumerate(decode_decisions(event)):
                if isinstance(decision, TasksPlaced):
                    yield event.round, index, decision


def derived(cell: PlannedCell, round_: int, index: int, job_id: str, instance: int) -> PlacementResult:
    return place_again(cell.log, PlacementOrder(LogAddress("", 0), round_, index, job_id, instance))


def test_the_first_candidate_is_the_host_that_was_chosen(cell: PlannedCell) -> None:
    for number in range(12):
        strategy, cpu = ("pack", "spread")[number % 2], 500 * (1 + number % 3)
        resources = {"cpu": cpu, "memory": 1024 * (1 + number % 4)}
        cell.submit(f"j{number}", "/p", instances=1 + number % 4, resources=resources, strategy=strategy)
        cell.run(500)
        if number % 4 == 3:
            cell.append(JobStopRequested(job_id=f"j{number - 2}", command_id=f"s{number}"))
            cell.run(500)
    seen = 0
    for round_, index, placed in decisions(cell):
        columns = (column.tolist() for column in (*placed.items(), placed.host_array))
        for job, instance, _, host in zip(*columns, strict=True):
            found = derived(cell, round_, index, placed.job_ids[job], instance)
            assert found.best[0].host_id == placed.host_ids[host]
            assert found.strategy == ("pack", "spread")[int(placed.job_ids[job][1:]) % 2]
            assert len(found.best) == min(5, found.feasible)
            for each in found.best:
                assert sum(each.terms.values()) == pytest.approx(each.score)
            seen += 1
    assert seen >= 24


def test_hosts_that_a_rule_forbids_are_no_candidates(cell: PlannedCell) -> None:
    body = {"job_id": "web", "pool": "/p", "instances": 3, "command": ["x"], "host_limit": 1, "resources": {"cpu": 1}}
    cell.append(JobSpec.model_validate({**body, "sim": {"duration": "9h"}}).to_event())
    cell.run(500)
    [(round_, index, placed)] = decisions(cell)
    chosen = [placed.host_ids[host] for host in placed.host_array.tolist()]
    assert len({*chosen}) == 3
    for instance, host_id in enumerate(chosen):
        best = derived(cell, round_, index, "web", instance).best
        assert best[0].host_id == host_id
        assert not {*chosen[:instance]} & {each.host_id for each in best}


def test_a_task_is_derived_by_the_alternative_that_it_took(cell: PlannedCell) -> None:
    """And those that the same decision placed before it have the amounts of theirs."""
    body = {"job_id": "either", "pool": "/p", "instances": 8, "command": ["x"], "sim": {"duration": "9h"}}
    either = [{"resources": {"cpu": 12}}, {"resources": {"cpu": 1, "memory": "30GiB"}}]
    cell.append(JobSpec.model_validate({**body, "any_of": either}).to_event())
    cell.run(500)
    seen: set[int] = set()
    for round_, index, placed in decisions(cell):
        columns = (column.tolist() for column in (placed.instance_array, placed.host_array, placed.alternative_array))
        for instance, host, alternative in zip(*columns, strict=True):
            found = derived(cell, round_, index, "either", instance)
            assert found.best[0].host_id == placed.host_ids[host]
            assert found.feasible >= 1
            seen.add(alternative)
    assert seen == {0, 1}


def test_the_record_says_by_which_strategy_and_with_which_score(cell: PlannedCell) -> None:
    for number in range(12):
        resources = {"cpu": 500 * (1 + number % 3), "memory": 1024 * (1 + number % 4)}
        cell.submit(f"j{number}", "/p", instances=1 + number % 4, resources=resources, strategy=STRATEGIES[number % 4])
        if number % 3:
            cell.run(500)
    cell.run(500)
    told = dict.fromkeys(STRATEGIES[:4], 0)  # the others look at cards, and no host has any
    for round_, index, placed in decisions(cell):
        columns = placed.choice_count, placed.strategy, placed.score, placed.feasible
        assert sum(map(len, columns)) <= 12 * len(placed.job_array)
        seen: set[int] = set()
        for item, job in enumerate(placed.job_array.tolist()):
            choice = choice_of(placed, item)
            assert choice is not None
            strategy = STRATEGIES[choice.strategy]
            assert strategy == STRATEGIES[int(placed.job_ids[job][1:]) % 4]
            if job not in seen:
                found = derived(cell, round_, index, placed.job_ids[job], int(placed.instance_array[item]))
                assert (found.strategy, found.best[0].host_id) == (strategy, placed.host_ids[placed.host_array[item]])
                assert choice.score / SCORE_ONE == pytest.approx(found.best[0].score, abs=1e-6)
                assert choice.feasible >= found.feasible
                told[strategy] += 1
            seen.add(job)
    assert all(told.values())


def test_most_tasks_placed_alone_and_some_together_stay_within_twelve_bytes_each() -> None:
    counts = [1] * 50 + [3, 1, 1]
    columns = choice_columns(counts, [3] * 53, np.arange(53), [7] * 53)
    placed = TasksPlaced.pack(
        job_ids=["a"], job=[0] * 55, instance=range(55), run=[1] * 55, host_ids=["h"], host_session=[1], host=[0] * 55,
        **columns,
    )  # fmt: skip
    assert len(placed.choice_count + placed.strategy + placed.score + placed.feasible) == 12 * 55
    assert [choice_of(placed, item) for item in (49, 50, 52, 53)] == [
        (3, 49, 7),
        (3, 50, 7),
        (3, 50, 7),
        (3, 51, 7),
    ]


def test_a_kept_home_is_told_apart(cell: PlannedCell) -> None:
    cell.submit("web", "/p", kind="stateless", instances=2, resources={"cpu": 1000}, strategy="spread")
    cell.run(500)
    cell.append(JobActionRequested.pack(job_id="web", action="restart", command_id="r", batch=1, first=[], count=[]))
    cell.run(60_000)
    *_, (round_, index, placed) = decisions(cell)
    [[job, instance, run]] = zip(*(column.tolist() for column in placed.items()), strict=True)
    assert run == 2
    found = derived(cell, round_, index, placed.job_ids[job], instance)
    assert (found.best[0].host_id, found.best[0].own_room) == (placed.host_ids[0], True)


def test_what_cannot_be_derived_says_why(cell: PlannedCell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell.submit("a", "/p")
    cell.run(500)
    [(round_, index, _)] = decisions(cell)
    with pytest.raises(NotDerived, match="there is no round 99"):
        derived(cell, 99, 0, "a", 0)
    end = cell.log.bounds("paceline.hosts")[1]
    logic = Placement.logic
    monkeypatch.setattr(Placement, "logic", logic + 1)
    with pytest.raises(NotDerived, match=f"logic {logic} of placement, this build has {logic + 1}"):
        derived(cell, round_, index, "a", 0)
    monkeypatch.undo()
    cell.log.truncate("paceline.hosts", end - 1)
    with pytest.raises(NotDerived, match="before the oldest snapshot and the log"):
        derived(cell, round_, index, "a", 0)


def chosen_among(cell: PlannedCell, job_id: str) -> PlacementResult:
    """Among which hosts the last task of a job was placed."""
    *_, (round_, index, placed) = (each for each in decisions(cell) if job_id in each[2].job_ids)
    own = placed.instance_array[placed.job_array == placed.job_ids.index(job_id)]
    return derived(cell, round_, index, job_id, int(own[-1]))


def test_what_goes_before_the_score_is_told_as_a_user_writes_it(tmp_path: Path) -> None:
    capacity = {"cpu": 8_000, "memory": 32_768, "disk": 100_000}
    with_gpu = SimHost(1, capacity | {"gpu": 1_000}, {"rack": "a", "zone": "z", "os": "x"}, "gpu")
    plain = SimHost(1, capacity, {"rack": "b", "os": "x"}, "plain"), SimHost(1, capacity, {"rack": "b"}, "other")
    cell = PlannedCell(tmp_path, [with_gpu, *plain])
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1_000)
    names = ("zone", "os", "nowhere")
    wishes = tuple(Constraint(name, "exists", (), weight=weight) for weight, name in enumerate(names, 1))
    cell.submit("web", "/p", constraints=wishes, resources={"cpu": 1_000})
    cell.submit("even", "/p", rules=PlacementRules(spread_over="rack"), instances=2, resources={"cpu": 1_000})
    cell.submit("quiet", "/p", strategy="load-aware", resources={"cpu": 1_000})
    cell.submit("mixed", "/p", strategy="balanced", resources={"cpu": 1_000, "memory": 8_192})
    cell.run(1_000)
    web, even, quiet, mixed = (chosen_among(cell, job_id) for job_id in ("web", "even", "quiet", "mixed"))
    cell.close()
    assert [(each.host_id, each.with_devices, each.unmet) for each in web.best] == [
        ("plain", False, 1 + 3), ("other", False, 1 + 2 + 3), ("gpu", True, 3),
    ]  # fmt: skip
    assert all(0 < each.score < 5 for each in web.best), "nothing but what is free"
    assert even.spread_over == "rack"
    assert even.best[0].host_id == "gpu", "whatever its devices"
    assert {(each.value, each.value_tasks) for each in even.best} == {("a", 0), ("b", 1)}
    assert {*quiet.best[0].terms} == {"load", "room"}
    assert {each.terms["load"] for each in quiet.best} == {8}, "no host has told its load"
    assert quiet.best[0].terms["room"] == max(each.terms["room"] for each in quiet.best if not each.with_devices)
    assert all(0 <= each.terms["unevenness"] <= 1 for each in mixed.best)


def test_a_host_without_the_image_of_a_job_is_told_apart_from_its_preferences(cell: PlannedCell) -> None:
    has = Constraint(image_attribute("0123456789abcdef"), "exists", (), weight=IMAGE_WEIGHT)
    cell.append(HostImages(host_id="b-03", session=1, images=("0123456789abcdef",)))
    cell.submit("web", "/p", constraints=(has, Constraint("rack", "in", ("a",), weight=1)))
    cell.run(500)
    best = chosen_among(cell, "web").best
    told = {each.host_id: (each.without_image, each.unmet) for each in best}
    assert {told.pop("b-03", (False, 1))} == {(False, 1)}
    assert {*told.values()} <= {(True, 0), (True, 1)}


def test_the_candidates_of_strategies_that_look_at_cards_have_their_own_order(tmp_path: Path) -> None:
    """And tasks that one decision placed before have the cards that they took."""

    def hosts(name: str, count: int, cards: int, model: str) -> SimHost:
        devices = tuple(HostDevice(str(number), "gpu", model=model) for number in range(cards))
        capacity = {"cpu": 32_000, "memory": 65_536, "disk": 100_000, "gpu": 1_000 * cards}
        return SimHost(count, capacity, {}, f"{name}-#", devices=devices)

    cell = PlannedCell(tmp_path, [hosts("a", 3, 2, "a100"), hosts("t", 3, 4, "t4")])
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1_000)
    strategies = "adaptive", "fragmentation"
    for number in range(24):
        gpu, models = (400, 700, 1_000, 2_000)[number % 4], ("a100",) if number % 3 == 0 else ()
        resources = {"cpu": 500, "memory": 1_024, "gpu": gpu}
        rules = PlacementRules(devices=(DeviceModels("gpu", models),)) if models else None
        strategy, instances = strategies[number // 4 % 2], 1 + (gpu < 1_000)
        cell.submit(f"j{number}", "/p", instances=instances, resources=resources, rules=rules, strategy=strategy)
        if number % 3:
            cell.run(500)
    seen = dict.fromkeys(strategies, 0)
    otherwise = 0
    for round_, index, placed in decisions(cell):
        columns = (column.tolist() for column in (*placed.items(), placed.host_array))
        for job, instance, _, host in zip(*columns, strict=True):
            found = derived(cell, round_, index, placed.job_ids[job], instance)
            assert found.best[0].host_id == placed.host_ids[host]
            scores = [each.score for each in found.best]
            assert scores == sorted(scores)
            assert all(sum(each.terms.values()) == pytest.approx(each.score) for each in found.best)
            expected = {"loss", "room", "place"} if found.strategy == "adaptive" else {"loss"}
            assert all({*each.terms} == expected for each in found.best)
            assert found.strategy == "adaptive" or all(0 <= score <= 1 for score in scores)
            free = [sum(each.free.values()) for each in found.best]
            otherwise += free != sorted(free)
            seen[found.strategy] += 1
    cell.close()
    assert all(count >= 5 for count in seen.values())
    assert otherwise, "the order isn't that of pack"
