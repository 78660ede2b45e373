"""The state that an agent keeps in `agent.json`, beside its runs."""

from pathlib import Path

import msgspec

from events.structs import known
from hostagent import private_files


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


def load(path: Path) -> AgentState:
    """Reads the state from a file; an empty state where there is no file. Raises `AgentFault` where it is damaged."""
    try:
        return msgspec.json.decode(private_files.read_file(path), type=known(AgentState))
    except FileNotFoundError:
        return AgentState()
    except (OSError, ValueError, RecursionError) as error:
        raise AgentFault(f"{path} is damaged: {error}. Remove it; the runs are kept beside it.") from error


def save(path: Path, state: AgentState) -> None:
    """Remembers, on disk before it returns. Raises `OSError`."""
    private_files.write_durably(str(path), msgspec.json.encode(state).decode())
