"""When a host tells its cell what its runs use: seldom, as all hosts of a cell say it into one log (decision 074)."""

from events.bounds import LOAD_STEPS
from hostagent.messages import HostLoad

CHANGED_STEPS = 2
"""Less than this is no change of CPU or memory."""
CHANGED_MS = 60_000
"""So often a change is told at most, and"""
FALLEN_MS = 5_000
"""so often less slack, which somebody may rely on."""
AGAIN_MS = 600_000
"""It is told again after so long."""


class LoadNews:
    """The load that the cell knows of a host, in one session."""

    def __init__(self, now_ms: int) -> None:
        self._told = HostLoad(0, 0)
        self._told_ms = now_ms
        self._first = True

    def due(self, load: HostLoad, now_ms: int) -> bool:
        """Whether the cell is to be told."""
        before, passed_ms = self._told, now_ms - self._told_ms
        if load.slack < before.slack:
            return passed_ms >= FALLEN_MS
        moved = max(abs(load.cpu - before.cpu), abs(load.memory - before.memory))
        changed = moved >= CHANGED_STEPS or load.slack != before.slack
        return (changed and (self._first or passed_ms >= CHANGED_MS)) or passed_ms >= AGAIN_MS

    def told(self, load: HostLoad, now_ms: int) -> None:
        """The cell has it durably."""
        self._told, self._told_ms, self._first = load, now_ms, False


def steps(used: int, capacity: int, down: bool = False) -> int:
    """Rounds a use to steps of a capacity, or `down`; 0 of no capacity."""
    if capacity <= 0:
        return 0
    return max(0, min(LOAD_STEPS, (used * LOAD_STEPS + (0 if down else capacity // 2)) // capacity))
