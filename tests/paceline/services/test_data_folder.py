"""A data folder that can't be used: one sentence, exit 1, nothing harmed."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.services.data_folder import CannotStart, kept_hashes, name_hashes, prepare
from paceline.services.settings import UpSettings, WrongSettings, load
from paceline.services.up import run_up


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9", "of a newer version of Paceline (format 9)"),
        ("1", "of an earlier version of Paceline (format 1), whose log this one can't read"),
        ("abc", "is no data folder of Paceline"),
    ],
)
def test_a_folder_of_another_kind_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
):
    (tmp_path / "format").write_text(text)
    assert run_up(settings(tmp_path)) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["format"]


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    assert run_up(settings(tmp_path / "file" / "data")) == 1
    assert "Not a directory" in capsys.readouterr().err


def test_the_key_of_names_is_made_once_for_its_user_alone(tmp_path: Path):
    assert kept_hashes(tmp_path) is None
    first = name_hashes(tmp_path).of("ann")
    assert (tmp_path / "names.key").stat().st_mode & 0o777 == 0o600
    kept = kept_hashes(tmp_path)
    assert kept is not None
    assert name_hashes(tmp_path).of("ann") == kept.of("ann") == first
    for lost in ("lost", "", "00" * 31):
        (tmp_path / "names.key").write_text(lost)
        with pytest.raises(CannotStart, match="holds no key of names: restore it"):
            name_hashes(tmp_path)


@pytest.mark.parametrize("before", [(), ("something of the user",)])
def test_nobody_else_reads_what_stands_in_an_existing_folder(tmp_path: Path, before: tuple[str, ...]):
    """A folder that also holds other things keeps its mode, what is made in it is closed all the same."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    for name in before:
        (data / name).write_text("")
    code = f"""
from pathlib import Path
from events.log.memory import MemoryLog
from paceline.services.data_folder import prepare
from projections.views.projector import Projector
data = Path({str(data)!r})
prepare(data)
Projector(MemoryLog(lambda: 0, 0), data).step()
prepare(data)
"""
    subprocess.run([sys.executable, "-c", code], check=True, umask=0o022)
    assert not [path for path in data.iterdir() if path.name not in before and path.stat().st_mode & 0o077]
    assert (data / "views.sqlite").exists()


def test_an_empty_folder_is_closed(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    subprocess.run(
        [sys.executable, "-c", f"from paceline.services.data_folder import *; prepare(Path({str(data)!r}))"], check=True
    )
    assert data.stat().st_mode & 0o777 == 0o700


def settings(data: Path) -> UpSettings:
    return UpSettings(data=data, listen="127.0.0.1:0", sim_hosts=0, agent=False, kafka="", cell=0)


def test_tasks_have_the_umask_that_was_given_and_what_the_cell_writes_is_its_own(tmp_path: Path) -> None:
    code = "import os, sys, pathlib; from paceline.services.data_folder import *; os.umask(0o027); "
    code += "prepare(pathlib.Path(sys.argv[1])); prepare(pathlib.Path(sys.argv[1])); print(oct(given_umask()))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, check=True)
    assert done.stdout == b"0o27\n"
    assert (tmp_path / "data/token").stat().st_mode & 0o077 == 0


def test_a_token_that_no_header_can_carry_is_said_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert prepare(tmp_path)
    (tmp_path / "token").write_text("schlüssel")
    assert run_up(settings(tmp_path)) == 1
    assert "character 5 of 9 is U+00FC. Choose another." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ('command = ["a"]\ninterval = "0s"', "must be 1s or more"),
        ("command = []", "name the program and its arguments"),
        ('comand = ["a"]', "is not known; did you mean command?"),
    ],
)
def test_faults_of_a_health_command_are_told_by_its_own_fields(check: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "paceline.toml"
    file.write_text(f"[agent.health.smart]\n{check}\n")
    with pytest.raises(WrongSettings) as refused:
        load(file, data=tmp_path)
    assert said in str(refused.value)
