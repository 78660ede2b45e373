"""`paceline cell keys` on the machine that has them."""

import json
from pathlib import Path

from click.testing import CliRunner

from events.signing_keys import FOLDER, SigningKeys
from paceline.cli.main import cli


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ("cell", "keys", *words))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_rotation_leaves_the_last_key_published_for_a_while(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    assert "no key yet" in run("list", *data)
    assert "this is the first one, and replaces none" in run("rotate", *data)
    first = SigningKeys(tmp_path / FOLDER).current().name
    said = run("rotate", *data)
    second = SigningKeys(tmp_path / FOLDER).current().name
    assert f"{second} signs from now on" in said
    assert f"{first} signs no more, and is published until" in said
    listed = json.loads(run("list", *data, "-o", "json"))["keys"]
    assert [(each["key"], each["state"]) for each in listed] == [(first, "PUBLISHED"), (second, "SIGNS")]


def test_a_folder_of_its_own_is_used_where_it_is_named(tmp_path: Path) -> None:
    run("rotate", "--data", str(tmp_path / "data"), "--signing-keys", str(tmp_path / "own"))
    assert len(SigningKeys(tmp_path / "own").all()) == 1
    assert not (tmp_path / "data").exists()
