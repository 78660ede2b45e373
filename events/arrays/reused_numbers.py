"""Numbers of what stands in columns and comes and goes."""

from bisect import insort
from collections.abc import Mapping


class ReusedNumbers:
    """Numbers from 0 by id. The lowest free one is given next, so that which one it is depends on nothing but what is
    there: whoever restores goes on alike. `ids` holds the id of each number, "" where it is free; the last is taken.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._free: list[int] = []

    def restored(self, numbers: Mapping[str, int]) -> None:
        """Takes what is there."""
        self.ids = [""] * (max(numbers.values(), default=-1) + 1)
        for one, number in numbers.items():
            self.ids[number] = one
        self._free = [number for number, one in enumerate(self.ids) if not one]

    def take(self, one: str) -> int:
        """Gives a number to an id that has none."""
        if not self._free:
            self.ids.append(one)
            return len(self.ids) - 1
        number = self._free.pop(0)
        self.ids[number] = one
        return number

    def give_back(self, number: int) -> None:
        """An id has gone."""
        self.ids[number] = ""
        insort(self._free, number)
        while self.ids and not self.ids[-1]:
            self.ids.pop()
            self._free.pop()
