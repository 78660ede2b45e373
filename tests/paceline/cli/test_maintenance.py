"""Drains and campaigns from the command line: what is sent, what is printed, and how waiting ends."""

import signal
import threading

import pytest

from paceline.cli.maintenance_progress import Lines
from paceline.client import pauses
from paceline.client.errors import Unreachable

MAINTENANCE = {
    "stage": "DRAINING", "since": "2026-08-21T10:44:00.000Z", "begun_at": "2026-08-21T10:44:00.000Z", "by": "operator",
    "source": "", "code": "ASKED", "message": "", "reason": "disk", "actor": None, "cordoned": False, "batch": "wait",
    "preempt_at": None, "force_at": None, "check_until": None, "step": None, "runs_left": 14,
}  # fmt: skip
HOST = {"host_id": "h17", "state": "UP", "lost": None, "suspected": None, "shrunk": None, "maintenance": MAINTENANCE}
JOB = {"job_id": "web", "owner": "", "runs": 3, "instances": 20, "leaves": "asked", "allowed": 1,
       "per_hour": None, "at_a_time": 1}  # fmt: skip
EFFECTS = {
    "hosts": [{"host_id": "h17", "runs": 4, "at_once": 1, "asked": 3, "batch": 0, "bound": 0}],
    "jobs": [JOB, {**JOB, "job_id": "free", "runs": 1, "leaves": "at_once", "allowed": None}],
    "notes": ["1 run of 1 job without an SLA stops at once: free"],
}
DONE = {
    "command_id": "c",
    "position": "paceline.hosts:7",
    "code": "DONE",
    "message": "",
    "host_ids": ["h17"],
    "notes": [],
}
DRAINS = "/v1/hosts/h17/drains"


def wait_of(job_id, code, runs, **more):
    wait = {"job_id": job_id, "code": code, "message": "m", "runs": runs, "since": "2026-08-21T10:44:00.000Z"}
    return {**wait, "instances": 20, "unavailable": None, "allowed": None, "group": "", "until": None, **more}


def host(stage, **more):
    return {**HOST, "maintenance": {**MAINTENANCE, "stage": stage, **more} if stage else None}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    for name in ("FIRST_ASK_S", "SLOWEST_ASK_S"):
        monkeypatch.setattr(pauses, name, 0.01)
        monkeypatch.setattr(f"paceline.client.maintenance.{name}", 0.01)


def drains(cell, *answers):
    cell.answer("POST", f"{DRAINS}?dry_run", EFFECTS)
    for each in answers or (DONE,):
        cell.answer("POST", DRAINS, each)


def test_a_drain_is_sent_with_its_words_and_says_what_stops_at_once(cli, cell):
    drains(cell, {**DONE, "notes": EFFECTS["notes"]})
    words = ("--deadline", "2h", "--escalate", "force", "--batch", "move", "--reason", "disk")
    assert cli("host", "drain", "h17", *words) == (0, "host h17 drains\n", f"{EFFECTS['notes'][0]}\n")
    [sent] = cell.writes()
    body = {name: value for name, value in sent.body.items() if name != "command_id"}
    assert body == {"batch": "move", "deadline": "7200000ms", "escalate": "force", "reason": "disk"}


def test_hosts_are_chosen_by_an_attribute(cli, cell):
    cell.answer("POST", "/v1/host-drains?dry_run", EFFECTS)
    code, out, err = cli("host", "drain", "--attribute", "rack=r3", "--max-hosts", "5", "--dry-run")
    assert (code, err) == (0, f"{EFFECTS['notes'][0]}\nnothing was written\n")
    assert cell.asked[-1].body["hosts"] == {"attribute": "rack", "values": ["r3"]}
    assert cell.asked[-1].body["max_hosts"] == 5
    assert [line.split() for line in out.splitlines()] == [
        ["HOST", "RUNS", "AT", "ONCE", "BY", "SLA", "BATCH", "BOUND"],
        ["h17", "4", "1", "3", "0", "0"],
        [],
        ["JOB", "RUNS", "LEAVES"],
        ["web", "3", *["by", "its", "SLA:", "1", "of", "20", "at", "a", "time"]],
        ["free", "1", *["at", "once:", "it", "has", "no", "SLA"]],
    ]
    assert cell.writes() == []


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("h1", "--attribute", "rack=r3"),
        ("--attribute", "rack"),
        ("h1", "--escalate", "force"),
        ("h1", "--deadline", "1h", "--force-after", "1m"),
        ("h1", "--timeout", "1m"),
        ("h1", "--deadline", "soon"),
        ("h1", "--max-hosts", "0"),
    ],
)
def test_what_makes_no_sense_is_invalid_usage(cli, cell, words):
    assert cli("host", "drain", *words)[0] == 2
    assert cell.asked == []


