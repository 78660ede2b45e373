"""`paceline log verify --build`: another Paceline decides recorded rounds, each in the state in which the cell was."""

import io
import json
import subprocess
import sys
import tarfile
from collections import defaultdict
from contextlib import closing, redirect_stdout
from copy import deepcopy
from pathlib import Path

import pytest

from events.codec import decode, writer_schema
from events.log.embedded import EmbeddedLog
from paceline.cli.main import run
from paceline.client.errors import InvalidValue
from paceline.history import other_build
from paceline.history.build_protocol import PROTOCOL, Hello, Order, Reached, Span
from paceline.history.other_build import ask_build
from paceline.moments.order import LogAddress
from processors.cell_machines import machines
from processors.runtime.replay import Replay
from processors.runtime.store import MemoryStore
from tests.helpers import ROOT
from tests.helpers.builds import NO_LENDING, copied, wrapper
from tests.helpers.past import past
from tests.helpers.waiting import until

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("builds")]


@pytest.fixture(scope="module")
def stingy(tmp_path_factory):
    """A build that lends nothing."""
    return copied(tmp_path_factory.mktemp("stingy"), NO_LENDING)


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """The data folder of a cell that lends."""
    folder = tmp_path_factory.mktemp("lent") / "cell"
    with redirect_stdout(io.StringIO()):
        assert run(["simulate", str(ROOT / "examples" / "scenarios" / "three_teams.yaml"), "--data", str(folder)]) == 0
    return folder


def otherwise(data: str) -> set[tuple[str, int]]:
    """The rounds that this process decides otherwise, each by a replay of its own from the round before."""
    differing = set()
    with closing(EmbeddedLog.open_secondary(Path(data) / "log")) as log:
        for name, make in machines().items():
            store, number, is_there = MemoryStore(), 0, True
            while is_there:
                number += 1
                replay = Replay(make(), log, deepcopy(store))
                is_there = bool(list(replay.rounds(first=number, last=number)))
                if replay.result.difference is not None:
                    differing.add((name, number))
                list(Replay(make(), log, store).rounds(decide=False, last=number))
    return differing


def test_the_same_build_decides_each_round_alike(cli, data):
    code, out, _ = cli("log", "verify", "--data", data, "--build", sys.executable)
    assert code == 0
    rounds = sum(result.rounds for result in (_replayed(name) for name in machines()))
    assert f"{rounds:,} rounds compared: Paceline" in out
    assert "would decide each of them alike" in out


def _replayed(name):
    replay = Replay(machines()[name](), past())
    for _ in replay.rounds():
        pass
    return replay.result


def test_each_round_that_a_build_decides_otherwise_is_found_and_no_other(cli, lent, stingy):
    code, out, _ = cli("log", "verify", "--data", lent, "--build", stingy, "-o", "json")
    body = json.loads(out)
    asks = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.paceline.history.test_other_build import otherwise
