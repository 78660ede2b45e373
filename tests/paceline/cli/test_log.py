"""`paceline log` and `paceline admin` on the embedded log of a folder, and the same on a real Kafka."""

import json
import os
import sys
from types import SimpleNamespace

import msgspec
import pytest
from ruamel.yaml import YAML

from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, NewRecord
from events.records.jobs import JobStopRequested, JobSubmitted
from events.topics import EVERY, SETTINGS
from paceline.cli.commands.log import _brief
from paceline.history.verify import _context
from paceline.services.data_folder import keep_cell
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from tests.helpers.broker import Broker
from tests.helpers.toys import TOYS, Left, Right


class Frozen:
    def monotonic_ms(self) -> int:
        return 0


class Otherwise(Left):
    """Decides otherwise about the second ball."""

    def decide(self, now, caught_up, budget):
        out = super().decide(now, caught_up, budget)
        return [msgspec.structs.replace(each, code="OTHER") if each.command_id == "two" else each for each in out]


class Silent(Left):
    def decide(self, now, caught_up, budget):
        return []


def history(log: Log) -> None:
    """Three rounds of each toy."""
    drivers = [Driver(make(), log, MemoryStore(), Frozen(), "test") for make in TOYS.values()]
    for driver in drivers:
        for _ in driver.recover():
            pass
    for number, ball in enumerate(("one", "two", "three"), 1):
        stop = JobStopRequested(job_id=ball, command_id=ball)
        log.append([NewRecord("paceline.jobs", ball.encode(), encode(stop))])
        while min(driver.fold.own.round for driver in drivers) < number:
            for driver in drivers:
                driver.run()


def use(monkeypatch, left: type[Left] = Left) -> None:
    found = {"left": left, "right": Right}
    monkeypatch.setitem(sys.modules, "processors.cell_machines", SimpleNamespace(machines=lambda cell: found))


@pytest.fixture
def data(tmp_path):
    log = EmbeddedLog(tmp_path / "log", now_ms=lambda: 1_787_308_867_000)
    history(log)
    log.close()
    return str(tmp_path)


def test_a_log_is_verified_beside_the_cell_that_writes_it(cli, data, monkeypatch, tmp_path):
    use(monkeypatch)
    writer = EmbeddedLog(tmp_path / "log")
    try:
        code, out, err = cli("log", "verify", "--data", data)
    finally:
        writer.close()
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0] == ["MACHINE", "REPLAYED", "APPLIED", "ONLY", "DECISIONS", "EVENTS", "EVENTS/s", "STATE", "HASH"]
    assert [line[:4] for line in lines[1:3]] == [["left", "3", "0", "3"], ["right", "3", "0", "3"]]
    assert out.endswith("6 rounds replayed: all identical, byte for byte\n")
    assert cli("log", "verify", "--data", data, "-o", "name") == (0, "left\nright\n", "")
    body = YAML(typ="safe", pure=True).load(cli("log", "verify", "--data", data, "-o", "yaml")[1])
    assert (body["identical"], [each["rounds"] for each in body["machines"]]) == (True, [3, 3])
    body = json.loads(cli("log", "verify", "--data", data, "-o", "json")[1])
    assert body["identical"]
    assert [each["hash"] for each in body["machines"]] == [lines[1][-1], lines[2][-1]]


def test_the_first_difference_is_shown_side_by_side(cli, data, monkeypatch):
    use(monkeypatch, Otherwise)
    code, out, _ = cli("log", "verify", "--data", data)
    assert code == 1
    assert "the log differs at left round 2, decision 0: decided otherwise" in out
    shown = {line.split()[-3]: line.split() for line in out.splitlines() if line.endswith(("OTHER", "two"))}
    assert shown["code"] == ["≠", "code", "DONE", "OTHER"]
    assert shown["command_id"] == ["command_id", "two", "two"]
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("right")] == [["right", "3"]]
    found = json.loads(cli("log", "verify", "--data", data, "-o", "json")[1])["difference"]
    assert (found["machine"], found["round"], found["index"]) == ("left", 2, 0)
    assert (found["recorded"]["code"], found["decided"]["code"]) == ("DONE", "OTHER")


