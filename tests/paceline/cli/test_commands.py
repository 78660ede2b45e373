"""What the commands print and send: data on stdout, notes on stderr, JSON as the API sent it."""

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from ruamel.yaml import YAML

from events.resources import STANDARD
from events.spec.job import JobSpec, from_event
from paceline import output
from paceline.cli.commands.job_spec import without_defaults
from paceline.cli.progress import counts
from paceline.job_files import read_jobs
from projections.ui.job_columns import COLUMNS
from tests.events.spec.test_job import specs as SPECS
from tests.helpers.drawn import examples
from tests.paceline.fake import job

EXPLANATION = {
    "job_id": "a",
    "state": "PENDING",
    "headline": {"code": "ENTITLEMENT_REACHED", "message": "3 tasks wait", "actor": "nobody, wait"},
    "reasons": [
        {
            "code": "ENTITLEMENT_REACHED", "tier": "pool", "message": "3 tasks wait", "actor": "nobody, wait",
            "since": "2026-08-21T10:41:07.000Z", "machine": "entitlement", "round": 12, "ahead": 7, "jobs_ahead": 2,
            "tasks": 3, "pool": "/maps", "asked": {"cpu": 0.5}, "allocated": {"cpu": 3.9}, "entitlement": {"cpu": 4},
            "limit": None, "until": "2026-08-21T10:44:19.000Z", "order": 7, "hosts": ["h1"], "hosts_considered": None,
            "hosts_by_reason": None, "nearest": None, "not_before": None,
        },
        {
            "code": "NO_HOST_FITS", "tier": "now", "message": "1 task finds no room", "actor": "nobody, wait",
            "since": None, "machine": "placement", "round": 40, "ahead": None, "asked": None, "missing": "3-5",
            "hosts_considered": 412, "hosts_by_reason": {"cpu": 400, "silent": 12},
            "nearest": [{"host_id": "h17", "lacks": {"cpu": 0.1}}], "not_before": None,
        },
    ],
}  # fmt: skip
TASKS = [
    {"instance": 0, "state": "SUCCEEDED", "run": 1, "host_id": "h1", "ports": [], "exit_code": 0,
     "outcome": "SUCCEEDED", "reason": None, "version": 1},
    {"instance": 1, "state": "RUNNING", "run": 2, "host_id": "h2", "ports": [31000, 31001], "exit_code": None,
     "outcome": None, "reason": "out of luck", "version": 2},
]  # fmt: skip
AMOUNTS = {"cpu": 1.5, "memory": "2GiB"}
POOL = {
    "path": "/maps/tiles", "parent": "/maps", "reservation": AMOUNTS,
    "limit": {}, "share": {"cpu": 1, "memory": 1, "others": 1}, "open_jobs_max": 100_000,
    "open_tasks_max": 2_000_000, "open_jobs": 1, "open_tasks": 3, "entitlement": AMOUNTS, "demand": AMOUNTS,
    "allocation": {}, "held": {}, "without_hosts": {}, "defined_at": None, "position": "paceline.pools:0",
}  # fmt: skip
HOST = {
    "host_id": "h1", "state": "UP", "session": 5, "runs": 2, "capacity": AMOUNTS, "allocated": AMOUNTS,
    "attributes": {"os": "linux", "arch": "arm64", "paceline/health": "yes"},
}  # fmt: skip
JOB_FILE = "pool: /maps/tiles\ncommand: [ls]\njob_id: {}\n"


def files(tmp_path, *ids: str) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text("---\n".join(JOB_FILE.format(each) for each in ids))
    return str(path)


def test_a_list_of_jobs(cli, cell):
    long = job("a-very-long-id-" + "x" * 100, "PENDING", reason={"code": "NO_HOSTS", "message": "no hosts"}, tasks={})
    cell.answer("GET", "/v1/jobs", {"jobs": [long, job("b")], "next_page_token": "T0K"})
    code, out, err = cli("job", "list", "--state", "running", "--label", "a:b", "--pool", "/maps/tiles")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["JOB", "STATE", "REASON", "POOL", "KIND", "TASKS", "RUNNING", "FAILED", "SUBMITTED"],
        [long["job_id"], *["PENDING", "NO_HOSTS", "/maps/tiles", "batch", "3", "0", "0", "3m12s", "ago"]],
        ["b", "RUNNING", "-", "/maps/tiles", "batch", "3", "2", "0", "3m12s", "ago"],
    ]
    assert err == "there are more; go on with: --page-token T0K\n"
    asked = cell.asked[-1]
    assert asked.query == {"state": "running", "pool": "/maps/tiles", "label": "a:b", "page_size": "100"}


def test_a_filter_by_a_pool_that_is_not_there_is_not_found(cli, cell):
    wrong = [{"pointer": "/query/pool", "message": "there is no pool /x; did you mean /y?"}]
    for words, path in ((("job", "list", "--pool", "/x"), "/v1/jobs"), (("pool", "list", "--pool", "/x"), "/v1/pools")):
        cell.problem("GET", path, 422, "NO_SUCH_POOL", wrong[0]["message"], errors=wrong)
        assert cli(*words) == (4, "", "paceline: there is no pool /x; did you mean /y? (NO_SUCH_POOL)\n")


def test_lists_have_what_their_options_say(cli, cell):
    for number in range(3):
        hosts = [HOST | {"host_id": f"h{2 * number + at}"} for at in range(1 if number == 2 else 2)]
        cell.answer("GET", "/v1/hosts", {"hosts": hosts, "next_page_token": f"t{number}"})
    words = ("host", "list", "-o", "name", "--state", "up", "--attribute", "a:b", "--text", "h", "--page-size", "2")
    assert cli(*words, "--limit", "5") == ((0, "h0\nh1\nh2\nh3\nh4\n", "there are more; go on with: --page-token t2\n"))
    asked = [(each.query["page_size"], each.query.get("page_token")) for each in cell.asked]
    assert asked == [("2", None), ("2", "t0"), ("1", "t1")]
    assert {each.query["attribute"] for each in cell.asked} == {"a:b"}
    cell.answer("GET", "/v1/jobs", {"jobs": [job("a", ended_at="2026-08-21T10:44:18.000Z")], "next_page_token": ""})
    columns = "job,owner,labels,priority,version,ended"
    assert cli("job", "list", "--columns", columns, "--no-header")[1].split() == (
        ["a", "ann", "team", "maps", "0", "1", "1s", "ago"]
    )


def test_columns_order_and_header_of_a_list(cli, cell):
    jobs = [
        job("a", instances=9, submitted_at="2026-08-21T10:44:00.000Z"),
        job("b", instances=10, submitted_at="2026-08-21T10:41:00.000Z", tasks={"running": None}),
        job("c", instances=2, submitted_at="2026-08-21T10:42:00.000Z"),
    ]
    cell.answer("GET", "/v1/jobs", {"jobs": jobs, "next_page_token": ""})

    def listed(*words: str) -> list[str]:
        return cli("job", "list", "--columns", "job", "--no-header", *words)[1].split()

    assert cli("job", "list", "--columns", "TASKS, job")[1] == "TASKS  JOB\n    9  a\n   10  b\n    2  c\n"
    assert listed("--sort", "tasks") == ["c", "a", "b"]
    assert listed("--sort=-tasks") == ["b", "a", "c"]
    assert listed("--sort", "submitted") == ["b", "c", "a"]
    cell.answer("GET", "/v1/hosts", {"hosts": [HOST | {"host_id": f"sim-{at}"} for at in (10, 9, 1)]})
    assert cli("host", "list", "--sort", "host", "-o", "table", "--columns", "host")[1].split()[1:] == [
        "sim-1",
        "sim-9",
        "sim-10",
    ]
    assert listed("--sort", "running") == ["b", "a", "c"]
    code, out, err = cli("job", "list", "--sort", "age")
    assert (code, out) == (2, "")
    assert "there is no column age; there are job, state, reason, pool" in err
    of_page = {name for name in COLUMNS if name != "cell"}
    assert set("".join(err.split("there are ")[1]).strip().split(", ")) == of_page


