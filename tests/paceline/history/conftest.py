import pytest

from paceline.cli.main import run
from tests.helpers.past import past, written


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder with the small history; nobody writes to it."""
    folder = tmp_path_factory.mktemp("past")
    written(past(), folder)
    return folder


@pytest.fixture
def cli(capsys, monkeypatch):
    """Runs the command; returns exit code, stdout, stderr."""
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args: object):
        code = run([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