def test_force_needs_a_yes_and_the_jobs_of_others_a_reason(cli, cell):
    drains(cell)
    code, _, err = cli("host", "drain", "h17", "--force-now")
    assert (code, "4 runs on 1 host would be ended, whatever SLAs say: confirm with --yes" in err) == (2, True)
    cell.answer("POST", "/v1/hosts/h2/drains?dry_run", {**EFFECTS, "jobs": [{**JOB, "owner": "somebody-else"}]})
    code, _, err = cli("host", "drain", "h2")
    assert (code, "job web belongs to somebody-else: say why with --reason" in err) == (2, True)
    assert cell.writes() == []


def test_a_refusal_is_told_with_its_code_and_its_exit_code(cli, cell):
    cell.answer("POST", f"{DRAINS}?dry_run", EFFECTS)
    cell.problem("POST", DRAINS, 409, "FORCE_NOT_ALLOWED", "The cell doesn't allow force.")
    assert cli("host", "drain", "h17", "--force-now", "--yes")[0] == 1
    cell.problem("POST", "/v1/host-drains?dry_run", 404, "NOT_FOUND", "there is no host h1")
    assert cli("host", "drain", "h17", "h1") == (4, "", "paceline: there is no host h1 (NOT_FOUND)\n")


def test_waiting_for_a_drain_prints_a_line_for_each_change(cli, cell):
    drains(cell)
    waits = [
        wait_of("web", "SLA_BUDGET_SPENT", 2, unavailable=1, allowed=1),
        wait_of("nightly", "RUNS_TO_ITS_END", 1),
        wait_of("db", "LEAVES_LAST", 1),
    ]
    for stage in (host("DRAINING", stopping=2, waits=waits),) * 2 + (host("DRAINING", runs_left=1), host("DRAINED")):
        cell.answer("GET", "/v1/hosts/h17", stage)
    code, _, err = cli("host", "drain", "h17", "--wait", "--timeout", "1m")
    assert code == 0
    assert err.splitlines() == [
        "host h17 DRAINING: 14 runs left, 2 stopping; web: 2 wait SLA_BUDGET_SPENT (1 of 20 unavailable, 1 may be); "
        "nightly: 1 until it ends; db: 1 bound, leaves last",
        "host h17 DRAINING: 1 run left",
        "host h17 DRAINED",
    ]


def test_a_run_that_sla_has_not_judged_yet_is_told_in_words(cli, cell):
    drains(cell)
    waits = [wait_of("web", "NOT_YET_EVALUATED", 2), wait_of("db", "ASKED", 1)]
    for stage in (host("DRAINING", runs_left=3, waits=waits), host("DRAINED")):
        cell.answer("GET", "/v1/hosts/h17", stage)
    _, _, err = cli("host", "drain", "h17", "--wait")
    assert err.splitlines()[0] == (
        "host h17 DRAINING: 3 runs left; web: 2 asked for, no answer yet; db: 1 asked for, no answer yet"
    )


def test_of_many_hosts_those_that_drain_longest_come_with_what_holds_them_up(cli, cell, monkeypatch):
    monkeypatch.setattr("paceline.client.maintenance.ONE_BY_ONE_MAX", 1)
    ids = ["h1", "h2", "h3"]
    begun = {"h1": "2026-08-21T10:44:02.000Z", "h2": "2026-08-21T10:44:01.000Z", "h3": "2026-08-21T10:44:00.000Z"}

    def listed(*stages):
        rows = zip(ids, stages, strict=True)
        return {
            "hosts": [{**host(stage, begun_at=begun[of]), "host_id": of} for of, stage in rows],
            "next_page_token": "",
        }

    cell.answer("POST", "/v1/host-drains?dry_run", {**EFFECTS, "hosts": [{**EFFECTS["hosts"][0], "host_id": "h1"}]})
    cell.answer("POST", "/v1/host-drains", {**DONE, "host_ids": ids})
    for stages in (("DRAINING", "DRAINING", "DRAINED"), ("DRAINED", "DRAINED", "DRAINED")):
        cell.answer("GET", "/v1/hosts", listed(*stages))
    waits = [wait_of("web", "SLA_BUDGET_SPENT", 2, unavailable=1, allowed=1)]
    cell.answer("GET", "/v1/hosts/h2", {**host("DRAINING", waits=waits, begun_at=begun["h2"]), "host_id": "h2"})
    code, _, err = cli("host", "drain", *ids, "--wait", "--reason", "r")
    assert code == 0, err
    told = "host h2 DRAINING: 14 runs left; web: 2 wait SLA_BUDGET_SPENT (1 of 20 unavailable, 1 may be)"
    assert err.splitlines()[:2] == ["host h1 DRAINING: 14 runs left", told]


