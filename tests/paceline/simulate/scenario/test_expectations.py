"""What is expected is looked up in the machines' state: each form can hold and can fail, and says what was seen."""

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.main import run
from paceline.simulate.scenario.assertions import Malformed
from paceline.simulate.scenario.expectations import parse
from tests.helpers.play import CELL, verdicts

# At 10s: `a` runs on h-1 and h-2, `b` waits, `d` was preempted by `c`, `big` fits nowhere; h-3 is silent.
BUSY = """
hosts:
  - {name: h, count: 3, resources: {cpu: 2, memory: 4GiB}, attributes: {zone: z1}}
pools:
  - {path: /p, limit: {cpu: 2}}
  - {path: /q, share: 3}
jobs:
  - {job_id: a, pool: /p, instances: 2, resources: {cpu: 1, memory: 1GiB}, sim: {duration: 50s}}
  - {job_id: b, at: 1s, pool: /p, resources: {cpu: 1}, sim: {duration: 1s}}
  - {job_id: big, pool: /q, resources: {cpu: 3}, sim: {duration: 1s}}
events:
  - {at: 2s, fails: h-3}
end: 60s
"""
FORMS = [
    ("job a is RUNNING", "job a is SUCCEEDED", "job a is RUNNING"),
    ("job a tasks RUNNING == 2", "job a tasks RUNNING > 2", "job a tasks RUNNING 2"),
    ("job b waits for LIMIT_REACHED", "job a waits for LIMIT_REACHED", "job a waits for nothing"),
    ("job big waits for NEVER_FITS", "job big waits for NO_HOST_FITS", "job big waits for NEVER_FITS"),
    ("job a preempted == 0", "job a preempted >= 1", "job a preempted 0"),
    ("job a ran on zone=z1", "job a ran on h-3", "job a ran on h-1 2"),
    ("job a ran on h-1, h-2", "job b ran on h-1", "job b ran on no host"),
    ("host h-1 is UP", "host h-1 is LOST", "host h-1 is UP"),
    ("host h-1 runs == 2", "host h-1 runs < 2", "host h-1 runs 2"),
    ("pool /p allocation cpu == 2", "pool /p allocation cpu != 2", "pool /p allocation cpu 2"),
    ("pool /p allocation memory == 2GiB", "pool /p allocation memory <= 1GiB", "pool /p allocation memory 2GiB"),
    ("pool /p demand cpu >= 1.5", "pool /p demand cpu < 500m", "pool /p demand cpu 2"),
    ("pool /p entitlement cpu <= 2", "pool /p entitlement cpu > 6", "pool /p entitlement cpu 2"),
    ("cell tasks RUNNING == 2", "cell tasks RUNNING == 0", "cell tasks RUNNING 2"),
    ("cell preempted == 0", "cell preempted > 0", "cell preempted 0"),
    ("events JobAccepted, TasksPlaced", "events TasksPlaced, HostLost", "TasksPlaced; HostLost didn't follow"),
]  # fmt: skip


def test_each_form_holds_and_fails_and_says_what_was_seen():
    wanted = "".join(f"  - {{at: 10s, that: '{good}'}}\n  - {{at: 10s, that: '{bad}'}}\n" for good, bad, _ in FORMS)
    found = verdicts(f"{BUSY}expect:\n{wanted}")
    for (good, bad, seen), first, second in zip(FORMS, found[::2], found[1::2], strict=True):
        assert first[0], (good, first)
        assert not second[0], bad
        assert second[1:] == (seen, 10.0), bad


def test_the_kinds_of_time():
    found = verdicts(
        BUSY
        + """expect:
  - {by: 55s, that: job b is SUCCEEDED}
  - {by: 20s, that: job b is SUCCEEDED}
  - {always: cell tasks RUNNING <= 2}
  - {always: cell tasks RUNNING == 2, since: 1s}
  - {never: job b is SUCCEEDED}
  - {never: job a is FAILED}
  - {never: job a is PENDING, since: 2s}
"""
    )
    assert [(holds, at_s) for holds, _, at_s in found] == [
        (True, 51.0),
        (False, 20.0),
        (True, 60.0),
        (False, 50.0),
        (False, 51.0),
        (True, 60.0),
        (True, 60.0),
    ]


