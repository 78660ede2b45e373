"""The face of Paceline: the `paceline` command, the typed client, settings, and the cell in one process."""

from typing import TYPE_CHECKING, Any

from events import VERSION as __version__

if TYPE_CHECKING:
    from paceline.client.client import Client as Client

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """`paceline.Client`, imported when it is first asked for: `paceline --version` needs none of it."""
    if name == "Client":
        from paceline.client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