print(sorted(otherwise({str(lent)!r})))
"""
    said = subprocess.run([stingy, "-P", "-c", asks], capture_output=True, text=True, check=True).stdout
    expected = {tuple(each) for each in json.loads(said.replace("(", "[").replace(")", "]").replace("'", '"'))}
    assert code == 1
    assert expected
    assert {(each["machine"], each["round"]) for each in body["differences"]} == expected
    assert body["differing"] == len(expected)


def test_what_differs_is_told_by_kind_pool_and_job_and_shown_side_by_side(cli, lent, stingy):
    code, out, _ = cli("log", "verify", "--data", lent, "--build", stingy)
    assert code == 1
    assert "rounds would differ with Paceline" in out
    rows = out.split("by kind, pool and job")[1].splitlines()
    row = next(line.split() for line in rows if " GangsAdmitted " in line)
    assert row[:4] == ["entitlement", "GangsAdmitted", "/a", "a-03"]
    assert out.split("first GangsAdmitted, a-03 of /a: entitlement round ")[1].splitlines()[1].split() == [
        *("FIELD", "RECORDED", "BY", "THE", "BUILD")
    ]


def test_what_follows_from_a_difference_is_none_of_its_own(cli, data, tmp_path):
    """A build that decides nothing lacks what the first pass decided, and not what followed from that."""
    mute = copied(
        tmp_path,
        (
            "processors/base.py",
            "        out = self._decide(this)\n",
            "        out: list[Event] = self._decide(this)[:0]\n",
        ),
    )
    body = json.loads(cli("log", "verify", "--data", data, "--build", mute, "-o", "json")[1])
    told = {(each["machine"], each["round"]): len(each["decisions"]) for each in body["differences"]}
    expected = {}
    for name in machines():
        replay = Replay(machines()[name](), past())
        fold, decide = replay.fold, replay.fold.machine.decide
        sizes = []
        fold.machine.decide = lambda *asked, decide=decide, sizes=sizes: (sizes.append(out := decide(*asked)), out)[1]
        for record in replay.rounds():
            if record.decisions:
                expected[name, record.round] = len(sizes[0])
            sizes.clear()
    assert told == expected


def test_rounds_of_another_logic_and_state_are_compared(cli, data, tmp_path):
    logic = machines()["entitlement"]().logic
    state = machines()["entitlement"]().state
    file = "processors/entitlement/machine.py"
    next_ = copied(
        tmp_path,
        (file, f"    logic: ClassVar[int] = {logic}\n", f"    logic: ClassVar[int] = {logic + 1}\n"),
        (file, f"    state: ClassVar[int] = {state}\n", f"    state: ClassVar[int] = {state + 1}\n"),
    )
    words = ("log", "verify", "--data", data, "--build", next_, "-o", "json", "--machine", "entitlement")
    code, out, _ = cli(*words)
    [machine] = json.loads(out)["machines"]
    assert code == 0
    assert machine["other_logic"] == machine["rounds"] > 0


def test_fields_that_the_writer_could_not_say_are_no_difference(cli, tmp_path):
    """A cell of 0.3.0 is compared with this build, whose records have more fields."""
    with tarfile.open(ROOT / "tests" / "upgrade" / "cell-0.3.0.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    data = tmp_path / "data"
    body = json.loads(cli("log", "verify", "--data", data, "--build", sys.executable, "-o", "json")[1])
    assert body["machines"][0]["other_logic"] == body["machines"][0]["rounds"] > 100
    assert body["differing"] < body["rounds"]
    lacking = defaultdict(set)
    with closing(EmbeddedLog.open_secondary(data / "log")) as log:
        for name in machines():
            for record in Replay(machines()[name](), log).rounds(decide=False):
                for value in record.decisions:
                    kind = type(decode(value))
                    known = {field["name"] for field in writer_schema(value)["fields"]}
                    lacking[kind.__name__] |= {*kind.__struct_fields__} - known
    assert lacking["TasksPlaced"]
    for each in body["findings"]:
        if each["otherwise"] and each["fields"]:
            assert {row["field"] for row in each["fields"] if row["mark"]} - lacking[each["kind"]], each


def test_a_stretch_of_rounds_of_a_folder_and_of_a_file_and_by_many(cli, lent, stingy, tmp_path):
    data = lent
    build = ("--build", stingy, "-o", "json")
    whole = json.loads(cli("log", "verify", "--data", data, *build)[1])
    together = json.loads(cli("log", "verify", "--data", data, *build, "--jobs", 3)[1])
    assert {name: together[name] for name in ("rounds", "differing")} == {
        name: whole[name] for name in ("rounds", "differing")
    }
    by_round = sorted((each["machine"], each["round"]) for each in whole["differences"])
    assert sorted((each["machine"], each["round"]) for each in together["differences"]) == by_round

    first, last = by_round[0][1], by_round[1][1]
    stretch = ("--machine", by_round[0][0], "--from", first + 1, "--to", last)
    part = json.loads(cli("log", "verify", "--data", data, *build, *stretch)[1])
    assert [(each["machine"], each["round"]) for each in part["differences"]] == [by_round[1]]
    assert part["rounds"] == last - first

    file = tmp_path / "stretch.avro"
    times = ("--from", "2023-11-14T22:15:00Z", "--to", "2023-11-14T22:17:20Z")
    assert cli("log", "export", "--data", data, *times, file)[0] == 0
    exported = json.loads(cli("log", "verify", file, *build)[1])
    found = {(each["machine"], each["round"]) for each in exported["differences"]}
    assert found
    assert found < {*by_round}


def test_a_build_that_fails_to_decide_is_a_finding_and_the_rest_goes_on(cli, data, tmp_path):
    faulty = copied(
        tmp_path,
        ("processors/sla/machine.py", "    def _decide(self, this: Pass) -> list[Event]:\n",
         "    def _decide(self, this: Pass) -> list[Event]:\n        raise ValueError('planted')\n\n"
         "    def _decide_(self, this: Pass) -> list[Event]:\n"),
    )  # fmt: skip
    code, out, _ = cli("log", "verify", "--data", data, "--build", faulty, "-o", "json")
    body = json.loads(out)
    assert code == 1
    assert {each["machine"] for each in body["differences"]} == {"sla"}
    assert "planted" in body["differences"][0]["fault"]
    assert body["rounds"] == sum(_replayed(name).rounds for name in machines())


def test_a_build_that_is_killed_ends_the_gate_and_says_so(cli, data, tmp_path):
    dying = copied(
        tmp_path,
        ("paceline/history/round_comparison.py", "    recorded = round_.record.decisions\n    while True:\n"
         "        start = round_.applied\n        try:",
         "    recorded = round_.record.decisions\n    while True:\n        if round_.record.round == 9:\n"
         "            import os\n            os.kill(os.getpid(), 9)\n        start = round_.applied\n        try:"),
    )  # fmt: skip
    code, out, err = cli("log", "verify", "--data", data, "--build", dying)
    assert (code, out) == (1, "")
    assert "The process that decides" in err
    assert "ended with -9" in err


def test_a_build_whose_output_ends_early_has_not_decided_all(cli, data, tmp_path):
    """As through a wrapper whose exit code is that of another process."""
    short = script(tmp_path / "short", f'"{wrapper(tmp_path / "python")}" "$@" | head -n 3')
    code, out, err = cli("log", "verify", "--data", data, "--build", short)
    assert (code, out) == (1, "")
    assert "ended with 0 before it had decided all" in err


def test_a_build_that_never_answers_is_given_up(cli, data, tmp_path, monkeypatch):
    monkeypatch.setattr(other_build, "ASK_S", 0.2)
    silent = script(tmp_path / "silent", "echo hello; sleep 3600; exit")
    words = ("--data", data, "--build", silent)
    for command in (("log", "verify"), ("what-if", "--from", "2023-11-14T22:14:00Z")):
        code, out, err = cli(*command, *words)
        assert (code, out) == (2, "")
        assert "silent hasn't answered within 0.2 s. Name the Python interpreter" in err


def script(file, line):
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
    return file


def test_who_asks_and_is_gone_leaves_no_process_behind(data):
    order = Order(PROTOCOL, LogAddress(str(data), 0), {name: Span() for name in machines()}, follow=True)
    worker = ask_build(sys.executable, order)
    for message in worker.messages():
        if isinstance(message, Reached) and message.machine == "sla" and message.position == message.end:
            break
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    until(lambda: worker.process.poll() is not None, "the end of the process that decides")
    worker.close()


def test_what_is_no_build_is_wrong_usage_and_says_what_to_do(cli, data, tmp_path):
    (tmp_path / "old").mkdir()
    old = copied(
        tmp_path / "old",
        ("events/__init__.py", 'VERSION = "', 'VERSION = "0.3.0" or "'),
    )
    (tmp_path / "old" / "tree" / "paceline" / "history" / "build_worker.py").unlink()
    (tmp_path / "bare").mkdir()
    bare = wrapper(tmp_path / "bare" / "python", options="-S")
    quiet = tmp_path / "quiet"
    quiet.write_text("#!/bin/sh\nexit 0\n")
    quiet.chmod(0o755)
    for python, words in (
        (tmp_path / "none", "can't be started: No such file or directory. Name a Python interpreter"),
        (tmp_path, "can't be started: Permission denied"),
        (bare, "Install the release there"),
        (old, "Paceline 0.3.0 of"),
        (old, "builds can be from 0.4.0 on"),
        (quiet, "doesn't answer as Paceline does"),
    ):
        code, out, err = cli("log", "verify", "--data", data, "--build", python)
        assert (code, out) == (2, ""), err
        assert words in err


def test_an_order_of_a_later_release_is_refused_by_an_old_worker(data):
    order = Order(PROTOCOL + 1, LogAddress(str(data), 0), {"sla": Span()})
    with ask_build(sys.executable, order) as worker, pytest.raises(InvalidValue, match="too old for what is asked"):
        assert [type(each) for each in worker.messages()] == [Hello]


def test_usage_and_logs_that_cannot_be_reached(cli, data, tmp_path):
    build = ("--build", sys.executable)
    assert cli("log", "verify", "--data", data, *build, "--head", "head.json")[0] == 2
    assert cli("log", "verify", "--data", tmp_path / "nothing", *build)[0] == 6
    assert cli("log", "verify", "--data", data, *build, "--machine", "sla", "--from", 1000)[0] == 1
    EmbeddedLog(tmp_path / "empty" / "log").close()
    assert cli("log", "verify", "--data", tmp_path / "empty", *build)[0] == 1


def test_the_modules_of_this_process_are_none_of_a_build(cli, data, tmp_path, monkeypatch):
    """A build is what its interpreter imports, whatever this process was started with."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    bare = wrapper(tmp_path / "python", options="-S")
    code, _, err = cli("log", "verify", "--data", data, "--build", bare)
    assert code == 2
    assert "There is no Paceline in" in err