def test_always_and_never_look_at_the_moment_from_which_on_they_look():
    found = verdicts(
        CELL
        + """jobs: [{job_id: a, pool: /p, resources: {cpu: 1}, sim: {duration: 9s}}]
expect:
  - {always: job a is SUCCEEDED, since: 2s}
  - {never: job a is RUNNING, since: 2s}
  - {always: job a is SUCCEEDED, since: 1m}
"""
    )
    assert [(holds, at_s) for holds, _, at_s in found] == [(False, 2.0), (False, 2.0), (True, 60.0)]


def test_preempted_runs_are_counted_and_their_order_is_told():
    text = """
hosts: [{name: h, resources: {cpu: 4}}]
pools: [{path: /p}, {path: /q, reservation: {cpu: 2}}]
cell: {preemption_delay: 2s}
jobs:
  - {job_id: low, pool: /p, instances: 4, resources: {cpu: 1}, sim: {duration: 5m}}
  - {job_id: high, pool: /q, at: 1m, instances: 2, resources: {cpu: 1}, sim: {duration: 1m}}
expect:
  - {by: 3m, that: job low preempted == 2}
  - {by: 3m, that: job high is SUCCEEDED}
  - {by: 3m, that: 'events PreemptionsOrdered, RunsStopping, RunsEnded, TasksPlaced'}
  - {by: 15m, that: job low is SUCCEEDED}
"""
    assert all(holds for holds, _, _ in verdicts(text)), verdicts(text)


def test_a_job_waits_for_what_was_last_said_while_any_task_waits():
    """Two tasks of `low` are preempted; those that went on fail then and run again, while the two still wait."""
    text = """
hosts: [{name: h, resources: {cpu: 4}}]
pools: [{path: /p}, {path: /q, reservation: {cpu: 2}}]
cell: {preemption_delay: 2s}
end: 4m
jobs:
  - {job_id: low, pool: /p, instances: 4, resources: {cpu: 1}, retries: {max: 3}, sim: {duration: 100s, fail_runs: 1}}
  - {job_id: high, pool: /q, at: 1m, instances: 2, resources: {cpu: 1}, sim: {duration: 10m}}
expect:
  - {at: 90s, that: job low waits for ENTITLEMENT_REACHED}
  - {at: 3m, that: job low tasks QUEUED == 2}
  - {at: 3m, that: job low waits for ENTITLEMENT_REACHED}
"""
    assert [holds for holds, _, _ in verdicts(text)] == [True] * 3, verdicts(text)


def test_where_a_job_ran_is_told_by_the_hosts_as_they_were_then():
    text = """
hosts: [{name: h, count: 2, resources: {cpu: 2}, attributes: {disk: ssd}, fails: 30s}, {name: g, resources: {cpu: 2}}]
pools: [{path: /p}]
cell: {host_lost_after: 10s, host_lost_grace: 20s}
jobs: [{job_id: a, pool: /p, resources: {cpu: 1}, constraints: [{attribute: disk, values: [ssd]}], sim: {duration: 9s}}]
end: 10m
expect:
  - {at: 9m, that: host h-1 is LOST}
  - {at: 9m, that: job a ran on disk=ssd}
  - {at: 9m, that: job a ran on hostname=g-1}
  - {always: job a ran on disk=ssd, since: 5s}
"""
    assert [holds for holds, _, _ in verdicts(text)] == [True, True, False, True]


def test_a_failed_expectation_shows_time_sight_position_and_the_way_there(tmp_path, capsys):
    path = tmp_path / "busy.yaml"
    path.write_text(f"{BUSY}expect: [{{at: 10s, that: job a is FAILED}}, {{at: 10s, that: job a is RUNNING}}]\n")
    assert run(["simulate", str(path)]) == 1
    out = capsys.readouterr().out
    assert "FAILED  at 10s: job a is FAILED" in out
    assert "holds   at 10s: job a is RUNNING" in out
    assert "1 of 2 expectations don't hold" in out
    place = re.search(r"at 10s, position paceline\.(\w+):(\d+): job a is RUNNING", out)
    assert place
    assert place[1] in ("lifecycle", "entitlement", "placement", "sla")
    again = re.search(r"look at it: paceline (.*)", out)
    assert again
    assert again[1] == f"simulate {path} --until 10s"
    assert run(again[1].split()) == 1
    assert "10s of virtual time" in capsys.readouterr().out


