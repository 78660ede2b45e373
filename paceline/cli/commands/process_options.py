"""Options of the processes of a cell, and how their settings are shown.

The name of a parameter is that of the setting it sets, as in the environment: `service__listen` is `listen` in the
table `service`.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import click

from paceline.cli.commands.common import data_option, file_option, kafka_options

FORMS = ("console", "json")
LEVELS = ("debug", "info", "warning", "error")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

show_config_option = click.option(
    "--show-config", is_flag=True, help="Print all settings with their origins, and exit."
)
LOG_OPTIONS: tuple[Decorator, ...] = (
    click.option("--log-form", "logs__form", type=click.Choice(FORMS), help="Log format on stderr."),
    click.option("--log-level", "logs__level", type=click.Choice(LEVELS), help="Log level."),
    show_config_option,
)
TLS_OPTIONS: tuple[Decorator, ...] = (
    file_option(
        "--tls-cert",
        "tls__cert",
        help="Serve HTTPS with this certificate and its chain, in PEM. [default: plain HTTP]",
    ),
    file_option("--tls-key", "tls__key", help="Private key of the certificate, in PEM."),
    file_option(
        "--client-ca",
        "tls__client_ca",
        help="CA certificates to verify client certificates with, in PEM. [default: no client certificates]",
    ),
)
HARDWARE_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--devices",
        "agent__devices",
        metavar="FILE|nvidia",
        help="Offer the devices in this file one by one, or the GPUs that nvidia-smi lists. [default: count GPUs]",
    ),
    click.option(
        "--cores/--no-cores",
        "agent__cores",
        default=None,
        help="Offer whole cores, which tasks may have for themselves. [default: CPU time only]",
    ),
)
SIGNING_KEYS: Decorator = click.option(
    "--signing-keys",
    "service__signing_keys",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the keys of the cell, which all its gateways and APIs share. [default: keys/signing in DATA]",
)
OIDC_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--oidc-issuer",
        "oidc__issuer",
        metavar="URL",
        help="OIDC issuer whose tokens authenticate users. [default: none]",
    ),
    click.option("--oidc-client-id", "oidc__client_id", metavar="ID", help="Client of this cell at the issuer."),
    file_option(
        "--oidc-client-secret-file",
        "oidc__client_secret_file",
        help="File with the secret of a confidential client. [default: a public client]",
    ),
    click.option(
        "--oidc-audience",
        "oidc__audience",
        metavar="NAME",
        help="Also accept tokens for this audience. [default: those for the client]",
    ),
    click.option(
        "--oidc-subject-claim",
        "oidc__subject_claim",
        metavar="CLAIM",
        help="Claim with the user's name. [default: sub]",
    ),
    click.option(
        "--oidc-groups-claim",
        "oidc__groups_claim",
        metavar="CLAIM",
        help="Claim with the list of the user's groups. [default: groups]",
    ),
    click.option(
        "--oidc-scopes",
        "oidc__scopes",
        metavar="SCOPES",
        help="Scopes to request at sign-in. [default: openid profile email]",
    ),
)
SERVICE_OPTIONS: tuple[Decorator, ...] = (
    data_option,
    kafka_options,
    click.option(
        "--listen",
        "service__listen",
        metavar="HOST:PORT",
        help="Address of health endpoints, metrics and HTTP; port 0: any free port.",
    ),
    file_option(
        "--address-file",
        "service__address_file",
        help="Write the address to this file once the process is listening.",
    ),
    click.option(
        "--name",
        "service__name",
        metavar="NAME",
        help="Stable instance name. [default: from the machine and the data folder]",
    ),
    *LOG_OPTIONS,
)


def several(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """The values of an option that may be repeated; None: none was given."""
    return values or None


def amounts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    """The values NAME=VALUE of an option that may be repeated, by name; None: none was given."""
    pairs: dict[str, str] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not name or (not equals and param.metavar != "KEY[=VALUE]"):
            raise click.BadParameter(f"{each!r} has no value: write {param.metavar}", ctx, param)
        if name in pairs:
            raise click.BadParameter(f"{name} is given twice: {pairs[name]} and {value}", ctx, param)
        pairs[name] = value
    return pairs or None


def content(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """The content of the file that an option names; None: it was not given."""
    try:
        return path.read_text().strip() if path else None
    except UnicodeDecodeError as error:
        raise click.BadParameter(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", ctx, param
        ) from error


def with_options(function: Callable[..., Any], options: tuple[Decorator, ...]) -> Callable[..., Any]:
    """A function with options, in the order in which the help shows them."""
    return reduce(lambda decorated, option: option(decorated), reversed(options), function)


def settings_flags(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as `settings.load` takes them; those that were not given are left out."""
    flags: dict[str, Any] = {}
    for name, value in options.items():
        table, _, key = name.rpartition("__")
        if value is not None:
            (flags.setdefault(table, {}) if table else flags)[key] = value
    return flags


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