def test_times_in_the_zone_of_the_machine(cli, cell, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Copenhagen")
    time.tzset()
    try:
        cell.answer("GET", "/v1/jobs/a", job())
        assert "\nsubmitted  2026-08-21T12:41:07+02:00\n" in cli("job", "get", "a", "--local")[1]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_are_the_body_of_the_api(cli, cell, form):
    body = {"jobs": [job("a", labels={"é": "no", "n": "1"})], "next_page_token": ""}
    cell.answer("GET", "/v1/jobs", body)
    code, out, err = cli("job", "list", "-o", form)
    read = json.loads if form == "json" else YAML(typ="safe", pure=True).load
    assert (code, read(out), err) == (0, body, "")


@pytest.mark.parametrize("since", ["24h", "24h ago", "2026-08-20", "2026-08-20T10:44:07Z"])
def test_the_jobs_since_then_are_listed_however_the_time_is_written(cli, cell, since):
    cell.answer("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    assert cli("job", "list", "--since", since)[0] == 0
    assert cell.asked[-1].query["since"].endswith("Z")


def test_no_value_in_a_line_is_written_as_python_has_it():
    detail = {"outcomes": {"FAILED": 1}, "hosts": [{"host_id": "h1", "lacks": {"cpu": 2}}, ["h2", True]], "kept": False}
    assert output.words(detail) == "outcomes FAILED 1, hosts host_id h1 lacks cpu 2 h2 true, kept false"


def test_a_job(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job(reason={"code": "NO_HOST_FITS", "message": "no room"}))
    code, out, _ = cli("job", "get", "a", "--utc")
    assert code == 0
    assert (
        out
        == """\
job        a
state      RUNNING
reason     NO_HOST_FITS  no room
command    true
resources  -
pool       /maps/tiles
kind       batch
priority   0
owner      ann
labels     team maps
version    1
tasks      running 2, succeeded 1
submitted  2026-08-21T10:41:07Z
started    2026-08-21T10:41:08Z
ended      -
"""
    )


def test_why_a_job_waits(cli, cell):
    cell.answer("GET", "/v1/jobs/a/explanation", EXPLANATION)
    assert cli("job", "explain", "a") == (0, """\
job a  PENDING  ENTITLEMENT_REACHED  3 tasks wait
  who can act: nobody, wait
  since       3m12s ago
  pool        /maps
  asked       cpu 0.5
  pool holds  cpu 3.9
  may use     cpu 4
  ahead       7 tasks of 2 jobs
  hosts       h1
  order       7
  until       now
  round       entitlement 12
  also NO_HOST_FITS  1 task finds no room
  hosts       412 looked at: 400 lack cpu, 12 are silent
  nearest     h17 short of cpu 0.1
  missing     3-5
  round       placement 40
""", "")  # fmt: skip


def test_the_tasks_of_a_job_page_by_page(cli, cell):
    cell.answer("GET", "/v1/jobs/a/tasks", {"tasks": TASKS[:1], "next_page_token": "more"})
    cell.answer("GET", "/v1/jobs/a/tasks", {"tasks": TASKS[1:], "next_page_token": ""})
    assert cli("job", "tasks", "a") == (0, """\
TASK  STATE      RUN  VERSION  HOST  PORTS         EXIT  OUTCOME    REASON
   0  SUCCEEDED    1        1  h1    -                0  SUCCEEDED  -
   1  RUNNING      2        2  h2    31000, 31001     -  -          out of luck
""", "")  # fmt: skip
    assert [each.query.get("page_token") for each in cell.asked] == [None, "more"]


def test_the_runs_of_a_task(cli, cell):
    first = {
        "run": 1, "state": "ENDED", "version": 1, "host_id": "h1", "outcome": "FAILED", "exit_code": 137,
        "reason": None, "health": None, "signal": "KILL", "out_of_memory": True, "cpu_ms": 1520, "memory_kib": 4096,
        "ordered_at": "2026-08-21T10:41:07.000Z", "started_at": "2026-08-21T10:41:08.000Z",
        "ended_at": "2026-08-21T10:44:18.000Z",
    }  # fmt: skip
    second = {
        **first,
        "run": 2,
        "state": "ORDERED",
        **dict.fromkeys(("outcome", "exit_code", "signal", "cpu_ms", "memory_kib", "started_at", "ended_at")),
        "out_of_memory": False,
    }
    cell.answer("GET", "/v1/jobs/a/tasks/0/runs", {"runs": [second, first]})
    code, shown, _ = cli("job", "runs", "a", "0", "--utc")
    assert code == 0
    assert [line.split() for line in shown.splitlines()] == [line.split() for line in (
        "RUN STATE VERSION HOST EXIT OUTCOME CPU S MEMORY MIB ORDERED STARTED ENDED REASON",
        "2 ORDERED 1 h1 - - - - 2026-08-21T10:41:07Z - - -",
        "1 ENDED 1 h1 KILL FAILED 1.5 4 2026-08-21T10:41:07Z 2026-08-21T10:41:08Z 2026-08-21T10:44:18Z out of memory",
    )]  # fmt: skip


def test_the_history_of_a_job(cli, cell):
    events = [
        {"position": "paceline.jobs:0", "at": "2026-08-21T10:41:07.000Z", "machine": None, "round": None,
         "index": None, "event": "JobSubmitted", "text": "submitted to /maps",
         "detail": {"pool": "/maps"}},
        {"position": "paceline.lifecycle:1", "at": "2026-08-21T10:44:18.000Z", "machine": "lifecycle", "round": 3,
         "index": 0, "event": "RunsOrdered", "text": "2 runs ordered on h1, h2",
         "detail": {"hosts": ["h1", "h2"], "run": 1, "cause": "", "x": None}},
    ]  # fmt: skip
    cell.answer("GET", "/v1/jobs/a/history", {"events": events, "next_page_token": ""})
    assert cli("job", "history", "a") == (0, """\
AT         WHO        ROUND  EVENT         WHAT
3m12s ago  user           -  JobSubmitted  submitted to /maps
1s ago     lifecycle      3  RunsOrdered   2 runs ordered on h1, h2
""", "")  # fmt: skip
    detail = cli("job", "history", "a", "--columns", "detail", "--no-header")[1]
    assert detail.splitlines() == ["pool /maps", "hosts h1 h2, run 1"]


def test_orders_of_a_round_that_are_alike_are_one_line_of_the_history(cli, cell):
    def order(number, **detail):
        shared = {"order": number, "code": "BELOW_ENTITLEMENT", "for_job": "w", "for_pool": "/b"}
        return {"position": f"paceline.entitlement:{number}", "at": "2026-08-21T10:44:18.000Z",
                "machine": "entitlement", "round": 3, "index": number, "event": "PreemptionsOrdered",
                "text": "preempted",
                "detail": {**shared, **detail}}  # fmt: skip

    lost = [order(number, tasks=1, from_pool="/a", ways=["GIVE"], instance=number, run=1) for number in range(1, 4)]
    other = order(4, tasks=2, from_pool="/a", ways=["OWN"], instance=9, run=1)
    later = {**lost[0], "event": "HostsReserved", "detail": {"until_ms": 1787309457000}}
    cell.answer("GET", "/v1/jobs/a/history", {"events": [*lost, other, later], "next_page_token": ""})
    out = cli("job", "history", "a", "--columns", "detail", "--no-header")[1]
    assert out.splitlines() == [
        "orders 1-3, code BELOW_ENTITLEMENT, for_job w, for_pool /b, tasks 3, from_pool /a, ways GIVE",
        "order 4, code BELOW_ENTITLEMENT, for_job w, for_pool /b, tasks 2, from_pool /a, ways OWN, instance 9, run 1",
        "until 2026-08-21T10:50:57Z",
    ]
    what = cli("job", "history", "a", "--columns", "what", "--no-header")[1]
    assert what.splitlines() == ["preempted; and 2 more orders like it", "preempted", "preempted"]


@examples(40)
@given(SPECS)
def test_a_job_gives_its_file_back_and_that_is_the_same_job(spec):
    """Submitted again it is a repeat, not another job."""
    event = JobSpec.model_validate(spec).to_event("a")
    again = without_defaults(from_event(event, STANDARD))
    assert JobSpec.model_validate(again).to_event("a").spec_hash == event.spec_hash


def test_the_file_of_a_job_is_yaml_without_defaults(cli, cell, tmp_path):
    (tmp_path / "a.yaml").write_text("job_id: a\npool: /maps\ncommand: [sh, -c, ls]\nresources: {cpu: 0.5}\n")
    [file] = read_jobs([str(tmp_path / "a.yaml")])
    body = from_event(file.spec.to_event("a"), STANDARD)
    cell.answer("GET", "/v1/jobs/a", {**job("a"), "spec": body})
    out = cli("job", "spec", "a")[1]
    assert out == "job_id: a\npool: /maps\ncommand:\n- sh\n- -c\n- ls\nresources:\n  cpu: 0.5\n"
    assert cell.asked[-1].query == {"overrides": "true"}
    assert json.loads(cli("job", "spec", "a", "--all", "-o", "json")[1]) == body
    assert "its file: paceline job spec a\n" in cli("job", "get", "a")[2]


def test_times_in_sentences_are_times_of_day_with_their_distance(cli, cell):
    message = "tried again at 2026-08-21T10:46:19.000Z; allowed since 2026-08-20T10:44:19Z"
    cell.answer("GET", "/v1/jobs/a", job("a", reason={"code": "BACKOFF", "message": message}))
    shown = cli("job", "get", "a")[1]
    assert "tried again at 10:46:19Z (in 2m0s); allowed since 2026-08-20 10:44:19Z (1d0h ago)" in shown
    utc = cli("job", "get", "a", "--utc")[1]
    assert "tried again at 2026-08-21T10:46:19Z; allowed since 2026-08-20T10:44:19Z" in utc


def test_a_deleted_job_is_told_to_be_deleted(cli, cell):
    answer = {"position": "paceline.jobs:1", "command_id": "c", "code": "DONE", "message": "the job is forgotten"}
    cell.answer("DELETE", "/v1/jobs/a", answer)
    assert cli("job", "delete", "a")[1] == "job a is deleted; its history stays in the log\n"
    forced = cli("job", "delete", "a", "--force")[1]
    assert forced == "job a is deleted once its tasks have stopped; its history stays in the log\n"


def test_tasks_of_a_stateful_job_wait_their_turn(cli, cell):
    waiting = {**job("a", state="PENDING"), "reason": {"code": "STARTS_IN_ORDER", "message": ""}}
    waiting["tasks"] = {"ordered": 1, "backoff": 2}
    assert counts(waiting) == "0/3 ended · 1 ordered · 2 waiting their turn"
    assert counts({**waiting, "reason": None}) == "0/3 ended · 1 ordered · 2 backoff"


def test_submitting_sends_what_was_written_and_says_what_to_do_next(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs", job("x"))
    code, out, err = cli("job", "submit", files(tmp_path, "x"))
    assert (code, out) == (0, "job x submitted to /maps/tiles\n")
    assert err == "follow with: paceline job wait x\n"
    [sent] = cell.writes()
    assert sent.body == {"pool": "/maps/tiles", "command": ["ls"], "job_id": "x"}
    assert sent.headers["authorization"] == "Bearer secret"
    assert sent.query["wait"] == "10000ms"


def test_one_wrong_job_and_nothing_is_submitted(cli, cell, tmp_path):
    path = tmp_path / "jobs.yaml"
    cell.answer("GET", "/v1/pools", {"pools": [POOL]})
    cell.problem("POST", "/v1/job-batches", 422, "INVALID_SPEC", "1 of 2 jobs are refused")
    path.write_text(JOB_FILE.format("x") + "---\npool: /maps\n")
    code, out, err = cli("job", "submit", str(path))
    assert (code, out, cell.asked[0].query["all_or_nothing"]) == (1, "", "true")
    assert err.splitlines() == [
        f"paceline: {path}:5:1: /command: must name a program",
        f"{path}:5:1: /pool: there is no pool /maps; define it first, or choose another; did you mean /maps/tiles?",
    ]


def test_what_the_cell_refuses_is_told_by_line_and_nothing_is_submitted(cli, cell, tmp_path):
    errors = [{"pointer": "/jobs/1/pool", "message": "there is no pool /maps/tiles"}]
    errors += [{"pointer": "/jobs/2", "message": "another job has this id (ID_TAKEN)"}]
    cell.problem("POST", "/v1/job-batches", 422, "NO_SUCH_POOL", "2 of 3 jobs are refused", errors=errors)
    path = files(tmp_path, "x", "y", "z")
    code, out, err = cli("job", "submit", path)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"paceline: {path}:5:1: /pool: there is no pool /maps/tiles",
        f"{path}:9:1: another job has this id (ID_TAKEN)",
    ]
    [asked] = cell.writes()
    assert ([each["job_id"] for each in asked.body["jobs"]], asked.query["all_or_nothing"]) == (["x", "y", "z"], "true")


def test_a_number_that_json_cannot_hold_is_told_by_its_line(cli, cell, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(JOB_FILE.format("x") + "priority: .inf\n")
    cell.answer("GET", "/v1/pools", {"pools": [POOL]})
    code, _, err = cli("job", "submit", str(path))
    assert (code, cell.writes()) == (1, [])
    assert err.startswith(f"paceline: {path}:4:1: /priority: must be a")


def test_a_dry_run_shows_what_would_be_written(cli, cell, tmp_path):
    event = {"event": "JobSubmitted", "job_id": "x", "pool": "/maps/tiles", "kind": "batch", "instances": 2}
    event |= {"resources": {"cpu": 1500, "memory": 64, "disk": 0}, "command": ["sh", "-c", "ls -l"], "priority": 7}
    body = {"job_id": "x", "events": [event]}
    cell.answer("POST", "/v1/jobs?dry_run", body)
    plan = planned("x")
    cell.answer("POST", "/v1/job-plans", plan)
    path = files(tmp_path, "x")
    told = (
        "job x would be submitted: 2 tasks would get a host at once\n"
        "  writes JobSubmitted: batch in /maps/tiles, 2 tasks, cpu 1.5, memory 64MiB, priority 7, sh -c 'ls -l'\n"
    )
    assert cli("job", "submit", "--dry-run", path) == (0, told, "")
    code, out, _ = cli("job", "submit", "--dry-run", "-o", "json", path)
    assert (code, json.loads(out), cell.writes()) == (0, {**body, "plan": plan}, [])


def test_a_dry_run_refuses_what_the_machines_would_refuse(cli, cell, tmp_path):
    refused = planned("y", outcome="REFUSED", code="POOL_CLOSED", message="pool /maps/tiles is closed")
    cell.answer("POST", "/v1/job-plans", {"plans": [planned("x"), refused]})
    path = files(tmp_path, "x", "y")
    code, out, err = cli("job", "submit", "--dry-run", path)
    assert (code, out, cell.writes()) == (1, "", [])
    assert err == f"paceline: {path}:5:1: pool /maps/tiles is closed (POOL_CLOSED)\n"


def test_a_dry_run_checks_where_nobody_plans(cli, cell, tmp_path):
    cell.problem("POST", "/v1/job-plans", 503, "NO_PLANS", "nobody plans here")
    code, out, err = cli("job", "submit", "--dry-run", files(tmp_path, "x"))
    assert (code, out) == (0, "job x would be submitted\n")
    assert err == "paceline: job x: nobody plans here (NO_PLANS)\n"


def planned(job_id, **more):
    host = {"host_id": "h-1", "tasks": 2, "instances": "0-1", "after_s": 0.0}
    plan = {
        "job_id": job_id, "pool": "/p", "cell": 0, "outcome": "PLACED", "code": "DONE", "message": "", "tasks": 2,
        "placed_at_once": 2, "placed": 2, "waiting": 0, "hosts": [host], "preempts": [], "reasons": [],
        "later_reasons": [], "update": None, "at": None, "position": "", "looked_ahead_s": 0.0, "cut_short": False,
    }  # fmt: skip
    return plan | more


def test_a_plan_shows_hosts_victims_and_what_waits(cli, cell, tmp_path):
    victim = {"job_id": "v", "pool": "/q", "instance": 7, "run": 1, "host_id": "h-1", "way": "GIVE", "after_s": 10.0}
    reasons = [{"code": "NO_HOST_FITS", "message": "1 task finds no host"}]
    plan = planned(
        "x", outcome="PARTLY_PLACED", placed=1, placed_at_once=0, waiting=1, looked_ahead_s=150.0, reasons=reasons,
        later_reasons=[{"code": "NO_HOST_FITS", "message": "it finds none"}], preempts=[{**victim, "deferred": True}],
        hosts=[{"host_id": "h-1", "tasks": 1, "instances": "0", "after_s": 12.5}],
    )  # fmt: skip
    cell.answer("POST", "/v1/job-plans", plan)
    code, out, err = cli("job", "plan", files(tmp_path, "x"))
    assert (code, cell.writes()) == (1, [])
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "job x PARTLY_PLACED 1 of 2 tasks would get a host within 12.5 s, 1 would wait",
        "not placed now: NO_HOST_FITS 1 task finds no host",
        "after 150 s: NO_HOST_FITS it finds none",
        "HOST TASKS INSTANCES AFTER",
        "h-1 1 0 12.5 s",
        "it would preempt:",
        "JOB POOL TASK RUN HOST BY AFTER SLA",
        "v /q 7 1 h-1 GIVE 10 s deferred",
    ]
    assert err == "nothing was written; submit with: paceline job submit FILE\n"


def test_a_plan_that_places_all_ends_with_0_and_one_that_is_refused_with_2(cli, cell, tmp_path):
    cell.answer("POST", "/v1/job-plans", planned("x"))
    cell.answer("POST", "/v1/job-plans", planned("x", outcome="REFUSED", code="ID_TAKEN", message="another has it"))
    path = files(tmp_path, "x")
    assert cli("job", "plan", path, "-o", "name")[:2] == (0, "x\n")
    code, out, err = cli("job", "plan", path)
    assert (code, out.splitlines()[0]) == (2, "job x  REFUSED  another has it (ID_TAKEN)")
    assert err == "nothing was written\n", "no command would take it"


def test_a_plan_of_an_update_says_how_to_update(cli, cell, tmp_path):
    update = {"version": 2, "state": "SUCCEEDED", "steps": {"done": 1}}
    cell.answer("POST", "/v1/job-plans", planned("x", outcome="UPDATED", update=update))
    cell.answer("POST", "/v1/job-plans", planned("x", outcome="REPEATED"))
    _, _, err = cli("job", "plan", files(tmp_path, "x"))
    assert err == "nothing was written; update with: paceline job update FILE\n"
    assert cli("job", "plan", files(tmp_path, "x"))[2] == "nothing was written\n"


@pytest.mark.parametrize("outcome", ["UPDATED", "REPEATED"])
def test_a_plan_by_which_a_task_waits_ends_with_1_whatever_its_outcome(cli, cell, tmp_path, outcome):
    steps = {"update": {"steps": {"done": 2}, "version": 2, "state": "SUCCEEDED"}} if outcome == "UPDATED" else {}
    for waiting in (0, 1):
        cell.answer("POST", "/v1/job-plans", planned("x", outcome=outcome, waiting=waiting, **steps))
    path = files(tmp_path, "x")
    assert [cli("job", "plan", path)[0] for _ in range(2)] == [0, 1]


def test_a_plan_of_an_invalid_file_ends_with_2(cli, cell, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("{job_id: x, pool: /p, instances: many}")
    cell.answer("GET", "/v1/pools", {"pools": [{"path": "/p"}], "next_page_token": None})
    code, _, err = cli("job", "plan", str(path))
    assert (code, err.startswith(f"paceline: {path}:1:")) == (2, True)


def test_several_jobs_are_planned_by_one_request(cli, cell, tmp_path):
    reasons = [{"code": "NO_HOST_FITS", "message": "none"}]
    late = planned("y", outcome="WAITS", placed=0, waiting=2, later_reasons=reasons)
    cell.answer("POST", "/v1/job-plans", {"plans": [planned("x"), late]})
    path = files(tmp_path, "x", "y")
    code, out, _ = cli("job", "plan", path)
    assert (code, [line.split()[:3] for line in out.splitlines() if line.startswith("job")]) == (
        1,
        [["job", "x", "PLACED"], ["job", "y", "WAITS"]],
    )
    [asked] = [each for each in cell.asked if each.path == "/v1/job-plans"]
    assert [each["job_id"] for each in asked.body["jobs"]] == ["x", "y"]
    out = cli("job", "submit", "--dry-run", path)[1]
    assert "job y would be submitted: 0 of 2 tasks would get a host at once, 2 would wait\n  NO_HOST_FITS  none" in out
    assert len([each for each in cell.asked if each.path == "/v1/job-plans"]) == 2


def test_what_is_wrong_with_one_of_several_is_told_by_its_line(cli, cell, tmp_path):
    faults = [{"pointer": "/jobs/1/pool", "message": "there is no pool /maps/tiles"}]
    cell.problem("POST", "/v1/job-plans", 422, "INVALID_SPEC", "no", errors=faults)
    path = files(tmp_path, "x", "y")
    code, _, err = cli("job", "plan", path)
    assert (code, err) == (2, f"paceline: {path}:5:1: /pool: there is no pool /maps/tiles\n")


def test_a_job_that_only_the_machines_refuse_is_told_and_the_others_are_there(cli, cell, tmp_path):
    problem = {"code": "OPEN_JOBS_MAX", "detail": "pool /maps/tiles has 7 jobs"}
    jobs = [{"job_id": "x", "status": 429, "problem": problem}]
    jobs += [{"job_id": "y", "status": 200, "state": "RUNNING", "repeated": True}]
    cell.answer("POST", "/v1/job-batches", {"jobs": jobs, "position": ""})
    code, out, err = cli("job", "submit", files(tmp_path, "x", "y"))
    assert (code, out) == (1, "job y was there before\n")
    assert "job x: pool /maps/tiles has 7 jobs (OPEN_JOBS_MAX)" in err


def test_many_jobs_of_one_json_file_are_one_request_and_a_summary(cli, cell, tmp_path):
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps([{"pool": "/maps/tiles", "command": ["ls"], "job_id": f"j{n}"} for n in range(503)]))
    jobs = [{"job_id": f"j{n}", "status": 201, "state": "PENDING", "warnings": ["w"]} for n in range(503)]
    jobs[1] = {"job_id": "j1", "status": 200, "state": "SUCCEEDED", "repeated": True}
    jobs[2] = {"job_id": "j2", "status": 200, "state": "KILLED", "repeated": True}
    cell.answer("POST", "/v1/job-batches", {"jobs": jobs, "position": "paceline.jobs:7"})
    code, out, err = cli("job", "submit", str(path))
    assert (code, out.splitlines()) == (0, [
        "501 jobs submitted to /maps/tiles",
        "2 jobs were there before",
        "  job j2 was there before and is KILLED; `paceline job start j2` runs its tasks again, "
        "`paceline job delete j2` forgets it",
    ])  # fmt: skip
    assert err.splitlines() == [
        "paceline: job j0 and 500 more jobs: w",
        "follow with: paceline job list --pool /maps/tiles",
    ]
    assert len(cell.asked) == 1
    assert len(cli("job", "submit", "-o", "name", str(path))[1].splitlines()) == 503


@pytest.mark.parametrize(("words", "goal"), [(["--wait"], "ended"), (["--wait=running"], "running")])
def test_submitting_may_wait(cli, cell, tmp_path, words, goal):
    cell.answer("POST", "/v1/jobs", job("x", "PENDING"))
    cell.answer("GET", "/v1/jobs/x", job("x", "PENDING", tasks={"queued": 3}))
    cell.answer("GET", "/v1/jobs/x", job("x", "RUNNING", tasks={"running": 3}))
    cell.answer("GET", "/v1/jobs/x", job("x", "SUCCEEDED", tasks={"succeeded": 3}))
    code, _, err = cli("job", "submit", *words, files(tmp_path, "x"))
    assert code == 0
    assert err.splitlines() == [
        "x  PENDING  0/3 ended · 3 queued",
        "x  RUNNING  0/3 ended · 3 running",
        *(["x  SUCCEEDED  3/3 ended"] if goal == "ended" else []),
    ]


def test_a_wait_ends_when_the_update_that_was_to_create_the_job_has_failed(cli, cell, tmp_path):
    create = {"kind": "create", "state": "ROLLING", "ended_at": None, "message": ""}
    failed = {**create, "state": "FAILED", "ended_at": "2026-08-21T10:44:00.000Z", "message": "1 instance failed"}
    cell.answer("POST", "/v1/jobs", job("x", "PENDING"))
    cell.answer("GET", "/v1/jobs/x", job("x", "PENDING", update=create))
    cell.answer("GET", "/v1/jobs/x", job("x", "PENDING", update=failed))
    code, _, err = cli("job", "submit", "--wait=running", "--timeout", "60s", files(tmp_path, "x"))
    assert (code, err.splitlines()[-2:]) == (
        1,
        ["job x PENDING: 1 instance failed", "look with: paceline job get x"],
    )


@pytest.mark.parametrize(("state", "option"), [("FAILED", " --failed"), ("KILLED", "")])
def test_a_job_that_is_submitted_again_and_has_not_succeeded_says_how_it_runs_again(cli, cell, tmp_path, state, option):
    cell.answer("POST", "/v1/jobs", job("x", state, repeated=True))
    assert cli("job", "submit", files(tmp_path, "x"))[1] == (
        f"job x was there before and is {state}; `paceline job start x{option}` runs its tasks again, "
        "`paceline job delete x` forgets it\n"
    )


def test_failed_instances_are_started_by_one_option(cli, cell):
    cell.answer("POST", "/v1/jobs/x/starts", {"code": "DONE", "message": "running 1 of 3 tasks again"})
    assert cli("job", "start", "x", "--failed")[:2] == (0, "job x: running 1 of 3 tasks again\n")
    assert (cell.writes()[0].body["failed"], "instances" in cell.writes()[0].body) == (True, False)
    assert cli("job", "start", "x", "--failed", "--instances", "1")[0] == 2


FILTERED = {"pool": "/maps", "label": "team:maps", "state": "SUBMITTED,PENDING,RUNNING"}
VERBS = [("stop", "stops"), ("hold", "holds"), ("release", "releases"), ("restart", "restarts")]


@pytest.mark.parametrize(("verb", "noun"), VERBS)
def test_a_filter_chooses_jobs_each_is_answered_and_a_refusal_counts(cli, cell, verb, noun):
    jobs = [job(f"j{number}") for number in range(12)]
    cell.answer("GET", "/v1/jobs", {"jobs": jobs, "next_page_token": ""})
    for each in jobs:
        cell.answer("POST", f"/v1/jobs/{each['job_id']}/{noun}", {"code": "DONE", "message": "", "update": None})
    cell._answers["POST", f"/v1/jobs/j7/{noun}"].clear()
    cell.problem("POST", f"/v1/jobs/j7/{noun}", 409, "NOT_IN_THIS_STATE", "job j7 can't")
    words = ("job", verb, "--pool", "/maps", "--label", "team:maps", "--reason", "moving")
    code, out, err = cli(*words)
    assert (code, out, cell.writes()) == (2, "", []), "nobody can be asked"
    assert f"12 jobs match: to {verb}, add --yes" in err
    assert {name: cell.asked[-1].query[name] for name in FILTERED} == FILTERED
    code, out, err = cli(*words, "--yes")
    assert code == 1
    assert [line.split()[1] for line in out.splitlines()] == [each["job_id"] for each in jobs if each["job_id"] != "j7"]
    assert "12 jobs match" in err
    assert "job j7 can't (NOT_IN_THIS_STATE)" in err
    assert {each.body["reason"] for each in cell.writes()} == {"moving"}
    assert len(json.loads(cli(*words, "--yes", "-o", "json")[1])) == 11


def test_a_filter_that_matches_nothing_does_nothing(cli, cell):
    cell.answer("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    told = (0, "", "no unfinished job matches; use --state to include ended jobs\n")
    assert cli("job", "stop", "--owner", "ann", "--yes") == told
    for words, said in (([], "name jobs, or choose them"), (["a", "--pool", "/p"], "either IDs or filters, not both")):
        code, _, err = cli("job", "stop", *words)
        assert (code, said in err) == (2, True)


def test_several_jobs_get_another_priority(cli, cell):
    for name in "ab":
        cell.answer("POST", f"/v1/jobs/{name}/priorities", {"code": "DONE", "message": ""})
    out = "job a has priority -5 now\njob b has priority -5 now\n"
    assert cli("job", "priority", "a", "b", "-5")[:2] == (0, out)


def test_names_are_for_pipes(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs", job("x"))
    assert cli("job", "submit", "-o", "name", files(tmp_path, "x", "y"))[:2] == (0, "x\ny\n")


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", YAML(typ="safe", pure=True).load)])
def test_several_answers_are_one_document(cli, cell, tmp_path, form, read):
    pools = tmp_path / "pools.yaml"
    pools.write_text("- {path: /a}\n- {path: /b}\n")
    for name in "ab":
        cell.answer("PUT", f"/v1/pools/{name}", {"code": "DONE", "path": f"/{name}"})
        cell.answer("POST", "/v1/jobs", job(name))
        cell.answer("POST", f"/v1/jobs/{name}/stops", {"code": "DONE", "job_id": name})
    jobs = files(tmp_path, "a", "b")
    for words, key in [
        (("pool", "apply", str(pools)), "path"),
        (("job", "submit", jobs), "job_id"),
        (("job", "stop", "a", "b"), "job_id"),
    ]:
        code, out, _ = cli(*words, "-o", form)
        assert (code, [each[key].strip("/") for each in read(out)]) == (0, ["a", "b"])
    assert read(cli("job", "stop", "a", "-o", form)[1])["job_id"] == "a", "one answer is itself"


def test_a_job_that_does_not_run_in_time_is_3(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs", job("x", "PENDING"))
    cell.answer("GET", "/v1/jobs/x", job("x", "PENDING"))
    cell.answer("GET", "/v1/jobs/x/explanation", EXPLANATION)
    path = files(tmp_path, "x")
    code, _, err = cli("job", "submit", "--wait=running", "--timeout", "150ms", path)
    late = "paceline: x: not running after 0.15 s; the wait ended, the job goes on."
    assert (code, err.splitlines()[-2:]) == (3, [late, "  x: ENTITLEMENT_REACHED 3 tasks wait"])
    assert cli("job", "submit", "--wait", "--timeout", "150ms", path)[0] == 124


def test_stopping_says_what_was_answered(cli, cell):
    cell.answer(
        "POST",
        "/v1/jobs/x/stops",
        {"code": "DONE", "message": "stopping 1 instance", "position": "paceline.jobs:3"},
    )
    cell.answer("GET", "/v1/jobs/x", job("x", "KILLED"))
    code, out, _ = cli("job", "stop", "x", "--reason", "done with it", "--wait")
    assert (code, out) == (0, "job x: stopping 1 instance\n")
    assert cell.writes()[0].body["reason"] == "done with it"
    assert cell.asked[-1].headers["at-least-position"] == "paceline.jobs:3"


def test_a_priority_is_changed_to_any_number_and_says_what_was_answered(cli, cell):
    path = "/v1/jobs/x/priorities"
    cell.answer("POST", path, {"code": "DONE", "message": "", "position": "paceline.jobs:3"})
    cell.answer("POST", path, {"code": "REPEATED", "message": "the priority of the job is 5 already"})
    cell.problem("POST", path, 409, "ALREADY_ENDED", "the job is KILLED")
    assert cli("job", "priority", "x", "-5", "--reason", "no hurry")[:2] == (0, "job x has priority -5 now\n")
    body = cell.writes()[0].body
    assert (body["priority"], body["reason"], body["command_id"][:8]) == (-5, "no hurry", "command-")
    assert cli("job", "priority", "x", "5")[:2] == (0, "job x: the priority of the job is 5 already\n")
    assert cli("job", "priority", "x", "high")[0] == 2
    assert cli("job", "priority", "x", "1")[::2] == (1, "paceline: job x: the job is KILLED (ALREADY_ENDED)\n")


def test_output_is_read_piece_by_piece_until_the_run_has_ended(cli, cell):
    path = "/v1/jobs/a/tasks/2/log"
    cell.answer("GET", path, b"one\n", Log_Offset="0", Log_Next_Offset="4", Log_Ended="0")
    cell.answer("GET", path, b"", Log_Offset="4", Log_Next_Offset="4", Log_Ended="0")
    cell.answer("GET", path, b"two\n", Log_Offset="6", Log_Next_Offset="10", Log_Ended="0")
    cell.answer("GET", path, b"", Log_Offset="10", Log_Next_Offset="10", Log_Ended="1")
    code, out, err = cli("job", "logs", "a", "--task", "2", "--run", "1", "--stderr", "--follow")
    assert (code, out) == (0, "one\ntwo\n")
    assert err == "the first 2 bytes from 4 on are not kept any more\n"
    assert cell.asked[0].query == {"run": "1", "stream": "stderr", "offset": "0"}
    assert cell.asked[-1].query["offset"] == "10"


def test_output_without_follow_ends_where_it_ends_now(cli, cell):
    path = "/v1/jobs/a/tasks/0/log"
    cell.answer("GET", path, b"one", Log_Offset="0", Log_Next_Offset="3", Log_Ended="0")
    cell.answer("GET", path, b"", Log_Offset="3", Log_Next_Offset="3", Log_Ended="0")
    cell.answer("GET", "/v1/jobs/a", job("a", instances=1))
    assert cli("job", "logs", "a", "--stdout") == (0, "one", "")


def test_the_output_of_several_tasks_has_the_task_before_each_line(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job("a", instances=3))
    for task, text in ((0, b"one\ntwo\n"), (1, b"half")):
        ends = {"Log_Next_Offset": str(len(text)), "Log_End": str(len(text)), "Log_Ended": "1"}
        cell.answer("GET", f"/v1/jobs/a/tasks/{task}/log", text, Log_Offset="0", **ends)
    cell.problem("GET", "/v1/jobs/a/tasks/2/log", 404, "NO_OUTPUT", "run 1 of task 2 of job a has no host yet")
    code, out, err = cli("job", "logs", "a", "--stdout")
    assert (code, out) == (0, "0 | one\n0 | two\n1 | half\n")
    assert err == "task 2: run 1 of task 2 of job a has no host yet (NO_OUTPUT)\n"
    cell.answer("GET", "/v1/jobs/b", job("b", instances=40))
    assert cli("job", "logs", "b", "-f")[0] == 2
    cell.answer("GET", "/v1/jobs/c", job("c", instances=2))
    for task in (0, 1):
        cell.problem("GET", f"/v1/jobs/c/tasks/{task}/log", 404, "NO_OUTPUT", "its runs write no output")
    assert cli("job", "logs", "c")[0] == 4


def test_validating_needs_no_cell(cli, tmp_path):
    assert cli("job", "validate", files(tmp_path, "x", "y")) == (0, "2 jobs are well formed\n", "")
    assert json.loads(cli("job", "schema")[1])["properties"]["pool"]


def test_applying_pools_says_what_is_new_or_changed(cli, cell, tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("""\
- {path: /maps/tiles, reservation: {cpu: 1500m, memory: 2GiB}}
- {path: /maps/routes, share: 2}
- {path: /maps, reservation: {cpu: 3}}
""")
    cell.answer("GET", "/v1/pools/maps/tiles", POOL)
    cell.answer("GET", "/v1/pools/maps", POOL | {"path": "/maps"})
    cell.answer("PUT", "/v1/pools/maps", {"code": "DONE", "message": "more is reserved than there is"})
    cell.answer("PUT", "/v1/pools/maps/tiles", {"code": "REPEATED", "message": "as before"})
    cell.answer("PUT", "/v1/pools/maps/routes", {"code": "DONE", "message": ""})
    code, out, err = cli("pool", "apply", str(path), "--reason", "more for maps")
    assert err == "more is reserved than there is\n"
    assert (code, out) == (0, "pool /maps changed\npool /maps/routes created\npool /maps/tiles unchanged\n")
    first, *others = cell.writes()
    writes = [first, *sorted(others, key=lambda each: each.path)]
    match = [(each.headers.get("if-match"), each.headers.get("if-none-match")) for each in writes]
    assert match == [(f'"{POOL["position"]}"', None), (None, "*"), (f'"{POOL["position"]}"', None)]
    assert [(each.path, each.body) for each in writes] == [
        ("/v1/pools/maps", {"reservation": {"cpu": 3}}),
        ("/v1/pools/maps/routes", {"share": 2}),
        ("/v1/pools/maps/tiles", {"reservation": {"cpu": "1500m", "memory": "2GiB"}}),
    ]


def test_a_pool_that_somebody_else_changed_is_not_overwritten(cli, cell, tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("{path: /maps, share: 2}")
    cell.answer("GET", "/v1/pools/maps", POOL)
    cell.problem("PUT", "/v1/pools/maps", 412, "VERSION_CONFLICT", "pool /maps is of paceline.pools:9 now")
    code, _, err = cli("pool", "apply", str(path), "--expected", "paceline.pools:3", "--reason", "r")
    assert (code, err) == (5, "paceline: pool /maps is of paceline.pools:9 now (VERSION_CONFLICT)\n")
    assert cell.writes()[0].headers["if-match"] == '"paceline.pools:3"'
    cli("pool", "apply", str(path), "--expected", "*", "--reason", "r")
    assert cell.writes()[1].headers["if-match"] == "*"
    path.write_text("- {path: /maps}\n- {path: /else}")
    assert cli("pool", "apply", str(path), "--expected", "paceline.pools:3", "--reason", "r")[0] == 2


def test_a_pool_is_applied_to_the_cell_of_its_file(cli, cell, tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("{path: /far, cell: 1}")
    cell.answer("PUT", "/v1/pools/far", {"code": "DONE", "message": ""}, Log_Cell="1")
    assert cli("pool", "apply", str(path))[:2] == (0, "pool /far created\n")
    assert [each.body for each in cell.writes()] == [{"cell": 1}]
    path.write_text("{path: /far, cell: -1}")
    assert "/cell: must be greater than or equal to 0" in cli("pool", "apply", str(path))[2]


def test_a_pool_of_a_cell_that_the_server_does_not_serve(cli, cell, tmp_path):
    cell.problem("GET", "/v1/pools/far", 409, "WRONG_CELL", "pool /far belongs to cell 1; ask there", cell=1)
    code, _, err = cli("pool", "get", "/far")
    assert (code, err) == (1, "paceline: pool /far belongs to cell 1; ask there (WRONG_CELL)\n")


@pytest.mark.parametrize(
    ("words", "method", "path", "body"),
    [
        (("job", "get", "a"), "GET", "/v1/jobs/a", job()),
        (("job", "stop", "a", "--reason", "r"), "POST", "/v1/jobs/a/stops", {"code": "DONE"}),
        (("job", "priority", "a", "3", "--reason", "r"), "POST", "/v1/jobs/a/priorities", {"code": "DONE"}),
        (("pool", "remove", "/p", "--reason", "r"), "DELETE", "/v1/pools/p", {"code": "DONE"}),
        (("host", "confirm-loss", "h1", "--yes"), "POST", "/v1/hosts/h1/loss-confirmations", {"code": "DONE"}),
        (("host", "remove", "h1"), "POST", "/v1/hosts/h1/removals", {"code": "DONE"}),
        (("host", "clear", "h1"), "POST", "/v1/hosts/h1/clearances", {"code": "DONE"}),
    ],
)
def test_a_cell_may_be_named(cli, cell, words, method, path, body):
    cell.answer(method, path, body)
    assert cli(*words)[0] == 0
    assert cli(*words, "--cell", "3")[0] == 0
    assert [each.query.get("cell") for each in cell.asked] == [None, "3"]


def test_lists_over_several_cells_name_them(cli, cell):
    cell.answer("GET", "/v1/hosts", {"hosts": [HOST | {"cell": 0}, HOST | {"cell": 1}], "next_page_token": ""})
    lines = cli("host", "list")[1].splitlines()
    assert [line.split()[-1] for line in lines] == ["CELL", "0", "1"]
    cell.answer("GET", "/v1/pools", {"pools": [POOL | {"cell": 1}]})
    assert "CELL" not in cli("pool", "list")[1]


def test_pools(cli, cell):
    cell.answer("GET", "/v1/pools", {"pools": [POOL]})
    cell.answer("GET", "/v1/pools/maps/tiles", POOL)
    cell.answer("DELETE", "/v1/pools/maps/tiles", {"code": "DONE", "message": ""})
    assert cli("pool", "list") == (0, """\
POOL         RESERVED CPU  LIMIT CPU  ENTITLED CPU  DEMAND CPU  USED CPU  RESERVED GiB  LIMIT GiB  ENTITLED GiB  DEMAND GiB  USED GiB  JOBS  TASKS
/maps/tiles           1.5   no limit           1.5         1.5         0           2.0   no limit           2.0         2.0       0.0     1      3
""", "")  # noqa: E501 # fmt: skip
    shown = cli("pool", "get", "/maps/tiles")[1]
    assert "reservation     cpu 1.5, memory 2GiB" in shown
    assert "limit           no limit\n" in shown
    assert "without_hosts   nothing\n" in shown
    assert cli("pool", "remove", "/maps/tiles", "--reason", "over")[:2] == (0, "pool /maps/tiles removed\n")


def test_hosts(cli, cell):
    cell.answer("GET", "/v1/hosts", {"hosts": [HOST], "next_page_token": ""})
    cell.answer("GET", "/v1/hosts/h1", HOST)
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [{"job_id": "a", **TASKS[1]}], "next_page_token": ""})
    cell.answer("POST", "/v1/hosts/h1/loss-confirmations", {"code": "DONE", "message": "is lost"})
    assert cli("host", "list") == (0, """\
HOST  STATE  RUNS  CPU USED  CPU  GiB USED  GiB  ATTRIBUTES
h1    UP        2       1.5  1.5       2.0  2.0  os linux, arch arm64
""", "")  # fmt: skip
    assert cli("host", "list", "--columns", "abilities")[1] == "ABILITIES\npaceline/health yes\n"
    assert cli("host", "get", "h1")[1].endswith("JOB  TASK  RUN  STATE\na       1    2  RUNNING\n")
    assert cli("host", "confirm-loss", "h1", "--yes")[:2] == (0, "host h1 is lost\n")


@pytest.mark.parametrize(("words", "said"), [
    (("exec", "web", "ls", "-l"), "options of the command inside the run stand after `--`"),
    (("exec", "web", "--", "-t", "sh"), "options of this command stand before `--`"),
    (("cp", "log.txt", "web:/log.txt"), "files are copied out of runs only; into one: paceline job exec -i"),
    (("cp", "log.txt", "."), "log.txt is no file in a run, which is written ID:PATH"),
])  # fmt: skip
def test_who_mixes_up_the_places_of_words_hears_where_they_stand(cli, cell, words, said):
    code, _, errors = cli("job", *words)
    assert (code, said in errors) == (2, True), errors


def test_a_suspected_host_is_shown_with_why_and_until_when(cli, cell, monkeypatch):
    monkeypatch.setattr(output, "now", lambda: datetime(2026, 8, 21, 10, 34, 19, tzinfo=UTC))
    suspected = {
        "code": "FAILS_AT_ONCE",
        "message": "tasks failed there at once",
        "until": "2026-08-21T10:44:19.000Z",
    }
    host = HOST | {"state": "SUSPECTED", "suspected": suspected}
    cell.answer("GET", "/v1/hosts", {"hosts": [HOST | {"host_id": "h0"}, host], "next_page_token": ""})
    cell.answer("GET", "/v1/hosts/h1", host)
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [], "next_page_token": ""})
    cell.answer("POST", "/v1/hosts/h1/clearances", {"code": "DONE", "message": ""})
    _, first, second = cli("host", "list", "--columns", "host,state,takes-tasks")[1].splitlines()
    assert (first.split(), second.split()) == (
        ["h0", "UP", "-"],
        ["h1", "SUSPECTED", "in", "10m0s", "(FAILS_AT_ONCE)"],
    )
    shown = cli("host", "get", "h1")[1]
    assert "tasks failed there at once (FAILS_AT_ONCE)\n" in shown
    assert "avoided_until  in 10m0s\n" in shown
    assert cli("host", "clear", "h1", "--reason", "new disk")[:2] == (0, "host h1 takes new tasks again\n")
    assert cell.asked[-1].body["reason"] == "new disk"


def test_a_host_that_is_not_well_is_shown_with_evidence_and_with_what_ends_it(cli, cell, monkeypatch):
    monkeypatch.setattr(output, "now", lambda: datetime(2026, 8, 21, 10, 34, 19, tzinfo=UTC))
    condition = {
        "name": "smart",
        "code": "EXIT_7",
        "evidence": "disk sdb: 12 sectors gone",
        "since": "2026-08-21T10:24:19.000Z",
        "passed_at": None,
        "flaps": 0,
        "action": "AVOIDED",
        "done": "takes no new tasks, but those bound to it",
        "drain_at": "2026-08-21T10:39:19.000Z",
        "ends": "once its check has passed for 10m, or `paceline host clear h1`",
    }
    host = HOST | {"state": "SUSPECTED", "suspected": None, "conditions": [condition]}
    cell.answer("GET", "/v1/hosts", {"hosts": [host], "next_page_token": ""})
    cell.answer("GET", "/v1/hosts/h1", host)
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [], "next_page_token": ""})
    assert cli("host", "list", "--columns", "host,takes-tasks")[1].split("\n")[1].split() == ["h1", "no", "(smart)"]
    shown = cli("host", "get", "h1")[1]
    assert "smart (EXIT_7), since 10m0s ago: disk sdb: 12 sectors gone\n" in shown
    assert "bound to it; drained in 5m0s if it lasts; ends once its check has passed for 10m, or" in shown


MEASURES = {"attributes": {"paceline/usage": "yes"}}


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ({"used": None}, "not measured: its agent doesn't offer paceline/usage"),
        (MEASURES | {"used": None}, "not told since it connected"),
        (
            MEASURES | {"used": {"cpu": 3, "memory": 5, "at": "2026-08-21T10:44:19.000Z"}},
            "3/16 of its CPU, 5/16 of its memory, told 0s ago",
        ),
    ],
)
def test_a_host_says_what_its_runs_use_or_why_that_is_not_known(cli, cell, host, text):
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [], "next_page_token": ""})
    cell.answer("GET", "/v1/hosts/h1", HOST | host)
    assert text in cli("host", "get", "h1")[1]


