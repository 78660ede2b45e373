"""`paceline log verify`: stretches of rounds, several machines at once, heads, and what is shown of a difference."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from events.codec import decode, encode
from events.columns import ints
from events.log.embedded import EmbeddedLog
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted
from paceline.history.row_diff import row_body
from paceline.history.verify import verify
from processors.runtime.replay import Replay
from processors.runtime.store import MemoryStore
from tests.helpers.forge import forge
from tests.helpers.past import past, written
from tests.helpers.toys import Left, Right
from tests.paceline.cli.test_log import history


class Otherwise(Left):
    """Decides otherwise about the second ball, which nobody's state shows; about the third, which it does."""

    def decide(self, now, caught_up, budget):
        out = super().decide(now, caught_up, budget)
        return [self.other(each) if isinstance(each, CommandAnswered) else each for each in out]

    def other(self, event):
        if event.command_id == "two":
            return msgspec.structs.replace(event, code="OTHER")
        return msgspec.structs.replace(event, command_id="four") if event.command_id == "three" else event


@pytest.fixture
def toys(tmp_path):
    log = EmbeddedLog(tmp_path / "log", now_ms=lambda: 1_787_308_867_000)
    history(log)
    yield log
    log.close()


def test_a_difference_that_leaves_the_state_as_it_is_parts_the_states_later(toys):
    result, other = (each.result for each in verify(toys, {"left": Otherwise, "right": Right}))
    assert (other.difference, other.rounds) == (None, 3)
    assert (result.difference.round, result.difference.index) == (2, 0)
    assert result.divergence.round == 3
    rows = {row.key: row_body(row, Left()) for row in result.divergence.rows}
    shown = {body["key"]: (body["recorded"], body["decided"]) for body in rows.values()}
    assert shown == {"three": ({"stage": 2}, {"stage": 1}), "four": (None, {"stage": 2, "due_ms": 0})}


def test_states_that_never_part_are_said_to_be_the_same(toys):
    class Mild(Otherwise):
        def other(self, event):
            return msgspec.structs.replace(event, code="OTHER") if event.command_id == "two" else event

    result = verify(toys, {"left": Mild})[0].result
    assert result.difference.round == 2
    assert result.divergence is None
    assert result.hash == verify(toys, {"left": Left})[0].result.hash


def test_a_replay_begins_where_its_store_stands(toys):
    store = MemoryStore()
    for _ in Replay(Left(), toys, store).rounds(last=2):
        pass
    rest = Replay(Otherwise(), toys, store.copy())
    assert rest.result.begun == 2
    assert [event.round for event in rest.rounds()] == [3]
    assert rest.result.difference.round == 3


def test_what_comes_before_is_folded_and_what_comes_after_is_left(cli, data):
    code, out, _ = cli("log", "verify", "--data", data, "--machine", "lifecycle", "--from", 10, "--to", 25)
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["lifecycle", "16", "9"]
    told = "16 rounds replayed: all identical, byte for byte; 9 rounds before them were applied only\n"
    assert out.endswith(told)
    code, _, err = cli("log", "verify", "--data", data, "--from", 10)
    assert (code, "name it with --machine" in err) == (2, True)
    assert "nobody is none of" in cli("log", "verify", "--data", data, "--machine", "nobody")[2]


def test_a_stretch_without_rounds_is_refused(cli, data, tmp_path):
    given = ("log", "verify", "--data", data, "--machine", "lifecycle")
    code, _, err = cli(*given, "--from", 10, "--to", 3)
    assert (code, "--from is after --to" in err) == (2, True)
    code, out, err = cli(*given, "--from", 3000)
    assert (code, out) == (1, "")
    last = sum(isinstance(decode(each.value), RoundCommitted) for each in past().scan("paceline.lifecycle", 0))
    assert f"There is nothing to decide again: the last round of lifecycle here is {last}." in err
    when = ("--from", "2023-11-14T22:13:40Z", "--to", "2023-11-14T22:14:20Z")
    assert cli("log", "export", "--data", data, *when, tmp_path / "stretch.avro")[0] == 0
    code, _, err = cli("log", "verify", tmp_path / "stretch.avro", "--machine", "lifecycle", "--to", 3)
    assert (code, "There is nothing to decide again: the first round of lifecycle here is " in err) == (1, True)


def test_a_folder_without_a_log_stays_as_it_is(cli, tmp_path):
    (tmp_path / "empty" / "log").mkdir(parents=True)
    for folder in (tmp_path / "none", tmp_path / "empty"):
        assert "There is no log in" in cli("log", "verify", "--data", folder)[2]
    assert not (tmp_path / "none").exists()
    assert not list((tmp_path / "empty" / "log").iterdir())


