"""An upgrade that adds a field with a default to every record changes no state, no decision and no answer."""

import json
import os
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import schemas
from events.records.base import Event, NestedRecord
from events.records.hosts import HostLossConfirmed
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.parts import Constraint, Simulated
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from tests.helpers.past import written
from tests.helpers.whole_cell import Cell
from tests.paceline.history import states
from tools.records import nested
from tools.release import keep

ROOT = schemas.ROOT.parent
ADDED = {"name": "added_later", "type": "string", "doc": "Added by the next release.", "default": "unset"}
SPEC: dict[str, Any] = {
    "pool": "/p",
    "command": ("sleep", "1"),
    "env": {"B": "1", "A": "2"},
    "ports": ("http",),
    "constraints": (Constraint("hostname", "exists"), Constraint("gpu", "absent")),
    "simulated": Simulated(duration_ms=500, durations_ms=(500, 300)),
}


def story() -> Cell:
    """A cell that has met every fact of a user, and one of each that it refuses or that waits."""
    cell = Cell(hosts=2)
    cell.append(CellConfigured(command_id="quick", placement_patience_ms=1000, return_backoff_ms=2000))
    cell.append(CellConfigured(command_id="no", placement_patience_ms=-1))
    for path in ("/p", "/q"):
        cell.append(PoolDefined(path=path, command_id=path, reservation={"cpu": 1000}))
    cell.append(PoolRemoved(path="/q", command_id="gone"))
    for name in ("first", "second"):
        cell.append(JobSubmitted(job_id=name, instances=3, **SPEC))
    cell.append(JobSubmitted(job_id="elsewhere", **{**SPEC, "pool": "/none"}))
    cell.append(JobSubmitted(job_id="large", resources={"cpu": 100_000}, **SPEC))
    cell.append(HostLossConfirmed(host_id="sim-1", command_id="lost"))
    cell.run(10_000)  # first and second have ended by then
    cell.append(JobSubmitted(job_id="third", kind="stateless", max_unavailable=1, **SPEC))
    cell.append(JobStopRequested(job_id="large", command_id="stop"))
    cell.run(2000)
    return cell


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the story."""
    data = tmp_path_factory.mktemp("data")
    written(story().log, data)
    return data / "log"


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This build, released as 0.4.0, and after it one with a field more in every record."""
    build = tmp_path_factory.mktemp("next")
    for package in ("events", "schemas", "tools", "processors", "paceline", "hostagent", "projections"):
        shutil.copytree(ROOT / package, build / package, ignore=shutil.ignore_patterns("__pycache__"))
    keep("0.4.0", build / "schemas" / "golden")
    for name in schemas.FOLDERS:
        for path in sorted((build / "schemas" / name).glob("*.avsc")):
            schema = json.loads(path.read_text())
            for record in nested(schema):
                record["fields"].append(ADDED)
            path.write_text(json.dumps(schema))
    subprocess.run([sys.executable, "-m", "tools.records"], cwd=build, env=_path(build), check=True)
    assert ADDED["name"] in (build / "events" / "records" / "parts.py").read_text()
    return build


def _path(build: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(build), "PYTHONDONTWRITEBYTECODE": "1"}


def made_of(build: Path, folder: Path) -> list[str]:
    """What a build makes of a log."""
    script = [sys.executable, states.__file__, str(folder)]
    done = subprocess.run(script, env=_path(build), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_next_release_comes_to_the_same_states_and_decides_the_same(folder: Path, next_release: Path) -> None:
    said = made_of(ROOT, folder)
    assert sum("rounds" in line for line in said) == 4
    assert not [line for line in said if "Difference" in line]
    assert made_of(next_release, folder) == said


def test_a_repeat_of_the_same_bytes_is_a_repeat_after_the_upgrade(folder: Path, next_release: Path) -> None:
    said = made_of(next_release, folder)
    for job_id in ("first", "second", "large", "third"):
        assert f"{job_id} REPEATED" in said


def test_no_row_holds_a_record() -> None:
    rows = [
        kind
        for name, module in sys.modules.items()
        for kind in vars(module).values()
        if name.startswith("processors.") and isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if kind.__module__ == name
    ]
    assert len(rows) > 20
    assert [place for row in rows for place in _held(row)] == []


def test_the_check_of_rows_bites() -> None:
    class Row(msgspec.Struct):
        one: dict[str, tuple[Constraint, ...]]

    assert list(_held(Row, "Row")) == ["Row.one holds Constraint"]


def _held(kind: Any, path: str = "") -> Iterator[str]:
    """Where a type holds records."""
    if isinstance(kind, type) and issubclass(kind, Event | NestedRecord):
        yield f"{path} holds {kind.__name__}"
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for name, inner in typing.get_type_hints(kind).items():
            yield from _held(inner, f"{path or kind.__name__}.{name}")
    else:
        for inner in typing.get_args(kind):
            yield from _held(inner, path)
