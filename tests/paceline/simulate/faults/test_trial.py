"""Whole cells under faults by seed: what must hold holds, planted bugs are found, and failures get small."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.codec import decode, encode
from events.records.parts import Segment
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import sealed
from paceline.cli.main import run
from paceline.simulate.checker import Checker, Violation
from paceline.simulate.faults.injection import KINDS, VIEWS, Faults
from paceline.simulate.faults.shrink import Shrink, as_yaml
from paceline.simulate.faults.soak import ACTIONS, Failure, SoakSummary, _attempt, attempt, shrunk, soak
from paceline.simulate.faults.trial import Trial, TrialResult
from paceline.simulate.faults.views_under_trial import Views
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.session import with_end
from projections.queries import explain
from projections.views import projector
from projections.views.depths import Depths
from tests.helpers import ROOT
from tests.helpers.drawn import ALL, drawn
from tests.helpers.play import CELL, play
from tests.paceline.simulate import bugs
from tests.paceline.simulate.digest import digest
from tests.paceline.simulate.test_docs import PAGE

EVENTS_LEAST = 100_000 if ALL else 10_000
PARTS = 4 if ALL else 1
"""The trials are spread over the processes of a test run; each part goes on until it has met all kinds of faults."""
SMALL_ACTS, FEW_ACTS = 40, 8
SEEDS_MAX = 1000


@drawn
@pytest.mark.parametrize("part", range(PARTS))
def test_a_cell_under_faults_breaks_no_promise(part: int) -> None:
    met = SoakSummary()
    for seed in range(part, SEEDS_MAX, PARTS):
        found = attempt(draw_scenario(seed, ACTIONS))
        assert isinstance(found, TrialResult), f"seed {seed}: {found}"
        met.add(found)
        if met.events >= EVENTS_LEAST // PARTS and not met.missing(KINDS):
            return
    raise AssertionError(f"never injected: {met.missing(KINDS)}")


def test_views_that_crash_are_those_that_are_made_anew(tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    for seed in range(3):
        faults = Faults(seed)
        Trial(draw_scenario(seed, SMALL_ACTS), faults, views=tmp_path / str(seed)).run()
        met.update(faults.count())
    assert met["projector lost"]
    assert met["log away"] + met["read error"]


def test_views_that_forget_the_rounds_before_a_crash_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "Depths", lambda machine, older: Depths(machine, False))
    found = (attempt(draw_scenario(seed, SMALL_ACTS), views=True) for seed in range(SEEDS_MAX))
    failure = next(each for each in found if isinstance(each, Failure))
    assert "the views differ from rebuilt ones" in failure.why


def test_tasks_that_neither_run_nor_are_over_without_a_reason_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "of_moving", lambda job, known: ())
    found = (attempt(draw_scenario(seed, SMALL_ACTS), views=True) for seed in range(SEEDS_MAX))
    said = "nothing is said of why tasks of job"
    assert any(said in each.why for each in found if isinstance(each, Failure))


def test_a_soak_under_all_kinds_compares_views_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Views, "difference", lambda self: "jobs")
    scenario = draw_scenario(0, 5)
    failure = _attempt(print, scenario, KINDS, 0)
    assert isinstance(failure, Failure)
    assert "the views differ from rebuilt ones: jobs" in failure.why
    assert isinstance(_attempt(print, scenario, KINDS, 1), TrialResult)
    assert isinstance(_attempt(print, scenario, ["crash"], 0), TrialResult)
    monkeypatch.undo()
    assert isinstance(found := _attempt(print, scenario, KINDS, 0), TrialResult)
    assert VIEWS in found.faults


def test_the_same_seed_is_the_same_trial_in_any_process() -> None:
    def elsewhere(hash_seed: str) -> str:
        command = [sys.executable, "-c", "from tests.paceline.simulate.digest import digest; print(digest(3))"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert elsewhere("1").strip() == elsewhere("2").strip() == digest(3) != digest(4)


def test_the_checker_takes_a_round_that_every_reader_takes_and_no_other() -> None:
    log = play(f"{CELL}jobs: [{{job_id: a, pool: /p}}]\n").run.cell.log
    last = list(log.scan("paceline.placement", 0))[-1]
    before = decode(last.value)
    assert isinstance(before, RoundCommitted)
    last_digest = blake2b(last.value, digest_size=32).digest()
    nothing = blake2b(digest_size=32).digest()
    next_ = replace(before, round=before.round + 1, inputs=(), decisions=(), prev_hash=last_digest, inputs_hash=nothing)
    empty = Segment("paceline.pools", 0, 0)
    for wrong in ({"prev_hash": nothing}, {"round": before.round}, {"epoch": 0}, {"cell": 1}, {"inputs": (empty,)}):
        log.append([sealed(replace(next_, **wrong))])
    checker = Checker(log)
    checker.look()
    rounds = checker.rounds
    assert checker.history.ignored == 5
    log.append([sealed(next_)])
    checker.look()
    assert (checker.rounds, checker.history.ignored) == (rounds + 1, 5)
    last_hash = blake2b(encode(next_), digest_size=32).digest()
    other = replace(next_, round=next_.round + 1, prev_hash=last_hash, inputs_hash=last_digest)
    log.append([sealed(other)])
    with pytest.raises(Violation, match="says another hash than that of the inputs"):
        checker.look()


def test_two_processes_that_begin_with_different_states_are_found() -> None:
    log = play(f"{CELL}jobs: [{{job_id: a, pool: /p}}]\n").run.cell.log
    rounds = [decode(each.value) for each in log.scan("paceline.placement", 0)]
    claim, last = rounds[0], rounds[-1]
    assert isinstance(claim, EpochStarted)
    assert isinstance(last, RoundCommitted)
    state = blake2b(digest_size=32).digest()
    for epoch, begins in enumerate((state, state, bytes(32)), claim.epoch + 1):
        checker = Checker(log)
        checker.look()
        again = replace(claim, epoch=epoch, round=last.round, start_hash=begins)
        log.append([sealed(again)])
        if begins == state:
            checker.look()
    with pytest.raises(Violation, match=r"epoch 4 of placement begins with another state .* after round \d+"):
        checker.look()


def test_a_history_in_which_a_wait_is_told_is_decided_the_same_again() -> None:
    found = attempt(draw_scenario(16, 60))
    assert not isinstance(found, Failure), found.why


@pytest.mark.parametrize("plant", bugs.PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: bugs.Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    says, first, acts = bugs.PLANTED[plant]
    for seed in range(first, SEEDS_MAX):
        found = attempt(draw_scenario(seed, acts))
        if isinstance(found, Failure):
            assert re.search(says, found.why)
            return
    raise AssertionError(f"not found in {SEEDS_MAX} seeds")


@pytest.mark.parametrize(
    ("plant", "first", "faults"), [(bugs.partial_gang, 34, 0), (bugs.checkpoint_before_append, 14, 1)]
)
def test_a_failure_is_made_small_and_fails_again(
    plant: bugs.Plant, first: int, faults: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    scenario, found = next(
        (scenario, found)
        for scenario in (draw_scenario(seed, FEW_ACTS) for seed in range(first, SEEDS_MAX))
        if isinstance(found := attempt(scenario), Failure)
    )
    assert len(found.hits) > 10
    small = shrunk(scenario, found)
    assert len(small.faults or ()) == faults
    assert len(small.jobs) <= 2
    assert not small.events
    (tmp_path / "again.yaml").write_text(as_yaml(small))
    again = attempt(read_scenario(str(tmp_path / "again.yaml")))
    assert isinstance(again, Failure)
    assert re.search(bugs.PLANTED[plant].says, again.why)
    if plant is bugs.partial_gang:
        assert as_yaml(small) in PAGE.read_text(), "docs/simulate.md shows another one"
    monkeypatch.undo()
    assert isinstance(attempt(small), TrialResult), "the bug is gone"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_can_be_asked_for_by_its_name(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("paceline.simulate.faults.soak.soak", lambda scenario, kinds, *rest: asked.append(kinds) or 0)
    assert run(["simulate", "--faults", f"{kind}, pause"]) == 0
    assert {*asked[0]} == {kind, "pause"}


def test_under_faults_it_is_said_that_expectations_are_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"end: 5s\n{CELL}expect: [{{at: 1s, that: host h-1 is LOST}}]\n")
    assert run(["simulate", str(path), "--faults", "read short"]) == 0
    assert "what the scenario expects isn't looked at under faults" in capsys.readouterr().err


def test_what_was_made_small_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        f"end: 10s\n{CELL}jobs: [{{job_id: a, pool: /p}}, {{job_id: b, pool: /p}}]\n"
        "events: [{at: 1s, fails: h-1}, {at: 1s, fails: h-2}, {at: 2s, returns: h-1}, {at: 2s, stop: b}]\n"
        "expect: [{by: 5s, that: job a is SUCCEEDED}]\n"
    )
    small = Shrink(lambda scenario: any(event.returns or event.stop for event in scenario.events)).smallest(
        read_scenario(str(path)), []
    )
    path.write_text(as_yaml(small))
    assert read_scenario(str(path)) == small
    assert len(small.events) <= 2
    assert len(small.jobs) <= 1


def test_what_was_made_small_needs_no_job_files(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text("job_id: a\npool: /p\ncommand: [sleep]\n")
    path = tmp_path / "scenario.yaml"
    path.write_text(f"end: 10s\n{CELL}job_files: [{{file: jobs.yaml}}]\njobs: [{{job_id: b, pool: /p}}]\n")
    for left in "ab":
        small = Shrink(lambda scenario, left=left: left in {job.job_id for job in scenario.jobs}).smallest(
            read_scenario(str(path)), []
        )
        (tmp_path / "failing.yaml").write_text(as_yaml(small))
        assert [job.job_id for job in read_scenario(str(tmp_path / "failing.yaml")).jobs] == [left]


def test_a_scenario_that_names_its_faults_has_no_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failing.yaml"
    path.write_text(f"end: 5s\n{CELL}faults: [{{kind: crash, number: 2}}]\n")
    assert run(["simulate", str(path), "--faults", "all", "--again", str(tmp_path / "again.yaml")]) == 0
    said = capsys.readouterr().out
    assert " 1 crash\n" in said
    assert "never happened" not in said


def test_a_soak_tells_what_it_met_and_what_never_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert soak(draw_scenario(1, 20), ["read short", "log away"], range(1), 60.0, tmp_path / "failing.yaml") == 1
    said = capsys.readouterr().out
    assert " read short" in said
    assert "never happened: log away; ask for more seeds" in said


def test_views_are_made_on_every_seed_where_their_fault_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak(draw_scenario(1, 20), ["read short", VIEWS], range(3, 4), 60.0, tmp_path / "failing.yaml") == 0
    assert re.search(r"[1-9]\d* projector lost", capsys.readouterr().out)


def test_a_fault_that_is_named_and_never_happens_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failing.yaml"
    named = "faults: [{kind: crash, number: 99999}, {kind: crash, number: 2}, {kind: projector lost, number: 3}]"
    path.write_text(f"end: 5s\n{CELL}{named}\n")
    words = ["simulate", str(path), "--again", str(tmp_path / "again.yaml"), "--faults"]
    assert run([*words, "all"]) == 1
    said = capsys.readouterr().out
    assert re.search(r" 1 crash\n", said)
    assert re.search(r" 1 projector lost\n", said)
    assert said.endswith("never happened: crash 99999\n")
    assert run([*words, "crash"]) == 2
    assert "names faults that --faults leaves out: projector lost" in capsys.readouterr().err


def test_views_that_differ_fail_again_with_the_command_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Views, "difference", lambda self: "jobs")
    monkeypatch.chdir(tmp_path)  # what fails again is written there once more
    path = tmp_path / "failing.yaml"
    assert soak(draw_scenario(1, 3), [VIEWS], range(1, 2), 60.0, path) == 1
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].partition(": paceline ")[2])
    assert run(command) == 1
    assert "the views differ from rebuilt ones: jobs" in capsys.readouterr().out


def test_a_soak_that_is_interrupted_tells_what_it_has_met(tmp_path: Path) -> None:
    says_each_trial = "import paceline.simulate.faults.soak as soak; soak.REPORT_SECONDS, soak.ACTIONS = 0, 10; "
    runs = "import sys; from paceline.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", says_each_trial + runs, "simulate", "--faults", "all", "--for", "10m"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    assert re.fullmatch(r"seeds from \d+ on: with --seed \d+ they are the same again\n", first)
    while not re.fullmatch(r"[\d,]+ events in [1-9] seeds so far\n", said := process.stderr.readline()):
        assert said == "0 events in 0 seeds so far\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted")
    assert re.match(r"[\d,]+ events, [\d,]+ rounds, [\d,]+ records ignored in [1-9]\d* seeds\n", out)


def test_what_was_put_off_by_a_clock_that_jumped_twice_is_waited_for(tmp_path: Path) -> None:
    """As a soak had it: placement's clock was two hours ahead when it gave a gang back."""
    path = tmp_path / "scenario.yaml"
    path.write_text(
        """
seed: 202163
end: 2m
hosts: [{name: some, resources: {cpu: 2, disk: 10000MiB}, fails: 67371ms}]
pools: [{path: /b}]
jobs: [{job_id: a, pool: /b, at: 111179ms, resources: {cpu: 50m, memory: 16MiB, disk: 4000MiB}}]
faults: [{kind: pause, number: 398}, {kind: clock jump, number: 450}, {kind: clock jump, number: 481}]
"""
    )
    found = attempt(read_scenario(str(path)))
    assert isinstance(found, TrialResult), found
    assert found.faults["clock jump"] == 2


def test_a_late_report_of_a_run_that_its_host_has_lost_is_late() -> None:
    """As a soak had it: the report stands in the log after the inventory of the host that came back with nothing."""
    found = attempt(draw_scenario(302313, ACTIONS))
    assert isinstance(found, TrialResult), found


def test_a_scenario_without_an_end_happens_under_faults_until_it_would_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        f"{CELL}jobs: [{{job_id: a, pool: /p, instances: 4, resources: {{cpu: 1}}, sim: {{duration: 1m}}}}]\n"
    )
    assert soak(read_scenario(str(path)), ["read short"], range(2), 60.0, tmp_path / "failing.yaml") == 0
    assert re.search(r"[1-9]\d* read short", capsys.readouterr().out)
    assert with_end(read_scenario(str(path))).end == 60_000
