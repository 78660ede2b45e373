from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import paceline.output
from paceline.cli.main import run
from tests.paceline.fake import FakeCell, running


@pytest.fixture(scope="session")
def _server() -> Iterator[FakeCell]:
    with running(FakeCell()) as cell:
        yield cell


@pytest.fixture
def cell(_server: FakeCell, monkeypatch, tmp_path) -> FakeCell:
    """A cell that knows nothing yet; the environment names it."""
    _server.asked.clear()
    _server._answers.clear()
    monkeypatch.setenv("PACELINE_SERVER", _server.address)
    monkeypatch.setenv("PACELINE_TOKEN", "secret")
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    return _server


@pytest.fixture
def cli(capsys, monkeypatch):
    """Runs the command; returns exit code, stdout, stderr. It is 10:44:19 on the day of the fake jobs."""
    monkeypatch.setattr(paceline.output, "now", lambda: datetime(2026, 8, 21, 10, 44, 19, tzinfo=UTC))
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args: str):
        try:
            code = run(list(args))
        except SystemExit as end:  # click ends a completion so
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
