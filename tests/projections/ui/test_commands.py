"""Pages name only commands that there are, with options that they have."""

import re
from pathlib import Path

import click
import pytest

import projections.ui
from paceline.cli.main import cli

TEMPLATES = Path(projections.ui.__file__).parent / "templates"
NAMED = re.compile(r'<(?:code|pre) class="cmd[^"]*">(paceline [^<]*)<')
COMMANDS = sorted({text for each in TEMPLATES.glob("*.html") for text in NAMED.findall(each.read_text())})


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_on_a_page_is_one(text: str) -> None:
    _, *words = re.sub(r"{%.*?%}", " ", re.sub(r"{{.*?}}", "VALUE", text)).split()
    command: click.Command = cli
    while isinstance(command, click.Group):
        word = words.pop(0)
        if word == "VALUE":  # the page fills in which
            return
        found = command.get_command(click.Context(command), word)
        assert found is not None, word
        command = found
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= options


def test_pages_name_commands() -> None:
    assert len(COMMANDS) > 15
