"""Rounds on their way to the store: a write costs much the same whatever is in it."""

from collections.abc import Sequence

from msgspec.structs import replace

from processors.runtime.store import Progress, Store
from processors.state.table import RowChange

ROWS_MAX = 2000
"""So many rows are written at once, however few rounds they are of."""


class StoreWriter:
    """Holds what rounds have changed and writes it together, every `rounds` of them or when asked to. What is held is
    in the log, so its loss costs no more than folding those rounds again.
    """

    def __init__(self, store: Store, rounds: int) -> None:
        self.replaces = False
        """Whether the next write takes the place of all that is there."""
        self._store = store
        self._rounds = rounds
        self._held: dict[tuple[str, bytes], RowChange] = {}
        self._held_rounds = 0
        self._progress: Progress | None = None

    def add(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Takes the end of a round. Raises `StoreFault` where it is written and the disk says no."""
        self._held_rounds += 1
        if self._held_rounds == 1 and (self._rounds <= 1 or len(changes) >= ROWS_MAX):
            self._write(changes, progress)
            return
        for change in changes:
            self._held[change[:2]] = change
        own = replace(progress.own, inputs=dict(progress.own.inputs))  # goes on while it waits
        self._progress = replace(progress, own=own)
        if self._held_rounds >= self._rounds or len(self._held) >= ROWS_MAX:
            self.flush()

    def flush(self) -> None:
        """Writes what is held. Raises `StoreFault`."""
        if self._progress is not None:
            self._write(list(self._held.values()), self._progress)

    def _write(self, changes: Sequence[RowChange], progress: Progress) -> None:
        write = self._store.replace if self.replaces else self._store.commit
        write(changes, progress)
        self.replaces = False
        self._held, self._held_rounds, self._progress = {}, 0, None
