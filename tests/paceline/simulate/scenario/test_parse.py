"""A scenario is checked whole before anything runs: each fault with line and column, what isn't there yet by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from ruamel.yaml import YAML

from events.spec.job import JobSpec
from events.spec.pool import PoolSpec
from paceline.cli.main import run
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.scenario.scenario import Scenario, json_schema
from tests.helpers import ROOT
from tests.helpers.play import CELL, faults, play, verdicts


def test_hosts_are_called_by_a_pattern_and_never_twice(tmp_path):
    first, second = (
        "{name: a, count: 2, pattern: r-##, resources: {cpu: 1}}",
        "{name: b, pattern: %s, resources: {cpu: 1}}",
    )
    text = f"hosts: [{first}, {second}]\npools: [{{path: /p}}]\nevents: [{{at: 1s, fails: r-02}}]\n"
    (tmp_path / "a.yaml").write_text(text % "r-#-x")
    assert [group.names() for group in read_scenario(str(tmp_path / "a.yaml")).hosts] == [["r-01", "r-02"], ["r-1-x"]]
    assert faults(text % "r-0#") == ["1:76: /hosts/1/pattern: names hosts that another group has"]
    assert "/hosts/1/pattern: must match pattern" in faults(text % "r")[0]
    text += "expect: [{at: 500ms, that: host r-02 is UP}, {never: host q-1 is LOST}]\n"
    assert [holds for holds, _, _ in verdicts(text % "q-#")] == [True, True]


def test_everything_wrong_is_said_at_once_with_its_place():
    assert faults(
        """\
name: x
sead: 1
hosts:
  - {name: h, count: none, resources: {cpu: 1}}
  - {name: H, resources: {memory: 1GiB}}
jobs:
  - {job_id: a, pool: /p, instances: 0}
events:
  - {at: soon, stop: a}
expect:
  - {at: 5s, that: job a is done}
  - {at: 5s}
