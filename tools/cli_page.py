"""Writes the reference of the command line from its help: `python -m tools.cli_page > docs/cli.md`."""

from collections.abc import Iterator

import click

from paceline.cli.main import cli

HEAD = """\
# The command line

Made from the help of the commands by `python -m tools.cli_page > docs/cli.md`; a test keeps it so.
"""


def reference() -> str:
    """The page, in Markdown."""
    context = click.Context(cli, info_name="paceline", terminal_width=80, **cli.context_settings)
    return "\n".join([HEAD, *_pages(cli, context)])


def _pages(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _pages(inner, click.Context(inner, parent=context, info_name=name, **inner.context_settings))


if __name__ == "__main__":
    click.echo(reference(), nl=False)
