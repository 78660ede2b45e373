"""Groups of commands: one whose commands are imported when they run, and what is said of a name that none has."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from paceline.cli.understanding import understood

SEARCHED = ("job", "pool", "host", "cell", "log")
"""Groups in which a command is looked for that was asked for above them."""


class CommandGroup(click.Group):
    """A group that answers an unknown command with the nearest, as click does for options."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Implements `click.Group`."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            path = ctx.command_path
            nearest = self.meant(ctx, name)
            hint = f" Did you mean `{path} {nearest}`?" if nearest else f" `{path} -h` lists them."
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def meant(self, ctx: click.Context, name: str) -> str:
        """The command that was probably meant; empty: none is like it."""
        return next(iter(difflib.get_close_matches(name, self.list_commands(ctx), n=1)), "")


class LazyGroup(CommandGroup):
    """A group whose commands are imported when they run; their lines of help stand here, by section."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.lines = {name: line for lines in sections.values() for name, line in lines.items()}

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command. Where an answer can't be understood, and nothing says that a cell gave it, raises that."""
        with understood(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; the plural is taken too."""
        name = cmd_name if cmd_name in self.lines else cmd_name.removesuffix("s")
        if name not in self.lines:
            return None
        from paceline.services.processes import PROCESS_COMMANDS

        if name in PROCESS_COMMANDS:
            from paceline.cli.commands.processes import process_command

            return process_command(name)
        module = name.replace("-", "_")
        command: click.Command = getattr(import_module(f"paceline.cli.commands.{module}"), module)
        return command

    def meant(self, ctx: click.Context, name: str) -> str:
        """The command that was probably meant: of a group, such as `job submit`, where one has it; or the nearest."""
        for group in SEARCHED:
            command = self.get_command(ctx, group)
            if isinstance(command, click.Group) and name in command.commands:
                return f"{group} {name}"
        return super().meant(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands for the page of help, by section."""
        width = max(map(len, self.lines))
        for title, lines in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])