def test_a_host_that_is_taken_back_meanwhile_ends_the_wait_with_1(cli, cell):
    drains(cell)
    cell.answer("GET", "/v1/hosts/h17", host("DRAINING"))
    cell.answer("GET", "/v1/hosts/h17", host(None))
    code, _, err = cli("host", "drain", "h17", "--wait")
    assert (code, err.splitlines()[-1]) == (1, "host h17 was taken back before the drain was over")


def test_a_drain_that_is_not_over_in_time_goes_on(cli, cell):
    drains(cell)
    cell.answer("GET", "/v1/hosts/h17", host("DRAINING"))
    code, _, err = cli("host", "drain", "h17", "--wait", "--timeout", "30ms")
    assert code == 124
    assert "host h17: not drained after 0.03 s; the wait ended, the drain goes on.\n  host h17 DRAINING" in err


def test_an_interrupt_says_that_the_drain_goes_on(cli, cell):
    drains(cell)
    cell.answer("GET", "/v1/hosts/h17", host("DRAINING"))

    def interrupt():
        cell.until(2, "/v1/hosts/h17")
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _, err = cli("host", "drain", "h17", "--wait")
    thread.join()
    assert code == 130
    assert err.splitlines()[-1] == "interrupted; the drain goes on. Look with: paceline host explain h17"


def test_waiting_goes_on_through_a_restart_of_the_api_and_ends_with_6_after_long(cli, cell, monkeypatch):
    drains(cell)
    cell.answer("GET", "/v1/hosts/h17", host("DRAINING"))
    for _ in range(3):
        cell.problem("GET", "/v1/hosts/h17", 503, "VIEWS_AWAY", "away")
    cell.answer("GET", "/v1/hosts/h17", host("DRAINED"))
    assert cli("host", "drain", "h17", "--wait")[0] == 0
    cell.problem("GET", "/v1/hosts/h18", 503, "VIEWS_AWAY", "away")
    from paceline.client.client import Client

    with Client(cell.address, "t", patience=0.05) as client, pytest.raises(Unreachable, match="the drain goes on"):
        list(client.follow_hosts(["h18"]))


@pytest.mark.parametrize(
    ("verb", "noun", "line"),
    [
        ("cordon", "cordons", "host h17 is cordoned"),
        ("uncordon", "uncordons", "host h17 takes new tasks"),
        ("resume", "resumptions", "host h17 is taken back"),
    ],
)
def test_hosts_are_cordoned_and_taken_back(cli, cell, verb, noun, line):
    cell.answer("POST", f"/v1/hosts/h17/{noun}", DONE)
    cell.answer("POST", f"/v1/host-{noun}", {**DONE, "host_ids": ["h1", "h2"]})
    assert cli("host", verb, "h17", "--reason", "why") == (0, f"{line}\n", "")
    assert cell.writes()[-1].body["reason"] == "why"
    assert cli("host", verb, "h1", "h2")[0] == 0
    assert cell.writes()[-1].body["hosts"] == {"ids": ["h1", "h2"]}


def test_explain_names_what_holds_a_drain_up(cli, cell):
    wait = wait_of("web", "SLA_BUDGET_SPENT", 2, unavailable=1, allowed=1)
    cell.answer("GET", "/v1/hosts/h17", host("DRAINING", waits=[{**wait, "message": "2 tasks are to leave"}]))
    code, out, _ = cli("host", "explain", "h17", "--utc")
    assert (code, out.splitlines()) == (
        0,
        [
            "host h17 DRAINING: 14 runs left",
            "  DRAINING by an operator, 2026-08-21T10:44:00Z: disk",
            "  web: 2 tasks are to leave (SLA_BUDGET_SPENT), 2026-08-21T10:44:00Z",
        ],
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            {"taints": [{"key": "maint", "value": "", "by": "operator", "effect": "evict"}]},
            "taint maint: it takes no new tasks that don't tolerate it; those that run there leave as their SLAs allow",
        ),
        (
            {"state": "SUSPECTED", "conditions": [{"name": "disk", "evidence": "disk full", "code": "DISK_FULL",
                                                   "done": "takes no new tasks, but those bound to it"}]},
            "disk: disk full (DISK_FULL): takes no new tasks, but those bound to it",
        ),
    ],
)  # fmt: skip
def test_explain_names_the_taint_or_the_condition_that_keeps_tasks_away(cli, cell, more, line):
    cell.answer("GET", "/v1/hosts/h17", {**host(None), **more})
    code, out, _ = cli("host", "explain", "h17")
    assert (code, out.splitlines()) == (0, [f"host h17 {more.get('state', 'UP')}", f"  {line}"])