@pytest.mark.parametrize(
    ("state", "text"), [("SUCCEEDED", "; `paceline usage --by job` tells what ended ones used"), ("PENDING", "")]
)
def test_top_of_a_job_without_live_runs_says_so(cli, cell, state, text):
    cell.answer("GET", "/v1/jobs/a/usage", {"job_id": "a", "runs": [], "silent": [], "hosts_left_out": 0})
    cell.answer("GET", "/v1/jobs/a", job("a", state))
    assert cli("job", "top", "a", "--once")[1:] == ("", f"job a is {state}: no run of it goes on{text}\n")


@pytest.mark.parametrize("month", ["2026-13", "2026-00"])
def test_usage_since_a_month_that_there_is_not_is_refused(cli, month):
    code, _, error = cli("usage", "--since", month)
    assert code == 2
    assert f"{month} is no month: they go from 01 to 12, as in 2026-11" in error


def test_volumes(cli, cell):
    volumes = [
        {
            "host_id": host_id,
            "job_id": "db",
            "instance": instance,
            "name": name,
            "created_at": "2026-08-21T10:41:07.000Z",
        }
        for host_id, instance, name in (("h1", 0, "data"), ("h1", 0, "wal"), ("h2", 1, "data"))
    ]
    cell.answer("GET", "/v1/volumes", {"volumes": volumes, "next_page_token": ""})
    for host_id in ("h1", "h2"):
        cell.answer("POST", f"/v1/hosts/{host_id}/volume-removals", {"code": "DONE", "message": "host removes it"})
    assert cli("volume", "list", "--job", "db", "--columns", "host,task,name") == (0, """\
HOST  TASK  NAME
h1       0  data
h1       0  wal
h2       1  data
""", "")  # fmt: skip
    assert cell.asked[-1].query["job"] == "db"
    code, out, _ = cli("volume", "remove", "db", "--name", "data", "--yes")
    assert (code, out) == (0, "db/0 data on h1: host removes it\ndb/1 data on h2: host removes it\n")
    named = [(each.body["job_id"], each.body["instance"], each.body["name"]) for each in cell.writes()]
    assert named == [("db", 0, "data"), ("db", 1, "data")]
    code, out, _ = cli("volume", "remove", "db", "--task", "1", "--yes", "-o", "json")
    assert [each["host_id"] for each in [json.loads(out)]] == ["h2"]
    assert cli("volume", "remove", "db", "--task", "7", "--yes")[0] == 4
    code, _, err = cli("volume", "remove", "db")
    assert (code, "the data in 3 volumes would be lost: say so with --yes" in err) == (2, True)


