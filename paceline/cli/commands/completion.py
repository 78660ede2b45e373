"""`paceline completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

from paceline.cli.commands.common import examples


@click.command(
    epilog=examples(
        'eval "$(paceline completion bash)"', "paceline completion fish > ~/.config/fish/completions/paceline.fish"
    )
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script of a shell; it completes ids of jobs and hosts and paths of pools too."""
    from paceline.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "paceline", "_PACELINE_COMPLETE").source())