def test_a_time_that_comes_nearer_is_no_change(capsys):
    lines = Lines()
    for seconds in (16, 15):
        lines.show("h1", f"host h1 DRAINING: web: 1 waits SLA_RATE_REACHED, next at 06:53:43Z (in 59m{seconds}s)")
    lines.show("h1", "host h1 DRAINED")
    assert len(capsys.readouterr().err.splitlines()) == 2


PLAN = "maintenance_id: kernel\nhosts: {ids: [h1, h2]}\nat_a_time: 2\nreason: kernel 6.12\n"
CAMPAIGN = {
    "maintenance_id": "kernel", "state": "RUNNING", "code": "ASKED", "message": "", "reason": "kernel 6.12",
    "actor": None, "started_at": "2026-08-21T10:44:00.000Z", "changed_at": None, "ended_at": None, "hosts": 2,
    "steps": {"PENDING": 1, "DRAIN": 1}, "plan": {}, "at_work": [],
}  # fmt: skip


def started(cell, tmp_path, *answers):
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    cell.answer("POST", "/v1/maintenances?dry_run", EFFECTS)
    cell.answer("POST", "/v1/maintenances", {**DONE, "host_ids": ["h1", "h2"]}, 201)
    for each in answers:
        cell.answer("GET", "/v1/maintenances/kernel", {**CAMPAIGN, **each})
    return str(file)


def test_a_campaign_is_started_by_its_file_and_waited_for(cli, cell, tmp_path):
    at_work = [{"host_id": "h1", "step": "DRAIN", "since": None, "code": "", "message": "", "stage": "DRAINING",
                "state": "UP", "runs_left": 1, "waits": [wait_of("nightly", "RUNS_TO_ITS_END", 1)]}]  # fmt: skip
    file = started(cell, tmp_path, {"at_work": at_work}, {"state": "DONE", "code": "OVER", "steps": {"DONE": 2}})
    code, out, err = cli("maintenance", "start", file, "--wait")
    assert (code, out) == (
        0,
        "maintenance kernel started with 2 hosts; follow with: paceline maintenance status kernel\n",
    )
    assert err.splitlines() == [
        "maintenance kernel RUNNING: 1 draining, 1 pending",
        "host h1 DRAIN DRAINING: nightly: 1 until it ends",
        "maintenance kernel DONE: 2 done",
    ]
    [sent] = cell.writes()
    assert (sent.body["at_a_time"], sent.body["reason"]) == (2, "kernel 6.12")


def test_hosts_that_failed_are_named_and_manual_work_says_who_ends_it(cli, cell):
    each = {"host_id": "h1", "step": "WORK", "since": None, "code": "", "message": "", "stage": "DRAINED",
            "state": "UP", "runs_left": 0}  # fmt: skip
    failed = {**each, "host_id": "h2", "step": "FAILED", "code": "WORK_LATE", "message": "it took longer than 3s"}
    body = {**CAMPAIGN, "plan": {"work": {"kind": "manual"}}, "at_work": [each], "not_done": [failed]}
    cell.answer("GET", "/v1/maintenances/kernel", body)
    code, out, _ = cli("maintenance", "status", "kernel")
    assert code == 0
    assert "until `paceline host resume h1`" in out
    assert "it took longer than 3s (WORK_LATE)" in out


def test_a_campaign_that_pauses_ends_the_wait_with_1(cli, cell, tmp_path):
    paused = {"state": "PAUSED", "code": "FAILURES", "message": "3 hosts failed, 2 may"}
    code, _, err = cli("maintenance", "start", started(cell, tmp_path, paused), "--wait")
    assert (code, err.splitlines()[-1]) == (1, "maintenance kernel is PAUSED (FAILURES): 3 hosts failed, 2 may")


def test_a_plan_is_checked_before_anything_is_asked(cli, cell, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN + "per_rak: 3\n")
    code, _, err = cli("maintenance", "start", str(file))
    assert (code, "plan.yaml:5" in err, "per_rack" in err, cell.asked) == (1, True, True, [])


