"""`paceline debug bundle`: what a maintainer needs is in it, and nothing that is secret."""

import json
import tarfile

import pytest

from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.port import NewRecord
from events.records.jobs import JobSubmitted
from paceline.services import debug_bundle
from paceline.services.data_folder import keep_cell
from processors.cell_machines import machines
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore

MARKS = [f"MARKED-{name}" for name in ("token", "file", "env", "command", "kafka", "url", "registry", "store", "own")]


class Frozen:
    def monotonic_ms(self) -> int:
        return 0


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with secrets in all places where they may be, and settings with others."""
    folder = tmp_path / "data"
    (folder / "secrets").mkdir(parents=True)
    (folder / "secrets" / "db").write_text("MARKED-store")
    (folder / "token").write_text("MARKED-file")
    monkeypatch.setenv("PACELINE_DATA", str(folder))
    monkeypatch.setenv("PACELINE_TOKEN", "MARKED-token")
    monkeypatch.setenv("PACELINE_KAFKA_OPTIONS", '{"sasl.password": "MARKED-kafka"}')
    monkeypatch.setenv("PACELINE_SNAPSHOTS", "s3://me:MARKED-url@bucket/snapshots")
    monkeypatch.setenv("PACELINE_SCHEMA_REGISTRY_URL", "http://me:MARKED-registry@registry:8081")
    monkeypatch.setenv("MY_API_TOKEN", "MARKED-own")
    return folder


def texts(path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        names = archive.getnames()
        return {name.partition("/")[2]: archive.extractfile(name).read().decode() for name in names}


def assert_without_secrets(parts: dict[str, str]) -> None:
    for name, text in parts.items():
        assert [mark for mark in MARKS if mark in text] == [], name


def test_a_bundle_of_a_live_cell_has_what_is_needed_and_no_secrets(cli, cell, data, tmp_path):
    ways = {"round": 2, "hash": "ab" * 32, "epoch": 1, "lag": {"paceline.jobs": 3}}
    cell.answer("GET", "/v1/cell", {"cell": 0, "log": "embedded", "machines": {"lifecycle": ways}})
    cell.answer("GET", "/v1/cell/operations", {"positions": {"paceline.jobs": 7}, "why": "token MARKED-token is told"})
    cell.answer("GET", "/v1/cell/settings", {"settle": "10m"})
    cell.answer("GET", "/v1/log/quarantine", {"records": [], "next_page_token": ""})
    cell.answer("GET", "/metrics", b"paceline_up 1\n# http://a:MARKED-url@b\n")
    spec = {"command": ["sh", "MARKED-command"], "env": {"PASSWORD": "MARKED-env"}}
    cell.answer("GET", "/v1/rounds/lifecycle/1", {"round": 1, "decisions": [{"event": "X", "spec": spec}]})
    cell.problem("GET", "/v1/rounds/lifecycle/2", 404, "NOT_FOUND", "there is no round 2")
    target = tmp_path / "b.tar.gz"
    code, out, err = cli("debug", "bundle", str(target), "--data", str(data))
    assert code == 0
    assert target.stat().st_mode & 0o777 == 0o600
    parts = texts(target)
    assert_without_secrets(parts)
    assert_without_secrets({"stdout": out, "stderr": err})
    assert json.loads(parts["cell.json"])["machines"]["lifecycle"] == ways
    assert json.loads(parts["operations.json"])["positions"] == {"paceline.jobs": 7}
    [decision] = json.loads(parts["rounds/lifecycle-1.json"])["decisions"]
    assert decision == {"event": "X", "spec": {"command": "***", "env": "***"}}
    assert json.loads(parts["versions.json"])["libraries"]["numpy"]
    assert {"name": "token", "value": "***", "origin": "PACELINE_TOKEN"} in json.loads(parts["settings.json"])
    assert out.startswith(f"wrote {target} (")
    assert "  cell.json: machines with rounds, state hashes and lags\n" in out
    missing = "not got: rounds/lifecycle-2.json: there is no round 2 (NOT_FOUND)\n"
    assert missing in err
    assert missing in parts["README.txt"]
    assert "not got: check.json: " in err, "there is no log on this machine"
    assert cli("debug", "bundle", str(target))[0] == 2, "a file that is there is kept"


def test_where_the_cell_is_down_its_log_tells(cli, data, monkeypatch, tmp_path):
    keep_cell(data, 0)
    log = EmbeddedLog(data / "log", now_ms=lambda: 1_787_308_867_000)
    driver = Driver(machines(0)["lifecycle"](), log, MemoryStore(), Frozen(), "test")
    list(driver.recover())
    job = JobSubmitted(job_id="a", pool="/a", command=["MARKED-command"], env={"A": "MARKED-env"})
    log.append([NewRecord("paceline.jobs", b"a", encode(job))])
    for _ in range(3):
        driver.run()
    log.close()
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("debug", "bundle")
    [target] = tmp_path.glob("paceline-debug-*.tar.gz")
    assert (code, out.startswith(f"wrote {target.name} (")) == (0, True)
    parts = texts(target)
    assert_without_secrets(parts)
    assert "not got: the API: No cell runs on " in err
    assert json.loads(parts["log.json"])["paceline.jobs"] == [0, 1]
    assert json.loads(parts["rounds/lifecycle-at-0.json"])["machine"] == "lifecycle"
    problems = json.loads(parts["check.json"])["problems"]
    assert "Nobody runs lifecycle of cell 0. Start `paceline processor lifecycle`, or `paceline up`." in problems


def test_a_bundle_is_bounded(data, tmp_path, monkeypatch):
    monkeypatch.setattr(debug_bundle, "PART_BYTES_MAX", 100)
    monkeypatch.setattr(debug_bundle, "BUNDLE_BYTES_MAX", 150)
    parts = [debug_bundle.Part(name, "", lambda: "x" * 500) for name in ("a", "b")]
    now = debug_bundle.datetime(2026, 11, 27)
    entries = debug_bundle.write(tmp_path / "b.tar.gz", parts, [], now)
    assert [(each.size, each.fault.partition(" ")[0]) for each in entries] == [(100, "cut"), (0, "the")]
    assert texts(tmp_path / "b.tar.gz")["a"] == "x" * 100


def test_whatever_is_wrong_with_a_part_the_others_are_there(data, tmp_path):
    def deep() -> object:
        value: list[object] = []
        for _ in range(100_000):
            value = [value]
        return value

    parts = [
        debug_bundle.missing("a", KeyError("machines")),
        debug_bundle.Part("b", "", deep),
        debug_bundle.Part("c", "", lambda: "\ud800 http://u:PW/LEAK@host \"http://u:a@LEAK@b/x@y\" 'http://LEAK@x'"),
    ]
    target = tmp_path / "b.tar.gz"
    entries = debug_bundle.write(target, parts, [], debug_bundle.datetime(2026, 11, 27))
    assert [each.fault.partition("(")[0] for each in entries] == ["KeyError", "RecursionError", ""]
    text = texts(target)["c"]
    assert "LEAK" not in text
    assert text.startswith("\\ud800 http://***@host ")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["b.tar.gz"]


@pytest.mark.parametrize("name", ["b.tar.gz", "b.tgz", "b.gz", "b"])
def test_a_bundle_is_unpacked_beside_itself_whatever_its_name(tmp_path, name):
    parts = [debug_bundle.Part("a", "", lambda: "x")]
    debug_bundle.write(tmp_path / name, parts, [], debug_bundle.datetime(2026, 11, 27))
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path, filter="data")


def test_a_bundle_that_is_interrupted_leaves_nothing(data, tmp_path):
    def interrupted() -> object:
        raise KeyboardInterrupt

    parts = [debug_bundle.Part("a", "", lambda: "x"), debug_bundle.Part("b", "", interrupted)]
    with pytest.raises(KeyboardInterrupt):
        debug_bundle.write(tmp_path / "b.tar.gz", parts, [], debug_bundle.datetime(2026, 11, 27))
    assert [each for each in tmp_path.iterdir() if each.is_file()] == []
