"""States that machines said they had, to be compared with what their rounds and replay come to."""

import time
from collections.abc import Callable, Mapping

BETWEEN_S, PATIENCE_S = 0.05, 3.0
Said = dict[tuple[int, str, int], str]
"""The hash of a state in hex, by cell, machine and round."""


class Hashes:
    """What was said while a cell ran."""

    def __init__(self) -> None:
        self.said: Said = {}
        self.missed = 0
        """Machines that were never caught between two rounds when they were to be noted."""

    def note(self, say: Callable[[], Said]) -> None:
        """What each machine says now. What differs between two looks was caught in the middle of a round, and is looked
        at again for a while.
        """
        first = say()
        wanted = {(cell, machine) for cell, machine, _ in first}
        deadline = time.monotonic() + PATIENCE_S
        while wanted and time.monotonic() < deadline:
            time.sleep(BETWEEN_S)
            second = say()
            same = dict(first.items() & second.items())
            self.said |= same
            wanted -= {(cell, machine) for cell, machine, _ in same}
            first = second
        self.missed += len(wanted)

    def differing(self, cell: int, machine: str, after: Mapping[int, bytes]) -> int:
        """How many of a machine's aren't the state `after` that round."""
        return sum(
            after.get(round_, b"").hex() != said
            for (of_cell, name, round_), said in self.said.items()
            if (of_cell, name) == (cell, machine)
        )
