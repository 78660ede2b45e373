"""Histories that were recorded once stay answerable: the log of a cell of 0.3.0, and an export of a real cell."""

import json
import tarfile
from pathlib import Path

import pytest

from paceline.cli.main import run
from tests.helpers import ROOT

HALF = ROOT / "bench" / "recordings" / "half.avro"
CELL_OF_0_3 = ROOT / "tests" / "upgrade" / "cell-0.3.0.tar.xz"
LONG_BEFORE, LONG_AFTER = "2020-01-01T00:00Z", ["--from", "2099-01-01T00:00Z", "--to", "2099-01-02T00:00Z"]
CHANGE = ["--set", "cell:preemption_delay=60s", "--runs", "1", "-o", "json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The data folder that a cell of 0.3.0 has left."""
    folder: Path = tmp_path_factory.mktemp("of-0.3.0")
    with tarfile.open(CELL_OF_0_3) as packed:
        packed.extractall(folder, filter="data")
    return str(folder / "data")


def pools(answer: str) -> set[str]:
    """The pools that an answer has figures of."""
    return {row["name"] for row in json.loads(answer)["figures"] if row["of"] == "pool"}


def test_the_log_of_a_cell_of_0_3_is_asked_from_before_its_start_to_its_end(data, capsys):
    assert run(["what-if", "--data", data, "--from", LONG_BEFORE, *CHANGE]) == 0
    assert pools(capsys.readouterr().out) == {"/batch", "/maps", "/maps/routes", "/maps/tiles"}


def test_after_the_end_of_a_log_of_0_3_there_is_nothing_to_ask_about(data, capsys):
    assert run(["what-if", "--data", data, *LONG_AFTER, *CHANGE]) == 2
    assert "Nothing was recorded between" in capsys.readouterr().err


def test_an_export_of_a_real_cell_is_asked_as_a_whole(capsys):
    assert run(["what-if", str(HALF), *CHANGE]) == 0
    assert pools(capsys.readouterr().out) == {"/a", "/b", "/c"}


def test_a_stretch_that_begins_outside_of_history_is_told_with_where_that_begins_and_ends(data, capsys):
    assert run(["what-if", str(HALF), "--from", LONG_BEFORE, *CHANGE]) == 2
    assert "half.avro begins at 2026-11-28T12:17:19.879Z: --from can't be earlier" in capsys.readouterr().err
    assert run(["what-if", "--data", data, *LONG_AFTER[:2], *CHANGE]) == 2
    assert "nothing was recorded since --from: the last record is of 20" in capsys.readouterr().err