def test_what_is_expected_after_the_moment_at_which_it_stops_is_said_not_to_be_looked_at(tmp_path, capsys):
    path = tmp_path / "busy.yaml"
    path.write_text(f"{BUSY}expect: [{{at: 10s, that: job a is FAILED}}, {{at: 5s, that: job a is RUNNING}}]\n")
    assert run(["simulate", str(path), "--until", "6s"]) == 0
    out = capsys.readouterr().out
    assert "holds   at 5s: job a is RUNNING" in out
    assert out.endswith("not looked at: 1 of 2 expectations, about a later time\n")
    assert run(["simulate", str(path), "--until", "6s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expectations_not_looked_at"] == 1


def test_the_time_of_a_failure_is_said_to_the_millisecond(tmp_path, capsys):
    path = tmp_path / "late.yaml"
    job = "jobs: [{job_id: a, pool: /p, at: 1145678ms, sim: {duration: 10s}}]\n"
    path.write_text(f"{CELL}{job}expect: [{{never: job a is RUNNING}}]\n")
    assert run(["simulate", str(path), "--out", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert "at 1145.678s, position" in out
    assert "1145.678s" in (tmp_path / "out" / "report.html").read_text()
    assert run(re.findall(r"look at it: paceline (.*)", out)[0].split()) == 1
    assert "job a is RUNNING\n        at 1145.678s, position" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "must begin with job, host, pool, campaign, window, cell, events"),
        (
            "jobs a is RUNNING",
            "must begin with job, host, pool, campaign, window, cell, events, not with jobs; did you mean job?",
        ),
        ("job a tsks RUNNING >= 1", "version, preempted, ran on, not with tsks; did you mean tasks?"),
        ("job a tasks RUNING >= 1", "KILLED; did you mean RUNNING?"),
        ("job a is", "must name one of PENDING"),
        ("job a", "must go on with is, tasks"),
        ("job a is DONE", "DONE is none of"),
        ("job a tasks RUNNING", "must end with one of"),
        ("job a tasks RUNNING = 3", "must end with one of"),
        ("job a tasks RUNNING == x", "x is no whole number"),
        ("job a tasks NONE == 0", "NONE is none of"),
        ("job a waits for", "must name one of NO_SUCH_POOL, LIMIT_REACHED"),
        ("job a waits for DONE", "DONE is none of NO_SUCH_POOL, LIMIT_REACHED"),
        ("job a waits LIMIT_REACHED", "must name one of NO_SUCH_POOL, LIMIT_REACHED"),
        ("job a waits for LIMIT_REACHED == 3", "LIMIT_REACHED == 3 is none of"),
        ("job a ran on", "must go on with"),
        ("host h is up", "up is none of"),
        ("host h has 3", "must go on with is or runs"),
        ("pool /p allocation cpu == ", "must be: pool PATH"),
        ("pool /p used cpu == 1", "used is none of"),
        ("pool /p demand memory == 1", "1 must be"),
        ("cell hosts == 1", "must go on with tasks or preempted"),
        ("events JobAccepted, Nothing", "Nothing is the name of no event"),
    ],
)
def test_a_line_that_says_nothing_is_refused(line, message):
    with pytest.raises(Malformed) as caught:
        parse(line)
    assert message in str(caught.value)


WORDS = "job host pool cell events a /p is tasks RUNNING == 3 runs waits for cpu 1GiB"


@given(st.lists(st.sampled_from(WORDS.split())))
def test_any_words_are_understood_or_refused(words):
    with suppress(Malformed):
        assert parse(" ".join(words)).text == " ".join(words)
