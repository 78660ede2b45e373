"""A release reads what the next one writes: shown on a made-up pair, 0.4.0 and 0.5.0, of this build."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import schemas
from tools.release import RELEASES, NotReadable, keep

ROOT = schemas.ROOT.parent
NEW_KIND = {
    "type": "record",
    "name": "TasksPraised",
    "namespace": "paceline",
    "doc": "Made up.",
    "written_from": "0.5.0",
    "fields": [{"name": "job_id", "type": "string", "doc": "The job."}],
}
NEW_FIELD = {"name": "praise", "type": "string", "doc": "Made up.", "default": "", "written_from": "0.5.0"}
NEW_INNER = {"name": "weight", "type": "long", "doc": "Made up.", "default": 0, "written_from": "0.5.0"}
WRITE = """
import sys
from events.codec import encode
from events.records.lifecycle import HostReconciled, TasksPraised
from events.records.parts import Cause
cause = Cause(topic="t", offset=1, **({"weight": 5} if "weight" in sys.argv else {}))
praise = {"praise": "fine"} if "field" in sys.argv else {}
host = HostReconciled(host_id="h", session=1, kept=0, ended=0, stopped=0, cause=cause, **praise)
print(encode(TasksPraised(job_id="a") if "kind" in sys.argv else host).hex())
"""
READ = "import sys; from events.codec import decode; print(decode(bytes.fromhex(sys.argv[1])))"


def build_of(folder: Path, version: str) -> Path:
    """This build as the release of a version, in which 0.5.0 writes a kind, a field and a field of a part more."""
    for package in ("events", "schemas", "tools"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    init = folder / "events" / "__init__.py"
    init.write_text(init.read_text().replace('VERSION = "', f'VERSION = "{version}"  # "'))
    lifecycle = folder / "schemas" / "lifecycle"
    (lifecycle / "TasksPraised.avsc").write_text(json.dumps(NEW_KIND))
    changed = lifecycle / "HostReconciled.avsc"
    reconciled = json.loads(changed.read_text())
    reconciled["fields"].append(NEW_FIELD)
    changed.write_text(json.dumps(reconciled))
    for path in folder.glob("schemas/*/*.avsc"):
        schema = json.loads(path.read_text())
        for part in causes(schema):
            part["fields"].append(NEW_INNER)
        path.write_text(json.dumps(schema))
    assert run(folder, "-m", "tools.records") == ""
    return folder


def causes(avro: Any) -> list[dict[str, Any]]:
    """The definitions of the part Cause in a schema."""
    if isinstance(avro, list):
        return [part for each in avro for part in causes(each)]
    if not isinstance(avro, dict):
        return []
    return [avro] if avro.get("name") == "Cause" else [part for each in avro.values() for part in causes(each)]


def run(folder: Path, *args: str) -> str:
    """What Python prints with a build; what it complains of where it fails."""
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Both releases, of the same schemas."""
    return (
        build_of(tmp_path_factory.mktemp("old"), "0.4.0"),
        build_of(tmp_path_factory.mktemp("new"), "0.5.0"),
    )


@pytest.mark.parametrize(
    ("what", "seen"),
    [("kind", "TasksPraised(job_id='a')"), ("field", "praise='fine'"), ("weight", "weight=5"), ("", "praise=''")],
)
def test_a_release_reads_what_the_next_one_writes(pair: tuple[Path, Path], what: str, seen: str) -> None:
    old, new = pair
    assert seen in run(old, "-c", READ, run(new, "-c", WRITE, what))


def test_what_a_release_writes_the_one_before_could_read_without_the_new_fields(pair: tuple[Path, Path]) -> None:
    old, new = pair
    assert run(old, "-c", WRITE) != run(new, "-c", WRITE)
    assert "praise=''" in run(new, "-c", READ, run(old, "-c", WRITE))


@pytest.mark.parametrize("what", ["kind", "field", "weight"])
def test_a_release_refuses_to_write_what_is_only_to_be_read(pair: tuple[Path, Path], what: str) -> None:
    old, _ = pair
    assert run(old, "-c", WRITE, what).startswith("ValueError: ")


def test_a_release_that_writes_what_the_last_one_cannot_read_is_refused(pair: tuple[Path, Path]) -> None:
    old, _ = pair
    assert run(old, "-m", "tools.release") == ""
    kind = old / "schemas" / "lifecycle" / "TasksBlamed.avsc"
    kind.write_text(json.dumps({**NEW_KIND, "name": "TasksBlamed", "written_from": "0.5.0"}))
    init = old / "events" / "__init__.py"
    init.write_text(init.read_text().replace('"0.4.0"', '"0.5.0"'))
    assert "0.5.0 writes TasksBlamed-" in run(old, "-m", "tools.release")
    kind.write_text(json.dumps({**NEW_KIND, "name": "TasksBlamed", "written_from": "0.6.0"}))
    assert run(old, "-m", "tools.release") == "", "what it wrote before is read by 0.4.0"
    init.write_text(init.read_text().replace('"0.5.0"', '"0.6.0"'))
    assert run(old, "-m", "tools.release") == "", "0.5.0 reads the new kind"


def test_nothing_is_kept_before_0_3_0_and_all_of_it_from_then_on(tmp_path: Path) -> None:
    keep("0.2.9", tmp_path)
    assert not list(tmp_path.iterdir())
    keep("0.3.0", tmp_path)
    kept = json.loads((tmp_path / RELEASES).read_text())["0.3.0"]
    assert kept == sorted(path.stem for path in tmp_path.glob("*.avsc"))
    (tmp_path / "Old-0000000000000000.avsc").write_text("{}")
    (tmp_path / "Old-0000000000000000.bin").write_bytes(b"")
    keep("0.3.0", tmp_path)
    assert not (tmp_path / "Old-0000000000000000.avsc").exists(), "a second try keeps only what is released"


def test_the_check_of_a_release_bites(tmp_path: Path) -> None:
    keep("0.3.0", tmp_path)
    index = json.loads((tmp_path / RELEASES).read_text())
    gone = next(stem for stem in index["0.3.0"] if stem.startswith("RunsEnded-"))
    index["0.3.0"].remove(gone)
    (tmp_path / RELEASES).write_text(json.dumps(index))
    with pytest.raises(NotReadable, match=gone):
        keep("0.3.1", tmp_path)


def test_the_step_to_0_4_0_stops_all_parts_so_it_may_write_what_0_3_0_cannot_read(tmp_path: Path) -> None:
    keep("0.3.0", tmp_path)
    index = json.loads((tmp_path / RELEASES).read_text())
    index["0.3.0"] = [stem for stem in index["0.3.0"] if not stem.startswith("RunsEnded-")]
    (tmp_path / RELEASES).write_text(json.dumps(index))
    keep("0.4.0", tmp_path)
    (tmp_path / RELEASES).write_text(json.dumps({**index, "0.4.0": index["0.3.0"]}))
    with pytest.raises(NotReadable, match="RunsEnded-"):
        keep("0.4.1", tmp_path)