"""
    ) == [
        "2:1: /sead: is not a known field; did you mean seed?",
        "4:15: /hosts/0/count: must be a valid integer",
        "5:6: /hosts/1/name: must match pattern '^[a-z0-9][a-z0-9._-]{0,100}$'",
        "5:15: /hosts/1/resources/cpu: is missing",
        "7:27: /jobs/0/instances: must be greater than or equal to 1",
        '9:6: /events/0/at: must be a time with a unit, such as "500ms", "10s", "5m", "2h" or "1d"',
        "11:14: /expect/0/that: done is none of PENDING, RUNNING, KILLING, SUCCEEDED, FAILED, KILLED, ABSENT",
        "12:6: /expect/1/at: needs `that` beside it",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("events: [{at: 1s, fails: g}]", "8:10: /events/0: there is no host or group g"),
        ("events: [{at: 1s, stop: b}]", "8:19: /events/0/stop: no job b is submitted"),
        ("events: [{at: 1s, returns: h-1}]", "8:19: /events/0/returns: h-1 isn't away then"),
        ("events: [{at: 9s, returns: h}, {at: 1s, leaves: h-1}]", "8:19: /events/0/returns: h-1 has left for good"),
        ("events: [{at: 3s, returns: h-2}, {at: 1s, fails: h}, {at: 2s, returns: h}]", "/events/0/returns: h-2 isn't"),
        (
            "events: [{at: 1s, submit: {job_id: b, pool: /p, at: 3s}}]",
            "8:49: /events/0/submit/at: stands beside `submit`, not in it",
        ),
        ("events: [{at: 1s}]", "/events/0/at: must stand beside exactly one of"),
        ("events: [{at: 1s, stop: a, fails: h}]", "/events/0/at: must stand beside exactly one of"),
        ("events: [{at: 1s, lose: views}]", "must be one of gateway, lifecycle, entitlement, placement, sla"),
        ("expect: [{by: 1s, that: job b is RUNNING}]", "8:10: /expect/0: there is no job b"),
        ("expect: [{never: host g-1 is UP}]", "8:10: /expect/0: there is no host g-1"),
        ("expect: [{never: job a ran on dsik=ssd}]", "8:10: /expect/0: there is no host with dsik=ssd"),
        ("expect: [{never: 'job a ran on hostname=h-2, hostname=h-3'}]", "there is no host with hostname=h-3"),
        ("expect: [{never: pool /r demand cpu > 1}]", "8:10: /expect/0: there is no pool /r"),
        ("end: 5s\nexpect: [{at: 6s, that: job a is RUNNING}]", "9:10: /expect/0: is after the end"),
        ("end: 5s\nexpect: [{never: job a is FAILED, since: 6s}]", "9:10: /expect/0: is after the end"),
        ("end: 5s\nevents: [{at: 6s, stop: a}]", "9:11: /events/0/at: is after the end"),
        ("events: [{at: 1s, heal: sla}]", "8:19: /events/0/heal: sla isn't lost then"),
        ("events: [{at: 2s, heal: sla}, {at: 1s, lose: sla}, {at: 3s, heal: sla}]", "/events/2/heal: sla isn't lost"),
        ("events: [{at: 1s, lose: sla}, {at: 2s, lose: sla}]", "8:40: /events/1/lose: sla is lost then already"),
        ("expect: [{at: 1s, that: job a is RUNNING, since: 2s}]", "/expect/0/since: is for `always` and `never`"),
        ("expect: [{at: 1s, by: 2s, that: job a is RUNNING}]", "must have exactly one of at, by, always, never"),
        ("expect: [{never: job a is FAILED, that: job a is RUNNING}]", "stands without `that`"),
    ],
)
def test_what_is_named_must_be_there(text, wanted):
    [found] = faults(f"{CELL}jobs: [{{job_id: a, pool: /p}}]\n{text}\n")
    assert wanted in found


def test_what_failed_or_fell_silent_returns_and_in_between_nothing_does():
    group = "hosts: [{name: g, count: 2, resources: {cpu: 1}, joins: 10s, fails: 20s, returns: 30s}]\nevents: "
    assert faults(f"{group}[{{at: 25s, returns: g-1}}, {{at: 40s, silent: g}}, {{at: 50s, returns: g-2}}]\n") == []
    assert faults(f"{group}[{{at: 40s, fails: g-1}}, {{at: 50s, returns: g}}, {{at: 60s, leaves: g}}]\n") == []
    [found] = faults(f"{group}[{{at: 5s, fails: g}}, {{at: 6s, returns: g}}]\n")
    assert "/events/1/returns: g isn't away then" in found
    [found] = faults(f"{group}[{{at: 15s, leaves: g-1}}]\n")
    assert "/hosts/0/returns: g-1 has left for good" in found


@pytest.mark.parametrize(
    ("sim", "wanted"),
    [
        ("duration: 1s, durations: [2s]", "/jobs/0/sim/duration: stands without `durations`"),
        ("duration: 2s, draw: {exponential: 1s}", "/jobs/0/sim/duration: stands without `draw`"),
        ("durations: [2s], draw: {exponential: 1s}", "/jobs/0/sim/durations: stands without `draw`"),
    ],
)
def test_how_long_a_run_takes_is_said_in_one_way(sim, wanted):
    [found] = faults(f"{CELL}jobs: [{{job_id: a, pool: /p, sim: {{{sim}}}}}]\n")
    assert wanted in found


def test_names_stand_once_and_services_need_an_end():
    jobs = "jobs: [{job_id: a, pool: /p}, {job_id: a, pool: /p, kind: stateless}]\n"
    hosts = "hosts: [{name: h, count: 2, resources: {cpu: 1}}, {name: h-2, resources: {cpu: 1}}]\npools: [{path: /p}]\n"
    assert faults(hosts + jobs) == [
        "1:1: needs `end`: a never ends by itself",
        "1:52: /hosts/1/name: is the name of another group or host",
        "3:32: /jobs/1/job_id: a is the id of another job",
    ]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("jobs: [{job_id: a, pool: /p, sim: {usage: {cpu: 1}}}]", "what tasks use"),
    ],
)
def test_what_the_machines_cant_do_yet_is_refused_by_name(text, missing):
    found = faults(f"{text}\n")
    assert any("can't be simulated yet" in line and missing in line for line in found), found
    assert all(line.split(":")[0] == "1" for line in found)


def test_a_pool_stands_once_and_nothing_comes_after_the_end():
    text = "end: 5s\nhosts: [{name: h, resources: {cpu: 1}, joins: 6s, fails: 7s}]\npools: [{path: /p}, {path: /p}]\n"
    assert faults(text + "jobs: [{job_id: a, at: 6s, pool: /p}]\n") == [
        "2:40: /hosts/0/joins: is after the end",
        "2:51: /hosts/0/fails: is after the end",
        "3:22: /pools/1/path: is the path of another pool; change a pool by an event",
        "4:20: /jobs/0/at: is after the end",
    ]


def test_what_is_wrong_with_jobs_of_files_is_said_with_their_places(tmp_path, capsys):
    (tmp_path / "one.yaml").write_text("job_id: one\npool: /p\ncommand: [x]\n")
    (tmp_path / "My Job.yaml").write_text("# a comment\npool: /p\ncommand: [x]\n")
    (tmp_path / "wrong.yaml").write_text("job_id: wrong\npol: /p\ncommand: [x]\n")
    scenario = tmp_path / "scenario.yaml"
    job_files = "job_files: [{file: one.yaml}, {file: My Job.yaml, at: 9s}, {file: wrong.yaml}, {file: none.yaml}]\n"
    jobs = "jobs: [{job_id: one, pool: /p}, {job_id: my-job, pool: /p}]\n"
    scenario.write_text(CELL + "end: 8s\n" + jobs + job_files)
    assert run(["simulate", str(scenario)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"paceline: {scenario}:9:51: /job_files/1/at: is after the end",
        f"{tmp_path / 'My Job.yaml'}:2:1: /job_id: my-job is the id of another job",
        f"{tmp_path / 'one.yaml'}:1:1: /job_id: one is the id of another job",
        f"{tmp_path / 'wrong.yaml'}:2:1: /pol: is not a known field; did you mean pool?",
        f"{tmp_path / 'none.yaml'}: No such file or directory",
    ]


def test_jobs_of_files_are_submitted_with_the_others(tmp_path, capsys):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "one.yaml").write_text("pool: /p\ncommand: [sleep]\nresources: {cpu: 1}\n")
    (tmp_path / "two.yaml").write_text("job_id: two\npool: /p\ninstances: 2\nsim: {duration: 5s}\n")
    scenario = tmp_path / "scenario.yaml"
    files = "job_files: [{file: jobs}, {file: two.yaml, at: 10s}]\nexpect: [{by: 16s, that: job two is SUCCEEDED}]\n"
    scenario.write_text(CELL + files)
    assert run(["simulate", str(scenario), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == {"SUCCEEDED": 2}
    (tmp_path / "jobs" / "three.yaml").write_text("pool: /p\ncommand: [sleep]\n")
    assert [job.job_id for job in read_scenario(str(scenario)).jobs] == ["one", "three", "two"]
    scenario.write_text(CELL + "job_files: [{file: absent.yaml}]\n")
    assert run(["simulate", str(scenario)]) == 1
    assert "absent.yaml: No such file or directory" in capsys.readouterr().err


def test_the_schema_knows_every_field_of_the_example(capsys):
    assert run(["simulate", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    text = (ROOT / "examples" / "scenarios" / "first.yaml").read_text()
    named = {line.split(":")[0] for line in text.splitlines() if line and line[0].isalpha()}
    assert named <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def _values(path):
    return YAML(typ="safe").load(path.read_text())


def test_the_schemas_take_the_examples(capsys):
    for folder, schema in (("scenarios", json_schema()), ("jobs", JobSpec.model_json_schema())):
        checks = Draft202012Validator(schema)
        found = {
            path.name: [each.message for each in checks.iter_errors(_values(path))]
            for path in (ROOT / "examples" / folder).iterdir()
        }
        assert not any(found.values()), found
        assert len(found) > 1
    checks = Draft202012Validator(PoolSpec.model_json_schema())
    for pool in _values(ROOT / "examples" / "pools.yaml"):
        del pool["path"]
        checks.validate(pool)


@given(
    st.sampled_from(["end", "seed", "name", "hosts/0/resources/cpu", "hosts/0/resources/memory", "hosts/0/joins"]),
    st.sampled_from(
        ["", "x", "5", "5s", "0.5m", "1.5h", "5 s", "s", "500m", "2GiB", "0", "1e3s", 0, 5, 0.25, -1, True]
    ),
)
def test_the_schema_takes_what_the_reader_takes(field, value):
    body = {"hosts": [{"name": "h", "resources": {"cpu": 1}}]}
    *folders, last = field.split("/")
    inside = body
    for name in folders:
        inside = inside[int(name)] if name.isdecimal() else inside[name]
    inside[last] = value
    try:
        Scenario.model_validate(body)
        refused = ""
    except ValidationError as error:
        refused = str(error)
    if "whole number" in refused or "must be from 1ms" in refused or "must be from 0.001" in refused:
        return  # arithmetic, of which a schema knows nothing
    assert Draft202012Validator(json_schema()).is_valid(body) is not bool(refused), refused


@pytest.mark.parametrize("words", [[], ["a.yaml", "--trace", "b"], ["--trace", "b"], ["a.yaml", "--format", "swf"]])
def test_a_scenario_or_a_trace_is_named(words, capsys):
    assert run(["simulate", *words]) == 2
    assert "name a scenario, or a trace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--faults", "all", "--json", "--out", "o", "--data", "d"],
            "not with --faults: --data, --out, --json",
        ),
        (["--faults", "all", "--until", "1m"], "not with --faults: --until"),
        (["--faults", "all", "--trace", "t", "--format", "swf"], "not with --faults: --trace, --format"),
        (["--faults", "all", "--schema"], "not with --faults: --schema"),
        (["--faults", "all", "--seeds", "1", "--for", "1s"], "name --seeds or --for, not both"),
        (["--hosts", "3", "--jobs", "1"], "only with --trace: --jobs, --hosts"),
        (["--machines", "m", "--arrivals", "a"], "only with --trace: --machines, --arrivals"),
        (["--seeds", "3", "--for", "1m"], "only with --faults: --seeds, --for"),
        (["--again", "failing.yaml"], "only with --faults: --again"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words, said, tmp_path, capsys):
    (tmp_path / "scenario.yaml").write_text(CELL)
    assert run(["simulate", str(tmp_path / "scenario.yaml"), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "swf", "--seed", "3", "--arrivals", "a"], "only with --format openb: --seed, --arrivals"),
        (["--format", "philly", "--machines", "m"], "only with --format openb or swf: --machines"),
        (
            ["--format", "openb", "--machines", "m", "--hosts", "3"],
            "not with --machines, which names the hosts: --hosts",
        ),
        (["--format", "openb", "--machines", "m", "--seed", "3"], "only with --arrivals, orders by seed: --seed"),
    ],
)
def test_an_option_of_another_trace_is_refused(words, said, tmp_path, capsys):
    (tmp_path / "trace").touch()
    assert run(["simulate", "--trace", str(tmp_path / "trace"), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_job_that_runs_a_day_after_all_that_is_named_is_not_waited_for_and_that_is_said(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("paceline.simulate.session.DAY_MS", 600_000)  # a day of beats takes long
    path = tmp_path / "scenario.yaml"
    path.write_text(f"{CELL}jobs: [{{job_id: a, pool: /p, at: 5s, sim: {{duration: 11m}}}}]\n")
    assert run(["simulate", str(path)]) == 0
    said = capsys.readouterr().out
    assert "not waited for: 1 jobs, open a day after all that is named; say when to `end`\n" in said
    assert "10m5s of virtual time" in said


def test_a_folder_is_no_scenario(tmp_path, capsys):
    assert run(["simulate", str(tmp_path)]) == 1
    assert f"{tmp_path} is a folder; name the file of a scenario" in capsys.readouterr().err


def test_without_an_end_it_ends_when_nothing_is_left_to_do():
    assert play(f"{CELL}jobs: [{{job_id: a, pool: /p, at: 5s, sim: {{duration: 10s}}}}]\n").run.now_ms == 15_000
    never = play(f"{CELL}jobs: [{{job_id: a, pool: /p, at: 5s, resources: {{cpu: 99}}}}]\n")
    assert never.jobs.states == {"PENDING": 1}
    assert never.run.now_ms < 60_000, "it waits for what won't come"
    assert play(f"end: 90s\n{CELL}jobs: [{{job_id: a, pool: /p}}]\n").run.now_ms == 90_000
