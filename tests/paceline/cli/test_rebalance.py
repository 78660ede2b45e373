"""`paceline rebalance` from the command line: what is sent, what is printed, and when nothing is done."""

DONE = {"command_id": "c", "position": "paceline.pools:7", "code": "DONE", "message": ""}
DRAINS = "/v1/hosts/h2/drains"
ROUTE = "/v1/jobs/train/rebalances"
MOVE = {"job_id": "pairs", "instance": 3, "run": 1, "from_host": "g-1", "to_host": "g-2"}
PLAN = {"code": "DONE", "message": "", "refused": False, "host_ids": ["g-1"], "moves": [MOVE]}
HOSTS = [{"host_id": "h1", "runs": 5, "maintenance": None}, {"host_id": "h2", "runs": 1, "maintenance": None}]


def effects(*leaves, unplaced=()):
    """The effects of a drain whose jobs leave in these ways."""
    jobs = [{"job_id": f"j{at}", "runs": 2, "leaves": way} for at, way in enumerate(leaves)]
    plan = {"refused": False, "unplaced": [*unplaced], "cut_short": False}
    return {"hosts": [], "jobs": jobs, "notes": [], "plan": plan}


def test_a_plan_says_who_moves_from_where_to_where(cli, cell):
    cell.answer("POST", f"{ROUTE}?dry_run", PLAN)
    code, out, err = cli("rebalance", "plan", "--for", "train", "--max-moves", "2")
    assert (code, err) == (0, "room is made on g-1\n")
    assert [line.split() for line in out.splitlines()] == [
        ["JOB", "TASK", "RUN", "FROM", "TO"],
        ["pairs", "3", "1", "g-1", "g-2"],
    ]
    [asked] = cell.asked
    assert asked.body["max_moves"] == 2


def test_a_plan_without_moves_says_why_and_ends_with_1(cli, cell):
    cell.answer(
        "POST", f"{ROUTE}?dry_run", {**PLAN, "moves": [], "message": "more tasks would have to be moved than 2"}
    )
    assert cli("rebalance", "plan", "--for", "train")[:2] == (1, "more tasks would have to be moved than 2\n")


def test_a_plan_for_whole_hosts_says_which_and_whose_runs_leave(cli, cell):
    cell.answer("GET", "/v1/hosts", {"hosts": HOSTS, "next_page_token": ""})
    body = {**effects("moved"), "hosts": [{"host_id": "h2", "runs": 2}]}
    cell.answer("POST", f"{DRAINS}?dry_run", body)
    code, out, _ = cli("rebalance", "plan", "--empty", "1")
    assert code == 0
    words = [line.split() for line in out.splitlines() if line]
    assert words == [["HOST", "RUNS"], ["h2", "2"], ["JOB", "RUNS", "LEAVES"], ["j0", "2", "moved"]]


def test_room_for_a_job_that_waits_for_none_ends_with_1_as_its_plan_does(cli, cell):
    cell.answer("POST", ROUTE, {**DONE, "message": "no task of job train waits"})
    assert cli("rebalance", "apply", "--for", "train")[:2] == (1, "no task of job train waits\n")


def test_the_bound_goes_with_the_request(cli, cell):
    cell.answer("POST", ROUTE, DONE)
    assert cli("rebalance", "apply", "--for", "train", "--max-moves", "3")[:2] == (0, "room is made for job train\n")
    [sent] = cell.writes()
    assert (sent.body["max_moves"], sent.body["by_setting"]) == (3, False)


def test_it_must_be_said_for_whom(cli, cell):
    for words in ((), ("--for", "train", "--empty", "1")):
        code, _, err = cli("rebalance", "apply", *words)
        assert code == 2
        assert "--for JOB, or --empty N" in err
    assert cell.writes() == []


def test_hosts_with_the_fewest_runs_are_emptied_by_a_drain_that_moves_batch_work(cli, cell):
    cell.answer("GET", "/v1/hosts", {"hosts": HOSTS, "next_page_token": ""})
    cell.answer("POST", f"{DRAINS}?dry_run", effects("moved", "asked"))
    cell.answer("POST", DRAINS, {**DONE, "host_ids": ["h2"], "notes": []})
    code, out, _ = cli("rebalance", "apply", "--empty", "1")
    assert (code, out) == (0, "h2: emptied; `paceline host resume` gives them back\n")
    [sent] = cell.writes()
    assert sent.body["batch"] == "move"


def test_nothing_is_drained_where_work_would_have_to_end_or_finds_no_place(cli, cell):
    cell.answer("GET", "/v1/hosts", {"hosts": HOSTS, "next_page_token": ""})
    for body in (effects("batch"), effects("bound"), effects("never"), effects("moved", unplaced=["x"])):
        cell.answer("POST", f"{DRAINS}?dry_run", body)
        cell.answer("POST", f"{DRAINS.replace('h2', 'h1')}?dry_run", body)
        code, _, err = cli("rebalance", "apply", "--empty", "1")
        assert code == 1
        assert "no host can be emptied, not 1" in err
    for host_id in ("h1", "h2"):
        cell.answer("POST", f"/v1/hosts/{host_id}/drains?dry_run", effects("moved"))
    assert cli("rebalance", "apply", "--empty", "1", "--max-moves", "1")[0] == 1


def test_watch_moves_nothing_unless_the_cell_lets_it(cli, cell):
    for moves in (0, 5):
        cell.answer("GET", "/v1/cell/settings", {"rebalance_moves_per_hour": moves})
    code, _, err = cli("rebalance", "watch", "--once")
    assert code == 1
    assert "rebalance_moves_per_hour=N" in err
    cell.answer("GET", "/v1/jobs", {"jobs": [{"job_id": "train"}], "next_page_token": ""})
    cell.answer("POST", f"{ROUTE}?dry_run", PLAN)
    cell.answer("POST", ROUTE, DONE)
    assert cli("rebalance", "watch", "--once")[:2] == (0, "train: 1 task moved, room on g-1\n")
    assert [(sent.body["max_moves"], sent.body["by_setting"]) for sent in cell.writes()] == [(1, True)]