def test_machines_are_verified_at_once_with_the_same_result(cli, data):
    given = ("log", "verify", "--data", data, "-o", "json")
    one, many = (json.loads(cli(*given, *more)[1]) for more in ((), ("--jobs", 2)))
    for body in (one, many):
        assert body.pop("identical")
        assert body.pop("difference") is None
        for each in body["machines"]:
            each.pop("events_per_second")
    assert one == many
    assert [each["machine"] for each in one["machines"]] == ["lifecycle", "entitlement", "placement", "sla"]
    assert one["machines"][0]["rounds"] > 50


def test_a_head_kept_elsewhere_shows_that_a_log_was_cut(cli, data, tmp_path):
    head = tmp_path / "head.json"
    code, _, err = cli("log", "verify", "--data", data, "--save-head", head)
    assert (code, err.splitlines()[-1]) == (0, f"the head was saved to {head}; keep it elsewhere"), err
    assert cli("log", "verify", "--data", data, "--head", head, "--machine", "placement")[0] == 0
    body = json.loads(head.read_text())
    end = past().topic("paceline.tasks").end
    body["topics"]["paceline.tasks"]["end"] = end + 3
    head.write_text(json.dumps(body))
    code, out, _ = cli("log", "verify", "--data", data, "--head", head, "--machine", "placement")
    assert code == 1
    assert f"the log differs: paceline.tasks was cut: it ends at {end}" in out
    assert f"the record that differs is one of paceline.tasks:{end}-{end + 2}" in out
    head.write_text("{}")
    code, _, err = cli("log", "verify", "--data", data, "--head", head, "--machine", "sla")
    assert (code, "is no head of a log" in err) == (1, True)
    assert cli("log", "verify", "--data", data, "--save-head", head, "--machine", "sla")[0] == 2


def test_a_saved_head_holds_for_a_log_that_went_on(cli, tmp_path):
    log = EmbeddedLog(tmp_path / "log", now_ms=lambda: 1)
    log.close()
    head = tmp_path / "head.json"
    assert cli("log", "verify", "--data", tmp_path, "--save-head", head)[0] == 0
    log = EmbeddedLog(tmp_path / "log", now_ms=lambda: 1)
    log.append([NewRecord("paceline.jobs", b"a", encode(JobStopRequested(job_id="a", command_id="a")))])
    log.close()
    assert cli("log", "verify", "--data", tmp_path, "--head", head)[0] == 0


def test_bars_are_drawn_where_somebody_looks_and_leave_the_output_alone(cli, data, monkeypatch):
    given = ("log", "verify", "--data", data, "--machine", "placement", "-o", "json")
    plain = json.loads(cli(*given)[1])
    monkeypatch.setattr("paceline.cli.commands.log_verify.live", lambda stream: True)
    drawn = json.loads(cli(*given)[1])
    for body in (plain, drawn):
        body["machines"][0].pop("events_per_second")
    assert drawn == plain


def elsewhere(event: RoundCommitted) -> RoundCommitted:
    """The first task that a round placed was placed on another host."""
    decisions = []
    for value in event.decisions:
        decision = decode(value)
        if isinstance(decision, TasksPlaced):
            hosts = ints(decision.host).copy()
            hosts[0] = hosts[-1]
            value = encode(msgspec.structs.replace(decision, host=hosts.tobytes()))
        decisions.append(value)
    return msgspec.structs.replace(event, decisions=tuple(decisions))


def test_what_differs_is_shown_with_its_place_both_decisions_and_the_tasks_that_it_makes_different(cli, tmp_path):
    rounds = [decode(each.value) for each in past().scan("paceline.placement", 0)]
    number = next(
        event.round
        for event in rounds
        if isinstance(event, RoundCommitted) and any(isinstance(decode(each), TasksPlaced) for each in event.decisions)
    )
    written(forge(past(), "placement", number, elsewhere), tmp_path)
    code, out, _ = cli("log", "verify", "--data", tmp_path, "--machine", "placement")
    assert code == 1
    lines = out.splitlines()
    assert lines[2] == f"the log differs at placement round {number}, decision 0: decided otherwise"
    assert lines[3] == f"the record that differs is paceline.placement:{number}"
    assert next(line.split()[1] for line in lines if line.startswith("≠")) == "host"
    assert f"the states part after round {number}" in lines
    [row] = [line.split() for line in lines if " host[" in line]
    assert (row[:3], row[4] != row[5]) == (["≠", "runs", "0"], True)
    out = cli("log", "verify", "--data", tmp_path, "--jobs", "2")[1]
    assert f"the log differs at placement round {number}, decision 0: decided otherwise" in out
    assert "lifecycle differs too" in out, "it followed what was forged"


def test_ctrl_c_ends_all_processes_at_once(data):
    command = [sys.executable, "-m", "paceline", "log", "verify", "--data", str(data), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (workers := workers_of(process.pid)):
        assert process.poll() is None
    os.kill(workers[0], signal.SIGSTOP)  # it can't end before it is interrupted
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "\ninterrupted\n")
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def workers_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