def test_quarantine(cli, cell):
    record = {"topic": "paceline.jobs", "offset": 7, "at": "2026-08-21T10:41:07.000Z", "reason": "NOT_AVRO",
              "digest": "ab" * 32, "size": 5}  # fmt: skip
    cell.answer("GET", "/v1/log/quarantine", {"records": [record], "next_page_token": "more"})
    cell.answer("GET", "/v1/log/quarantine", {"records": [record | {"offset": 9}], "next_page_token": ""})
    assert cli("log", "quarantine") == (0, f"""\
AT         POSITION         REASON    BYTES  DIGEST
3m12s ago  paceline.jobs:7  NOT_AVRO      5  {"ab" * 32}
3m12s ago  paceline.jobs:9  NOT_AVRO      5  {"ab" * 32}
""", "")  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli, shell):
    code, out, _ = cli("completion", shell)
    assert code == 0
    assert "_PACELINE_COMPLETE" in out


def test_live_names_are_completed_and_troubles_are_silent(cli, cell, monkeypatch):
    monkeypatch.setenv("_PACELINE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "paceline job get ti")
    monkeypatch.setenv("COMP_CWORD", "3")
    cell.answer("GET", "/v1/names", {"names": ["tiles-1"]})
    assert cli() == (0, "plain,tiles-1\n", "")
    assert cell.asked[-1].query == {"kind": "job", "prefix": "ti", "page_size": "100"}
    monkeypatch.setenv("PACELINE_SERVER", "127.0.0.1:1")
    assert cli() == (0, "\n", "")


def test_a_wait_shows_what_became_of_the_jobs_in_the_form_asked_for(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job("a", "SUCCEEDED"))
    cell.answer("GET", "/v1/jobs/b", job("b", "FAILED"))
    code, out, err = cli("job", "wait", "a", "b", "-o", "json")
    assert (code, [each["state"] for each in json.loads(out)["jobs"]]) == (1, ["SUCCEEDED", "FAILED"])
    assert "job b FAILED" in err


LATE = {"state": "KILLED", "killed_by": {"RUN_LIMIT": 1, "STOP": 2}}
BY_USER = {"state": "KILLED", "killed_by": {"STOP": 3}}
BY_CONTROLLER = {"state": "KILLED", "killed_by": {}}


@pytest.mark.parametrize(
    ("jobs", "code"),
    [([{"state": "SUCCEEDED"}], 0), ([{"state": "FAILED"}], 1), ([LATE], 8), ([BY_USER], 7), ([BY_CONTROLLER], 7),
     ([BY_USER, LATE], 8), ([BY_USER, LATE, {"state": "FAILED"}], 1), ([{"state": "SUCCEEDED"}, BY_USER], 7)],
)  # fmt: skip
@pytest.mark.parametrize("goal", ["ended", "running", "healthy", "succeeded"])
def test_the_exit_code_of_a_wait_tells_how_jobs_ended(cli, cell, jobs, code, goal):
    ids = [f"j{at}" for at, _ in enumerate(jobs)]
    for name, each in zip(ids, jobs, strict=True):
        cell.answer("GET", f"/v1/jobs/{name}", job(name, **{**each, "tasks": {"succeeded": 1}}))
    assert cli("job", "wait", *ids, "--for", goal)[0] == code


def test_a_job_that_ran_into_its_time_limit_fails_the_submission_that_waits_and_says_why(cli, cell, tmp_path):
    reason = {
        "code": "RUN_LIMIT",
        "message": "3 of 3 tasks ran for as long as they may (max_runtime 2s)",
        "actor": "you",
    }
    cell.answer("POST", "/v1/jobs", job("x", "PENDING"))
    cell.answer("GET", "/v1/jobs/x", job("x", "KILLED", killed_by={"RUN_LIMIT": 3}, reason=reason))
    code, _, err = cli("job", "submit", "--wait", files(tmp_path, "x"))
    assert code == 8
    assert "job x KILLED: 3 of 3 tasks ran for as long as they may (max_runtime 2s)" in err


EVIL = "ann\x1b]0;owned\x07\x9b2J\u202e"
SHOWN = "ann\\u001b]0;owned\\u0007\\u009b2J\\u202e"


@pytest.mark.parametrize("form", ["table", "json", "yaml", "name"])
def test_no_text_of_a_user_does_anything_to_a_terminal(cli, cell, form):
    bad = job(EVIL, owner=EVIL, reason={"code": EVIL, "message": EVIL}, labels={EVIL: EVIL})
    cell.answer("GET", "/v1/jobs", {"jobs": [bad], "next_page_token": EVIL})
    cell.answer("GET", "/v1/jobs/a", bad)
    for words in (["job", "list"], ["job", "get", "a"]):
        _, out, err = cli(*words, "-o", form)
        assert not set(out + err) & set("\x1b\x07\x9b\u202e")
        assert SHOWN in out or form == "yaml" or (form, words[1]) == ("name", "get")
    _, out, _ = cli("job", "get", "a", "-o", "json")
    assert json.loads(out)["owner"] == EVIL
    _, out, _ = cli("job", "get", "a", "-o", "yaml")
    assert YAML(typ="safe").load(out)["owner"] == EVIL


def test_no_problem_does_either(cli, cell):
    cell.problem("GET", "/v1/jobs/a", 404, "NOT_FOUND", f"no {EVIL}")
    assert cli("job", "get", "a")[2] == f"paceline: no {SHOWN} (NOT_FOUND)\n"


def test_a_cell_stays_in_its_line(cli, cell):
    cell.answer("GET", "/v1/jobs", {"jobs": [job("a", pool="/p\nROOT  RUNNING")], "next_page_token": ""})
    assert cli("job", "list", "--no-header")[1].count("\n") == 1


def test_usage_as_csv_has_no_formulas(cli, cell):
    rows = [{"owner": "=HYPERLINK(1)", "runs": -1, "month": None}]
    cell.answer("GET", "/v1/usage", {"usage": rows, "more": False})
    assert cli("usage", "--by", "owner", "-o", "csv")[1].splitlines() == ["owner,runs", "'=HYPERLINK(1),-1"]
