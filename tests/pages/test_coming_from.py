"""Each command that docs/coming-from.md names exists, with the options and the arguments that it is given there."""

import re

import click
import pytest

from paceline.cli.main import cli
from tests.helpers import ROOT

COMMANDS = re.findall(r"`paceline ([^`]+)`", (ROOT / "docs" / "coming-from.md").read_text())


def unknown(words: list[str]) -> list[str]:
    """The words of a command line that no command, and no option of it, is called by; else what it lacks."""
    found: click.Command = cli
    context = click.Context(cli)
    while words and isinstance(found, click.Group):
        inner = found.get_command(context, words[0])
        if inner is None:
            return words[:1]
        found, words = inner, words[1:]
    given = [word for word in words if word[0] != "-"]
    needed = [each for each in found.params if isinstance(each, click.Argument) and each.required]
    if len(given) < len(needed):
        return [f"no {each.name}" for each in needed[len(given) :]]
    known = {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
    return [
        word for word in words[: words.index("--") if "--" in words else None] if word[0] == "-" and word not in known
    ]


def test_an_unknown_command_or_option_is_found() -> None:
    assert unknown(["job", "drain"]) == ["drain"]
    assert unknown(["job", "logs", "ID", "--fellow"]) == ["--fellow"]
    assert unknown(["job", "exec", "ID", "--", "ls", "-l"]) == []
    assert unknown(["job", "exec", "ID"]) == ["no command"]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_a_command_that_the_page_names_exists(command: str) -> None:
    assert unknown(command.split()) == []
