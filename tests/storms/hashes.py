"""States that machines said they had, to be compared with what their rounds and replay come to."""

import time
from collections.abc import Callable, Mapping

BETWEEN_S = 0.05
Said = dict[tuple[int, str, int], str]
"""The hash of a state in hex, by cell, machine and round."""


class Hashes:
    """What was said while a cell ran."""

    def __init__(self) -> None:
        self.said: Said = {}

    def note(self, say: Callable[[], Said]) -> None:
        """What machines say now. What differs between two looks was caught in the middle of a round."""
        first = say()
        time.sleep(BETWEEN_S)
        self.said.update(first.items() & say().items())

    def differing(self, cell: int, machine: str, after: Mapping[int, bytes]) -> int:
        """How many of a machine's aren't the state `after` that round."""
        return sum(
            after.get(round_, b"").hex() != said
            for (of_cell, name, round_), said in self.said.items()
            if (of_cell, name) == (cell, machine)
        )
