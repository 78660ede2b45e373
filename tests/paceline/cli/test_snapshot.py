"""`paceline snapshot`, `paceline log archive`, and what reads the archive, as an operator uses them."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from events.log.embedded import EmbeddedLog
from events.log.kafka.kafka_log import KafkaLog
from events.topics import ALL, SETTINGS, rounds_of
from paceline.cli.main import run
from tests.helpers.broker import Broker
from tests.helpers.stored_cell import JOBS, Toys, throw
from tests.helpers.toys import TOYS

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs a command on the toys; snapshots and archive are set for all of them."""
    toys = {name: (lambda make=make: make()) for name, make in TOYS.items()}
    monkeypatch.setitem(sys.modules, "processors.cell_machines", SimpleNamespace(machines=lambda cell=0: toys))
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PACELINE_SNAPSHOTS", str(tmp_path / "snapshots"))
    monkeypatch.setenv("PACELINE_ARCHIVE", str(tmp_path / "archive"))

    def call(*args: str) -> tuple[int, str, str]:
        code = run(list(args))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a cell that has run and stopped."""
    work(tmp_path / "data", 0, 30)
    return tmp_path / "data"


def work(data: Path, first: int, end: int) -> dict[str, bytes]:
    """A cell of toys takes some facts and stops."""
    log = EmbeddedLog(data / "log", now_ms=lambda: 1_787_308_867_000)
    toys = Toys(log, data / "store")
    throw(log, first, end)
    toys.rest()
    hashes = toys.hashes()
    toys.close()
    log.close()
    return hashes


def test_a_store_is_kept_lost_and_brought_back(cli: Cli, data: Path, tmp_path: Path) -> None:
    code, out, err = cli("snapshot", "create")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["MACHINE", "ROUND", "EPOCH", "POSITION", "MiB", "BUILD", "STATE", "HASH"]
    assert [row[0] for row in rows[1:]] == ["left", "right"]
    hashes = work(data, 30, 60)
    made = json.loads(cli("snapshot", "create", "-o", "json")[1])["snapshots"]
    assert {each["machine"]: each["state_hash"] for each in made} == {name: hash.hex() for name, hash in hashes.items()}

    code, out, _ = cli("snapshot", "list", "--machine", "left")
    assert (code, len(out.splitlines())) == (0, 3)
    found = json.loads(cli("snapshot", "list", "-o", "json")[1])["snapshots"]
    assert [(each["machine"], each["fault"]) for each in found] == [
        (name, None) for name in ("left", "left", "right", "right")
    ]
    assert found[0]["round"] > found[1]["round"]
    assert cli("snapshot", "verify")[0] == 0

    code, _, err = cli("snapshot", "restore")
    assert (code, "There are stores already" in err) == (1, True)
    shutil.rmtree(data / "store")
    code, out, err = cli("snapshot", "restore")
    assert (code, err, len(out.splitlines())) == (0, "", 3)
    assert work(data, 60, 60) == hashes


def test_a_damaged_snapshot_is_named_and_the_older_one_restored(cli: Cli, data: Path) -> None:
    cli("snapshot", "create")
    work(data, 30, 60)
    newest = json.loads(cli("snapshot", "create", "-o", "json", "--machine", "left")[1])["snapshots"][0]
    place = next((data.parent / "snapshots" / "cell-0" / "left").glob(f"round-*{newest['round']}"))
    (place / max(newest["files"], key=lambda file: file["size"])["hash"]).write_bytes(b"rot")
    code, out, _ = cli("snapshot", "verify")
    assert (code, out.count("good"), "has another hash than its manifest says" in out) == (1, 2, True)
    shutil.rmtree(data / "store")
    code, _, err = cli("snapshot", "restore", "--machine", "left")
    assert code == 0
    assert f"left: round {newest['round']} is refused: its file " in err
    shutil.rmtree(data.parent / "snapshots" / "cell-0" / "left")
    shutil.rmtree(data / "store")
    code, _, err = cli("snapshot", "restore")
    assert (code, "has no good snapshot of left of cell 0" in err) == (1, True)


def test_what_is_missing_is_said(cli: Cli, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "none of left, right" in cli("snapshot", "list", "--machine", "middle")[2]
    code, _, err = cli("snapshot", "create", "--data", str(tmp_path / "none"))
    assert (code, "There is no store of left" in err) == (1, True)
    code, _, err = cli("snapshot", "verify")
    assert (code, "has no snapshots of cell 0" in err) == (1, True)
    assert cli("log", "archive", "--before", "3")[0] == 2
    assert "none of paceline." in cli("log", "archive", "--topic", "usage")[2]
    monkeypatch.setenv("PACELINE_ARCHIVE", "gs://bucket/log")  # a store whose driver isn't installed
    code, _, err = cli("log", "archive")
    assert (code, "pip install 'paceline[s3]'" in err) == (6, True)
    monkeypatch.delenv("PACELINE_SNAPSHOTS")
    assert "--snapshots URL" in cli("snapshot", "list")[2]
    assert "--snapshots URL" in cli("log", "archive")[2]


def archived(cli: Cli, *options: str) -> dict[str, dict[str, object]]:
    code, out, _ = cli("log", "archive", "-o", "json", *options)
    assert code == 0
    return {each["topic"]: each for each in json.loads(out)["topics"]}


def verified(cli: Cli, *options: str) -> list[tuple[str, int, int, str]]:
    code, out, _ = cli("log", "verify", "-o", "json", *options)
    assert code == 0, out
    return [(each["machine"], each["rounds"], each["events"], each["hash"]) for each in json.loads(out)["machines"]]


def test_the_log_begins_later_and_is_verified_and_viewed_whole(
    cli: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = archived(cli, "--remove")
    assert {each["removed"] for each in nothing.values()} == {0}
    assert {each["needed_by"] for each in nothing.values()} <= {f"{name}, which has no good snapshot" for name in TOYS}
    cli("snapshot", "create")
    work(data, 30, 60)
    whole = verified(cli)
    assert cli("admin", "rebuild")[:2] == (0, f"the views of {data} are new, from 60 records\n")

    first = archived(cli, "--topic", "jobs", "--before", "10", "--remove")
    assert (first[JOBS]["archived"], first[JOBS]["removed"], first[JOBS]["log_from"]) == (10, 10, 10)
    kept = archived(cli, "--topic", "jobs", "--keep", "40", "--remove")
    assert (kept[JOBS]["archived"], kept[JOBS]["log_from"]) == (10, 20)
    code, _, err = cli("log", "archive", "--topic", "jobs", "--before", "50", "--remove")
    assert code == 1
    assert f"{JOBS} must stay from 30 on, not from 50: offset 30 is needed by the snapshot of " in err
    assert "Nothing was archived or removed" in err
    rest = archived(cli, "--remove")
    assert all(rest[rounds_of(name)]["removed"] for name in TOYS)
    assert all(each["log_from"] == each["needed_from"] == each["archived_to"] for each in rest.values())

    assert verified(cli) == whole
    assert cli("admin", "rebuild")[:2] == (0, f"the views of {data} are new, from 60 records\n")
    monkeypatch.delenv("PACELINE_ARCHIVE")
    assert cli("log", "verify")[0] == 1
    hashes = work(data, 60, 90)
    monkeypatch.setenv("PACELINE_ARCHIVE", str(tmp_path / "archive"))
    assert [each[3] for each in verified(cli)] == [hashes[name].hex() for name in TOYS]


def test_the_views_of_the_data_folder_hold_what_they_have_not_read(cli: Cli, data: Path) -> None:
    cli("admin", "rebuild")
    views = data / "views.sqlite"
    stored = views.read_bytes()
    work(data, 30, 60)
    cli("snapshot", "create")
    views.write_bytes(stored)
    assert archived(cli)[JOBS]["needed_by"] == f"the views in {data}"
    assert archived(cli)[JOBS]["needed_from"] == 30


def test_every_snapshot_that_is_kept_holds_what_it_needs(cli: Cli, data: Path) -> None:
    for first in (30, 60, 90):
        cli("snapshot", "create")
        work(data, first, first + 30)
    assert archived(cli)[JOBS]["needed_from"] == 30
    cli("snapshot", "create")
    assert archived(cli, "--remove")[JOBS]["log_from"] == 60, "the oldest is gone: a few are kept"
    work(data, 120, 150)
    newest = max((data.parent / "snapshots" / "cell-0" / "left").iterdir())
    (newest / "manifest.json").unlink()
    assert archived(cli)[JOBS]["needed_from"] == 60, "what is not good is not needed, the next one is"


def test_gateways_and_the_fanout_of_the_data_folder_hold_what_they_have_not_read(cli: Cli, data: Path) -> None:
    cli("snapshot", "create")
    folder = data / "cell-0" / "gateway-a"
    folder.mkdir(parents=True)
    (folder / "gateway.msgpack").write_bytes(msgspec.msgpack.encode({"cell": 0, "positions": {JOBS: 7}}))
    left = rounds_of("left")
    (data / "fanout").mkdir()
    (data / "fanout" / "left-0.msgpack").write_bytes(msgspec.msgpack.encode({"position": 2}))
    (data / "fanout" / "left-1.msgpack").write_bytes(msgspec.msgpack.encode({"position": 1}))
    found = archived(cli)
    assert (found[JOBS]["needed_from"], found[JOBS]["needed_by"]) == (7, f"the gateway of {folder}")
    assert (found[left]["needed_from"], found[left]["needed_by"]) == (2, f"the fan-out of {data}")


def test_a_cell_that_runs_is_archived_and_not_cut(cli: Cli, data: Path) -> None:
    cli("snapshot", "create")
    log = EmbeddedLog(data / "log")
    try:
        assert archived(cli)[JOBS]["archived"] == 30
        code, _, err = cli("log", "archive", "--remove")
    finally:
        log.close()
    assert (code, "in use by another process" in err) == (6, True)


@pytest.fixture
def kafka(broker: Broker) -> Iterator[KafkaLog]:
    broker.make_topics([*(topic.name for topic in ALL), *map(rounds_of, TOYS)], 2, SETTINGS)
    log = KafkaLog(broker.address, 1)
    yield log
    log.close()


@pytest.mark.xdist_group("broker")
def test_a_cell_on_kafka_is_archived_cut_and_verified(
    cli: Cli, kafka: KafkaLog, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_CELL", "1")
    at = ("--kafka", broker.address)
    toys = Toys(kafka, tmp_path / "data" / "cell-1" / "store")
    throw(kafka, 0, 30)
    toys.rest()
    code, _, err = cli("snapshot", "create", *at)
    assert (code, err) == (0, ""), "their processors run meanwhile"
    throw(kafka, 30, 60)
    toys.rest()
    group = "paceline.projector.elsewhere"
    read = [TopicPartition(JOBS, cell, offset) for cell, offset in ((0, 0), (1, 12))]
    admin = AdminClient({"bootstrap.servers": broker.address})
    for told in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, read)]).values():
        told.result()
    done = archived(cli, "--remove", *at)
    assert (done[JOBS]["removed"], done[JOBS]["needed_by"]) == (12, f"the group {group}")
    for gone in admin.delete_consumer_groups([group]).values():
        gone.result()
    done = archived(cli, "--remove", *at)
    assert (done[JOBS]["removed"], kafka.bounds(JOBS)) == (18, (30, 60))
    throw(kafka, 60, 70)
    toys.rest()
    hashes = toys.hashes()
    toys.close()
    shutil.rmtree(tmp_path / "data")
    assert cli("snapshot", "restore", *at)[0] == 0
    again = Toys(kafka, tmp_path / "data" / "cell-1" / "store")
    assert again.hashes() == hashes
    again.close()
    assert [each[3] for each in verified(cli, *at)] == [hashes[name].hex() for name in TOYS]
