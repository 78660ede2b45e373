"""The state that an agent keeps in `agent.json`, beside its runs."""

from contextlib import suppress
from pathlib import Path

import msgspec

from events.structs import known
from hostagent import private_files

NOTED_CHARS = 80
"""The length of the file with the position."""


class AgentFault(Exception):
    """An agent can't run; the message says why and what to do."""


class AgentState(msgspec.Struct):
    """The last session of an agent, up to which position it has followed orders, its first port, and the cell and the
    log that all this is of.
    """

    session: int = 0
    position: int = 0
    port_first: int = 0
    cell: int | None = None
    log: str = ""


class NotedPosition(msgspec.Struct):
    """A position that was reached in a session, in a file beside the state."""

    session: int
    position: int


def load(path: Path) -> AgentState:
    """Reads the state from a file; an empty state where there is no file. Raises `AgentFault` where it is damaged."""
    try:
        state = msgspec.json.decode(private_files.read_file(path), type=known(AgentState))
        with suppress(OSError, ValueError):  # it may be lost with the machine, as all runs are
            noted = msgspec.json.decode(private_files.read_file(_beside(path)), type=known(NotedPosition))
            if noted.session == state.session:
                state.position = max(state.position, noted.position)
        return state
    except FileNotFoundError:
        return AgentState()
    except (OSError, ValueError, RecursionError) as error:
        raise AgentFault(f"{path} is damaged: {error}. Remove it; the runs are kept beside it.") from error


def save(path: Path, state: AgentState) -> None:
    """Remembers, on disk before it returns. Raises `OSError`."""
    private_files.write_durably(str(path), msgspec.json.encode(state).decode())


def note(path: Path, state: AgentState) -> None:
    """Remembers the position for the next agent of this boot, without waiting for the disk. Raises `OSError`."""
    noted = NotedPosition(state.session, state.position)
    private_files.overwrite(str(_beside(path)), msgspec.json.encode(noted).decode().ljust(NOTED_CHARS))


def _beside(path: Path) -> Path:
    return path.with_suffix(".position")
