"""Options that all processes of a cell share, and how their settings are shown."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from paceline.cli.commands.common import data_option, kafka_options

FORMS = ("console", "json")
LEVELS = ("debug", "info", "warning", "error")


show_config_option = click.option(
    "--show-config", is_flag=True, help="Print all settings with their origins, and exit."
)


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--log-form`, `--log-level` and `--show-config`."""
    for option in (
        show_config_option,
        click.option("--log-level", type=click.Choice(LEVELS), help="Log level."),
        click.option("--log-form", type=click.Choice(FORMS), help="Log format on stderr."),
    ):
        function = option(function)
    return function


def service_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what processes share and calls the command with the `Settings` before its own parameters."""

    @data_option
    @kafka_options
    @click.option(
        "--listen", metavar="HOST:PORT", help="Address of health endpoints, metrics and HTTP; port 0: any free port."
    )
    @click.option(
        "--address-file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the address to this file once the process is listening.",
    )
    @click.option(
        "--name", metavar="NAME", help="Stable instance name. [default: from the machine and the data folder]"
    )
    @log_options
    @wraps(function)
    def command(
        *args: Any,
        data: Path | None,
        config: Path | None,
        kafka: dict[str, Any],
        listen: str | None,
        address_file: Path | None,
        name: str | None,
        log_form: str | None,
        log_level: str | None,
        show_config: bool,
        service: dict[str, Any] | None = None,
        cell: int | None = None,
        **rest: Any,
    ) -> Any:
        from paceline.services.settings import load

        flags = {
            "data": data,
            **kafka,
            "cell": cell,
            "service": without_none({"listen": listen, "address_file": address_file, "name": name, **(service or {})}),
            "logs": without_none({"form": log_form, "level": log_level}),
        }
        if show_config:
            return show(config, flags)
        return function(load(config, **flags), *args, **rest)

    return command


def show(config: Path | None, flags: dict[str, Any]) -> int:
    """Prints every setting and where it comes from."""
    from paceline.output import Column, table
    from paceline.services.settings import origins

    table(
        origins(config, **flags),
        [
            Column("SETTING", lambda each: each.name),
            Column("VALUE", lambda each: str(each.value)),
            Column("FROM", lambda each: each.origin),
        ],
    )
    return 0


def without_none(values: dict[str, Any]) -> dict[str, Any] | None:
    """The values that were given; None where none was."""
    return {name: value for name, value in values.items() if value is not None} or None
