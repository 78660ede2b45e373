"""The address and the token of a cell for a command that only asks it: read without the settings of processes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paceline.client.cell_file import DATA_DEFAULT

if TYPE_CHECKING:
    from paceline.services.settings import Settings


class Reach(NamedTuple):
    """The address of an API, empty: of the cell that runs on `data`; and the token for it."""

    server: str
    token: str | None
    data: Path


def reach(
    config: Path | None = None, server: str | None = None, token: str | None = None, data: Path | None = None
) -> Reach:
    """The way to a cell: by the options of a command, else by the environment, else by the file of settings. Only where
    there is one, all settings are read. Raises `WrongSettings`.
    """
    folder = Path(data or os.environ.get("PACELINE_DATA") or DATA_DEFAULT).expanduser().absolute()
    if config is None and not (folder.parent / "paceline.toml").is_file():
        there = {name.upper(): value for name, value in os.environ.items() if value}
        server = server if server is not None else there.get("PACELINE_SERVER", "")
        return Reach(server, token if token is not None else there.get("PACELINE_TOKEN"), folder)
    from paceline.services.settings import load

    return reach_of(load(config, server=server, token=token, data=data))


def reach_of(settings: "Settings") -> Reach:
    """The same of all settings of a process."""
    return Reach(settings.server, settings.token.get_secret_value() if settings.token else None, settings.data)