def test_a_decision_that_is_missing_is_a_difference(cli, data, monkeypatch):
    use(monkeypatch, Silent)
    code, out, _ = cli("log", "verify", "--data", data)
    assert code == 1
    assert "left round 1, decision 0" in out
    assert "(nothing)" in out


def test_rounds_of_another_logic_are_folded_and_that_is_said(cli, data, monkeypatch):
    use(monkeypatch, type("Newer", (Left,), {"logic": 2, "name": "left", "peers": ("right",)}))
    code, out, _ = cli("log", "verify", "--data", data)
    assert code == 0
    assert "3 rounds replayed" in out
    assert "3 rounds of another logic were applied only" in out


def test_a_log_that_lost_records_is_a_difference(cli, data, monkeypatch, tmp_path):
    use(monkeypatch)
    log = EmbeddedLog(tmp_path / "log")
    log.truncate("paceline.jobs", 1)
    log.close()
    code, out, _ = cli("log", "verify", "--data", data)
    assert code == 1
    assert "the log can't be replayed: paceline.jobs starts at 1" in out


def test_no_log_there_is_6(cli, tmp_path, monkeypatch):
    use(monkeypatch)
    assert cli("log", "verify", "--data", str(tmp_path / "none"))[0] == 6


def test_a_log_is_of_the_cell_of_its_data_folder(cli, monkeypatch, tmp_path):
    use(monkeypatch)
    log = EmbeddedLog(tmp_path / "log", 1)
    history(log)
    log.close()
    keep_cell(tmp_path, 1)
    code, out, _ = cli("log", "verify", "--data", str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, "6 rounds replayed: all identical, byte for byte")
    code, _, err = cli("log", "verify", "--data", str(tmp_path), "--cell", "0")
    assert (code, "is the data folder of cell 1, not 0" in err) == (1, True)


def test_a_log_without_rounds_is_not_called_verified(cli, monkeypatch, tmp_path):
    use(monkeypatch)
    EmbeddedLog(tmp_path / "log").close()
    code, out, err = cli("log", "verify", "--data", str(tmp_path))
    assert (code, out, "There is nothing to verify: the log of cell 0 has no rounds." in err) == (1, "", True)


def test_long_values_are_cut_to_where_they_part():
    same = "x" * 100
    old, new = _context(f"{same}a{same}", f"{same}b{same}")
    assert old == "…" + "x" * 30 + "a" + "x" * 29 + "…"
    assert new == "…" + "x" * 30 + "b" + "x" * 29 + "…"
    assert _context("short", "shorter") == ("short", "shorter")
    assert _context(same, "x") == ("x" * 1 + "x" * 30 + "…", "x")


def test_decisions_of_one_kind_are_counted():
    body = {"round": 3, "epoch": 1, "decisions": [{"event": name} for name in ("A", "B", "A", "A")]}
    assert _brief(body, "") == "round 3 epoch 1: A x 3, B"


def test_following_the_log_from_its_start(cli, data):
    code, out, _ = cli("log", "tail", "--data", data, "--from-start", "--no-follow", "--utc")
    assert code == 0
    first = out.splitlines()[0]
    assert first.startswith("2026-08-21T10:41:07.000Z  paceline.jobs:0  JobStopRequested  one  ")
    assert len(out.splitlines()) == 3
    rows = cli("log", "tail", "--data", data, "--topic", "jobs", "--from-start", "--no-follow", "-o", "json")[1]
    assert [json.loads(row)["command_id"] for row in rows.splitlines()] == ["one", "two", "three"]
    tail = ("log", "tail", "--data", data, "--topic", "jobs", "--from-start", "--no-follow")
    written = YAML(typ="safe", pure=True).load_all(cli(*tail, "-o", "yaml")[1])
    assert [each["command_id"] for each in written] == ["one", "two", "three"]
    assert cli(*tail, "-o", "name")[1].split() == ["paceline.jobs:0", "paceline.jobs:1", "paceline.jobs:2"]
    assert cli("log", "tail", "--data", data, "--no-follow") == (0, "", "")


