"""Free slots of a column."""

from bisect import bisect_left
from collections.abc import Iterable


def room_to_grow(size: int) -> int:
    """The number of slots that a stretch of `size` gets when it moves: half as many again. A stretch that moves next
    time has grown by a third of what is moved, so growing one by one moves each slot a few times, however long it gets.
    """
    return (3 * size + 1) // 2


def slots_kept(size: int, capacity: int) -> int:
    """The number of slots that a stretch keeps of which `size` are in use, at least one: all, until fewer than half
    are. So growing and shrinking by turns moves nothing.
    """
    return capacity if 2 * size >= capacity else max(1, room_to_grow(size))


class FreeSlots:
    """The free stretches below `end`, ascending; neighbours are one, and none reaches `end`. So where the next stretch
    goes depends on nothing but what is taken.
    """

    def __init__(self, end: int = 0, free: Iterable[tuple[int, int]] = ()) -> None:
        self.end = end
        self.free = list(free)
        """Start and size of each."""

    def take(self, size: int) -> int:
        """Takes the first stretch that is large enough; returns where it begins."""
        for at, (start, room) in enumerate(self.free):
            if room >= size:
                self.free[at : at + 1] = [(start + size, room - size)] if room > size else []
                return start
        self.end += size
        return self.end - size

    def extend_range(self, end: int, size: int) -> bool:
        """Takes the slots right behind a stretch that ends at `end`, if so many are free there."""
        if end == self.end:
            self.end += size
            return True
        at = bisect_left(self.free, (end, 0))
        if at == len(self.free) or self.free[at][0] != end or self.free[at][1] < size:
            return False
        room = self.free[at][1] - size
        self.free[at : at + 1] = [(end + size, room)] if room else []
        return True

    def give_back(self, start: int, size: int) -> None:
        """Frees a stretch that was taken."""
        at, end = bisect_left(self.free, (start, 0)), start + size
        first, last = at, at
        if at and sum(self.free[at - 1]) == start:
            first, start = at - 1, self.free[at - 1][0]
        if at < len(self.free) and self.free[at][0] == end:
            last, end = at + 1, sum(self.free[at])
        if end == self.end:
            self.end = start
            del self.free[first:last]
        else:
            self.free[first:last] = [(start, end - start)]