def test_campaigns_are_listed_shown_and_acted_on(cli, cell):
    cell.answer("GET", "/v1/maintenances", {"maintenances": [CAMPAIGN], "next_page_token": ""})
    cell.answer("GET", "/v1/maintenances/kernel", CAMPAIGN)
    code, out, _ = cli("maintenance", "list", "--columns", "maintenance,state,hosts,done,at work")
    assert (code, out.splitlines()[1].split()) == (0, ["kernel", "RUNNING", "2", "0", "1"])
    code, out, _ = cli("maintenance", "status", "kernel")
    assert (code, out.splitlines()[0]) == (0, "maintenance kernel RUNNING: 1 draining, 1 pending")
    for verb, noun in (("pause", "pauses"), ("resume", "resumptions"), ("abort", "aborts")):
        cell.answer("POST", f"/v1/maintenances/kernel/{noun}", DONE)
        assert cli("maintenance", verb, "kernel", "--reason", "r")[0] == 0
        assert cell.writes()[-1].body["reason"] == "r"


WINDOW = {
    "window_id": "night", "state": "SET", "opens_at": "2026-11-24T01:00:00.000Z",
    "opens_local": "2026-11-24T02:00+01:00", "closes_at": "2026-11-24T05:00:00.000Z", "closed_at": None,
    "missed_at": "2026-11-17T01:00:00.000Z", "schedule": "0 2 * * 2", "duration": "4h", "time_zone": "Europe/Berlin",
    "lead": "1h", "escalate": "preempt", "hosts": 2, "known_until": "2036-01-01T00:00:00.000Z", "reason": "patches",
    "actor": None, "set_at": "2026-11-01T10:00:00.000Z",
}  # fmt: skip
WINDOW_FILE = (
    "window_id: night\nhosts: {attribute: rack, values: [a]}\nschedule: 0 2 * * 2\nduration: 4h\n"
    "time_zone: Europe/Berlin\nlead: 1h\n"
)
WINDOWS = "/v1/maintenance-windows"


def test_a_window_is_set_by_a_file_and_its_next_opening_told(cli, cell, tmp_path):
    path = tmp_path / "night.yaml"
    path.write_text(WINDOW_FILE)
    cell.answer("PUT", f"{WINDOWS}/night", {**DONE, "window": WINDOW})
    opens = "opens 2026-11-24 01:00 UTC, 2026-11-24 02:00 Europe/Berlin"
    told = f"maintenance window night of 1 host: {opens}\n"
    assert cli("maintenance", "window", "set", str(path), "--reason", "patches") == (0, told, "")
    [sent] = cell.writes()
    assert sent.body.pop("command_id")
    assert sent.body == {
        "hosts": {"attribute": "rack", "values": ["a"]}, "schedule": "0 2 * * 2", "duration": "4h",
        "time_zone": "Europe/Berlin", "lead": "1h", "reason": "patches",
    }  # fmt: skip


def test_a_window_in_a_zone_that_there_is_not_is_refused(cli, cell, tmp_path):
    path = tmp_path / "night.yaml"
    path.write_text(WINDOW_FILE.replace("Berlin", "Zurch"))
    code, _, err = cli("maintenance", "window", "set", str(path))
    assert code == 1
    assert "night.yaml:5:" in err
    assert "there is no time zone 'Europe/Zurch'; did you mean Europe/Zurich" in err
    assert cell.writes() == []


def test_windows_are_listed_by_utc_and_their_own_clocks_with_the_last_missed(cli, cell):
    cell.answer("GET", WINDOWS, {"windows": [WINDOW, {**WINDOW, "window_id": "never", "opens_at": None}]})
    code, out, _ = cli("maintenance", "window", "list")
    assert code == 0
    header, night, never = out.splitlines()
    assert "OPENS (UTC)" in header
    assert "2026-11-24 01:00  2026-11-24 02:00 Europe/Berlin" in night
    assert "2026-11-17 01:00" in night
    assert never.split()[:3] == ["never", "SET", "-"]
    cell.answer("GET", f"{WINDOWS}/night", {**WINDOW, "host_ids": ["h1", "h2"]})
    code, out, _ = cli("maintenance", "window", "get", "night")
    assert (code, "missed last       2026-11-17 01:00" in out, "h1, h2" in out) == (0, True, True)


def test_a_window_is_removed(cli, cell):
    cell.answer("DELETE", f"{WINDOWS}/night", DONE)
    words = ("maintenance", "window", "remove", "night", "--reason", "over")
    assert cli(*words) == (0, "maintenance window night removed\n", "")
    [sent] = cell.writes()
    assert sent.query["reason"] == "over"
