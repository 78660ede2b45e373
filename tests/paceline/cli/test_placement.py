"""The placement of a task on the command line, where its round can be replayed and where it can't."""

import pytest

PATH = "/v1/jobs/a/tasks/1/placements"
PLACEMENT = {
    "job_id": "a", "instance": 1, "run": 2, "host_id": "h1", "ports": [31000], "at": "2026-08-21T10:41:07.000Z",
    "round": 12, "position": "paceline.placement:40", "why": "", "strategy": "spread", "score": 0.75, "hosts": 3,
    "feasible": 2, "spread_over": "rack", "alternative": None, "passed_over": [],
    "candidates": [
        {"host_id": "h1", "score": 1.25, "terms": {"tasks": 0, "cpu": 0.5}, "free": {"cpu": 2}, "tasks": 0,
         "chosen": True, "own_room": False, "value": "a", "value_tasks": 3, "with_devices": True, "unmet": 2,
         "without_image": True},
    ],
}  # fmt: skip
HEAD = """\
task 1 of job a, run 2: h1, ports 31000
  decided   3m12s ago, round 12 of placement (paceline.placement:40)
"""
NOT_REPLAYED = PLACEMENT | {"why": "round 12 was decided by logic 3 of placement", "hosts": 0, "candidates": []}
WHY = "the candidates can't be derived: round 12 was decided by logic 3 of placement\n"


def test_a_placement_that_can_be_replayed_shows_its_strategy_and_the_hosts(cli, cell):
    cell.answer("POST", PATH, PLACEMENT)
    code, out, err = cli("job", "placement", "a", "--task", "1")
    assert (code, err) == (0, "")
    assert out.startswith(f"{HEAD}  strategy  spread; 2 of 3 hosts were possible\nHOST")
    assert out.splitlines()[-1].split()[:9] == ["h1", "chosen", "a", "3", "0", "some", "2", "not", "there"]


def test_a_job_of_one_task_needs_no_number_of_it(cli, cell):
    cell.answer("GET", "/v1/jobs/a", {"job_id": "a", "instances": 1})
    cell.answer("POST", PATH.replace("/1/", "/0/"), PLACEMENT | {"instance": 0})
    code, out, err = cli("job", "placement", "a")
    assert (code, err) == (0, "")
    assert out.startswith("task 0 of job a, run 2: h1")


def test_of_a_job_of_several_it_must_be_said_which(cli, cell):
    cell.answer("GET", "/v1/jobs/a", {"job_id": "a", "instances": 2})
    code, _, err = cli("job", "placement", "a")
    assert code == 2
    assert "say which task of job a: --task N" in err


def test_the_devices_and_cores_of_the_run_are_named(cli, cell):
    devices = [{"id": "2", "share": 0.4, "memory": "16GiB"}, {"id": "nic0", "share": 1, "memory": None}]
    cell.answer("POST", PATH, NOT_REPLAYED | {"devices": devices, "cores": [0, 1, 5]})
    code, out, _ = cli("job", "placement", "a", "--task", "1")
    assert code == 0
    assert out.startswith(f"{HEAD}  devices   2:0.4, nic0, cores 0-1,5\n")


@pytest.mark.parametrize(("feasible", "room"), [(2, "2 hosts were"), (1, "1 host was")])
def test_one_that_cannot_be_replayed_shows_what_was_recorded(cli, cell, feasible, room):
    cell.answer("POST", PATH, NOT_REPLAYED | {"feasible": feasible})
    code, out, err = cli("job", "placement", "a", "--task", "1")
    assert (code, err) == (0, WHY)
    assert out == f"{HEAD}  strategy  spread; {room} possible\n  score     0.7500, as the round recorded it\n"


def test_one_of_an_older_release_shows_the_decision_alone_and_says_why(cli, cell):
    cell.answer("POST", PATH, NOT_REPLAYED | {"strategy": "", "score": None, "feasible": 0})
    code, out, err = cli("job", "placement", "a", "--task", "1")
    assert (code, out) == (0, HEAD)
    assert err == f"{WHY}nor were strategy and score recorded: the round is of a release before 0.4\n"
