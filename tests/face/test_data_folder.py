"""A data folder that can't be used: one sentence, exit 1, nothing harmed."""

from pathlib import Path

import pytest

from paceline.settings import UpSettings
from paceline.up import run_up


@pytest.mark.parametrize(
    ("text", "said"), [("9", "of a newer version of Paceline (format 9)"), ("abc", "is no data folder of Paceline")]
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


def settings(data: Path) -> UpSettings:
    return UpSettings(data=data, listen="127.0.0.1:0", sim_hosts=0, agent=False, kafka="", cell=0)