def test_bytes_that_are_no_record_are_shown_as_such(cli, tmp_path):
    log = EmbeddedLog(tmp_path / "log")
    log.append([NewRecord("paceline.jobs", b"k", b"rubbish")])
    log.close()
    out = cli("log", "tail", "--data", str(tmp_path), "--from-start", "--no-follow")[1]
    assert "paceline.jobs:0  unreadable  k  code NOT_AVRO" in out


def test_topics_of_the_embedded_log(cli, data):
    code, out, _ = cli("log", "topics", "--data", data)
    assert code == 0
    assert ["paceline.jobs", "0", "3", "users"] in [line.split()[:4] for line in out.splitlines()]
    told = json.loads(cli("log", "topics", "--data", data, "-o", "json")[1])["topics"]
    assert {key: told[0][key] for key in ("topic", "start", "end")} == {"topic": "paceline.jobs", "start": 0, "end": 3}
    assert cli("log", "topics", "--data", data, "-o", "name")[1].split() == [each["topic"] for each in told]


def test_views_are_made_anew_from_the_log(cli, tmp_path):
    log = EmbeddedLog(tmp_path / "log")
    log.append([NewRecord("paceline.jobs", b"a", encode(JobSubmitted(job_id="a", pool="/maps")))])
    log.close()
    for left in ("views.sqlite", "views.sqlite-wal"):
        (tmp_path / left).write_text("of old")
    code, out, _ = cli("admin", "rebuild", "--data", str(tmp_path))
    assert (code, out) == (0, f"the views of {tmp_path} are new, from 1 records\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "views.sqlite"]
    assert (tmp_path / "views.sqlite").read_bytes().startswith(b"SQLite format 3")


def test_views_of_a_cell_that_runs_are_left_alone(cli, tmp_path):
    (tmp_path / "cell.json").write_text(json.dumps({"pid": os.getpid(), "listen": "127.0.0.1:1"}))
    code, _, err = cli("admin", "rebuild", "--data", str(tmp_path))
    assert code == 1
    assert "End it first with `paceline down`" in err


@pytest.mark.xdist_group("broker")
def test_topics_on_kafka_are_checked_and_made_and_a_log_there_is_verified(cli, broker: Broker, monkeypatch):
    broker.remove_topics([topic.name for topic in EVERY])
    at = ("--kafka", broker.address)
    code, out, _ = cli("log", "topics", *at)
    assert (code, out.count("is missing")) == (1, len(EVERY))
    code, out, _ = cli("log", "topics", *at, "--create")
    assert (code, out.count("paceline."), "are as they must be" in out) == (0, len(EVERY), True)
    assert cli("log", "topics", *at, "--create")[:2] == (0, out.replace(out.splitlines()[0], "all topics were there"))
    code, out, _ = cli("log", "topics", *at, "--partitions", "2")
    assert (code, out.count("2 are wanted")) == (1, len(EVERY))
    code, out, _ = cli("log", "topics", *at, "--partitions", "2", "-o", "json")
    assert (code, len(json.loads(out)["differences"])) == (1, len(EVERY))
    broker.make_topics(["paceline.left", "paceline.right"], 1, SETTINGS)
    log = KafkaLog(broker.address)
    history(log)
    log.close()
    use(monkeypatch)
    code, out, _ = cli("log", "verify", *at)
    assert (code, "rounds replayed: all identical" in out) == (0, True)
    rows = cli("log", "tail", *at, "--topic", "jobs", "--from-start", "--no-follow")[1]
    assert [row.split("JobStopRequested")[1].split()[0] for row in rows.splitlines()] == ["one", "two", "three"]
