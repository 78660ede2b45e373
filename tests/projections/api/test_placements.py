"""The placement of a run over HTTP: the decision in the log, and the candidates as a process derives them."""

from typing import Any

import msgspec

from events.columns import pack_ints
from events.device_columns import RunDevice, device_fields
from paceline.moments.order import PlacementCandidate, PlacementResult
from tests.helpers.written_cell import admitted
from tests.helpers.written_cell import placed as placed_on
from tests.projections.ui.test_devices import host_with_cards


class Derived:
    """Answers as a test says, and notes what was asked."""

    def __init__(self, result: PlacementResult) -> None:
        self.result = result
        self.asked: list[tuple[Any, ...]] = []

    def derive(self, *asked: Any) -> PlacementResult:
        self.asked.append(asked)
        return self.result


def placed(api: Any) -> None:
    api.pool("/p")
    for _ in range(2):
        api.cell.host(cpu=4000)
    api.cell.accept("a", instances=2)
    api.cell.run("a", (0, 1))
    api.fold()


def answer(api: Any, result: PlacementResult, path: str = "/v1/jobs/a/tasks/1/placements") -> tuple[Any, Derived]:
    derived = Derived(result)
    object.__setattr__(api.app.state.context, "placements", derived)
    return api.client.post(path, json={}), derived


def test_a_placement_has_its_decision_and_the_candidates(api):
    placed(api)
    best = [
        PlacementCandidate("h1", 0.5, {"cpu": 0.5}, {"cpu": 2000}, 1, False),
        PlacementCandidate("h2", 0.75, {"cpu": 0.75}, {"cpu": 3000}, 0, False),
    ]
    told, derived = answer(api, PlacementResult("", "pack", 2, 2, best))
    assert told.status_code == 200, told.text
    body = told.json()
    [(round_, _, *task)] = derived.asked
    assert (task, body["round"], body["run"]) == (["a", 1], round_, 1)
    assert body["position"].startswith("paceline.placement:")
    assert (body["why"], body["strategy"], body["hosts"], body["feasible"]) == ("", "pack", 2, 2)
    assert [each["free"] for each in body["candidates"]] == [{"cpu": 2}, {"cpu": 3}]
    assert [each["chosen"] for each in body["candidates"]] == [each.host_id == body["host_id"] for each in best]


def test_a_placement_names_the_devices_and_cores_of_the_run(api):
    api.pool("/p")
    host_with_cards(api.cell)
    api.cell.accept("a", instances=2)
    rows = [[RunDevice("0", 400, 16384)], [RunDevice("1", 1000, 40960), RunDevice("core/3", 1000, 0)]]
    fields = {name: each if name == "device_ids" else pack_ints(each) for name, each in device_fields(rows).items()}
    api.cell.decide("entitlement", admitted("a", (0, 1), 1))
    api.cell.decide("placement", msgspec.structs.replace(placed_on("a", (0, 1), 1, "h1"), **fields))
    api.fold()
    told, _ = answer(api, PlacementResult(why="later"))
    assert told.json()["devices"] == [{"id": "1", "share": 1, "memory": "40GiB"}]
    assert told.json()["cores"] == [3]
    told, _ = answer(api, PlacementResult(why="later"), "/v1/jobs/a/tasks/0/placements")
    assert told.json()["devices"] == [{"id": "0", "share": 0.4, "memory": "16GiB"}]
    assert "cores" not in told.json()


def test_a_placement_that_cannot_be_derived_has_what_the_log_says(api):
    placed(api)
    told, _ = answer(api, PlacementResult(why="round 1 was decided by logic 3 of placement"))
    body = told.json()
    assert (body["candidates"], body["why"]) == ([], "round 1 was decided by logic 3 of placement")
    assert body["host_id"]
    assert (body["strategy"], body["feasible"], body["hosts"]) == ("pack", 2, 0), "as the decision recorded it"
    assert body["score"] == 1


def test_a_task_that_was_never_placed_has_no_placement(api):
    api.pool("/p")
    api.cell.accept("a", instances=2)
    api.fold()
    for path in ("/v1/jobs/a/tasks/1/placements", "/v1/jobs/a/tasks/0/placements?run=7"):
        told, derived = answer(api, PlacementResult(), path)
        api.problem(told, 404, "NOT_FOUND")
        assert derived.asked == []


def test_a_task_that_isnt_there_or_waits_is_told_so(api):
    api.pool("/p")
    api.cell.accept("a", instances=2)
    api.fold()
    for path, told in (("99", "job a has tasks 0 to 1"), ("0", "task 0 waits: paceline job explain a says for what")):
        problem, _ = answer(api, PlacementResult(), f"/v1/jobs/a/tasks/{path}/placements")
        assert (problem.status_code, problem.json()["detail"]) == (404, told)
