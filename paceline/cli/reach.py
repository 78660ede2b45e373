"""The address and the token of a cell for a command that only asks it: read without the settings of processes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paceline.client.cell_file import DATA_DEFAULT

if TYPE_CHECKING:
    from paceline.services.settings import Settings


class Reach(NamedTuple):
    """The address of an API, empty: of the cell that runs on `data`; the token for it, and the file of the CAs that its
    certificate is looked up in, None: those of the machine.
    """

    server: str
    token: str | None
    data: Path
    ca: Path | None = None


def reach(
    config: Path | None = None,
    server: str | None = None,
    token: str | None = None,
    data: Path | None = None,
    ca: Path | None = None,
) -> Reach:
    """The way to a cell: by the options of a command, else by the environment, else by the file of settings. Only where
    there is one, all settings are read. Raises `WrongSettings`.
    """
    folder = Path(data or os.environ.get("PACELINE_DATA") or DATA_DEFAULT).expanduser().absolute()
    if config is None and not (folder.parent / "paceline.toml").is_file():
        there = {name.upper(): value for name, value in os.environ.items() if value}
        server = server if server is not None else there.get("PACELINE_SERVER", "")
        ca = ca or (Path(file) if (file := there.get("PACELINE_CA")) else None)
        return Reach(server, token if token is not None else there.get("PACELINE_TOKEN"), folder, ca)
    from paceline.services.settings import load

    return reach_of(load(config, server=server, token=token, data=data, ca=ca))


def reach_of(settings: "Settings") -> Reach:
    """The same of all settings of a process."""
    token = settings.token.get_secret_value() if settings.token else None
    return Reach(settings.server, token, settings.data, settings.ca)
