"""The tasks that each order without an answer tells to leave: found by its number without a look at all columns."""

from collections.abc import Callable, Mapping

import numpy as np

from events.columns import I64, distinct
from processors.state.arena import Arena


class Leaving:
    """By the absolute value in the column `leaving`. Tasks that don't leave any more may be among them."""

    def __init__(self, arena: Arena, at: Mapping[int, str]) -> None:
        """`at`: the job of each base."""
        self._arena = arena
        self._at = at
        self._tasks: dict[int, list[tuple[str, I64]]] = {}

    def restored(self) -> None:
        """Finds them again."""
        self._tasks = {}
        slots = np.flatnonzero(self._arena["leaving"])
        numbers = np.abs(self._arena["leaving"][slots])
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        for part in np.split(slots[order], starts[1:]) if len(slots) else ():
            self.add(int(abs(self._arena["leaving"][part[0]])), part)

    def add(self, number: int, slots: I64) -> None:
        """These tasks are to leave."""
        bases = self._arena["owner"][slots].astype(np.int64) - 1
        if len(slots) == 1:
            self._tasks.setdefault(number, []).append((self._at[int(bases[0])], slots - bases))
            return
        for base in dict.fromkeys(bases.tolist()):
            self._tasks.setdefault(number, []).append((self._at[base], slots[bases == base] - base))

    def take(self, number: int, stretch: Callable[[str], tuple[int, int]]) -> I64:
        """The slots of those that still leave by an order, ascending; it is forgotten. `stretch`: where the tasks of a
        job begin, and how many there are.
        """
        if not (tasks := self._tasks.pop(number, ())):
            return np.zeros(0, dtype=np.int64)
        slots = []
        for job_id, instances in tasks:
            base, size = stretch(job_id)
            slots.append(instances[instances < size] + base)
        every: I64 = distinct(slots[0] if len(slots) == 1 else np.concatenate(slots))
        still: I64 = every[np.abs(self._arena["leaving"][every]) == number]
        return still
