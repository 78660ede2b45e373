"""How the pools right below one share what it is entitled to, in one resource."""

from collections.abc import Sequence

from processors.entitlement.max_min import Filling, fill


class Siblings:
    """First each has what it wants of its reservation; then they share by weight what they want beyond it, within a
    floor for those whose turn it is; what nobody with a share wants goes to those with share 0.

    Where the reservations exceed what there is, all of it is divided by reservation.
    """

    def __init__(self, reservation: Sequence[int], share: Sequence[int]) -> None:
        """The columns of the pools, ordered by path; none wants anything."""
        self._reservation = reservation
        self._share = share
        self.want = [0] * len(share)
        """What each wants, within its limit."""
        self.reserved = [0] * len(share)
        """What it wants of its reservation."""
        self.wanted = 0
        self.claimed = 0
        """The sums of these."""
        self._by_reservation: Filling | None = None
        self._by_share: Filling | None = None
        self._last: Filling | None = None
        """Those with share 0."""
        self.floors: dict[int, int | Siblings] = {}
        """Of some, a floor, or the pools below with the floors."""
        self._found: tuple[object, list[int]] = (None, [])
        self._changes = 0

    def change(self, at: int, want: int) -> int:
        """One of them wants something else. Returns how much more all want together."""
        more = want - self.want[at]
        if more == 0:
            return 0
        self._changes += 1
        reserved = min(want, self._reservation[at])
        self.wanted += more
        self.claimed += reserved - self.reserved[at]
        self.want[at], self.reserved[at] = want, reserved
        if self._by_reservation is not None:
            self._by_reservation.change(at, reserved)
        if self._by_share is not None:
            self._by_share.change(at, want - reserved)
        if self._last is not None:
            self._last.change(at, want - reserved)
        return more

    def floor(self) -> int:
        """What these need together so that each floor among them holds beside the reservations of the others."""
        return self.claimed + sum(self._floor_of(at) - self.reserved[at] for at in self.floors)

    def given(self, total: int, at: int, floors: bool) -> int:
        """What one of them is entitled to when all together are to an amount; with or without the floors."""
        if total >= self.wanted:
            return self.want[at]
        if total <= self.claimed:
            return self._reservations().given(total, at)
        if floors and self.floors:
            return self._with_floors(total)[at]
        free, reserved = total - self.claimed, self.reserved[at]
        by_share = self._shares()
        if self._share[at]:
            return reserved + by_share.given(free, at)
        left, weight = by_share.level(free)
        return reserved if weight else reserved + self._rest().given(left, at)

    def state(self, total: int) -> tuple[int, ...]:
        """Equal as long as another want of one of them changes what that one is entitled to, and nobody else."""
        if total >= self.wanted:
            return ()
        if self.floors:
            return 3, self._changes, total, self.floor()
        if total <= self.claimed:
            return 0, *self._reservations().state(total)
        state = self._shares().state(total - self.claimed)
        return (1, *state) if state[1] else (2, *self._rest().state(state[0]))

    def _reservations(self) -> Filling:
        if self._by_reservation is None:
            self._by_reservation = Filling(self.reserved, self._reservation)
        return self._by_reservation

    def _shares(self) -> Filling:
        if self._by_share is None:
            self._by_share = Filling(self._beyond(), self._share)
        return self._by_share

    def _rest(self) -> Filling:
        if self._last is None:
            self._last = Filling(self._beyond(), self._equal())
        return self._last

    def _beyond(self) -> list[int]:
        return [want - reserved for want, reserved in zip(self.want, self.reserved, strict=True)]

    def _equal(self) -> list[int]:
        return [0 if share else 1 for share in self._share]

    def _floor_of(self, at: int) -> int:
        floor = self.floors[at]
        floor = floor.floor() if isinstance(floor, Siblings) else floor
        return max(self.reserved[at], min(floor, self.want[at]))

    def _with_floors(self, total: int) -> list[int]:
        """What all of them are entitled to, with floors. These hold in the order of paths, as far as the reservations
        leave something.
        """
        floors = {at: self._floor_of(at) for at in sorted(self.floors)}
        key = (self._changes, total, tuple(floors.items()))
        if self._found[0] == key:
            return self._found[1]
        free = left = total - self.claimed
        least: dict[int, int] = {}
        for at, floor in floors.items():
            least[at] = min(floor - self.reserved[at], left)
            left -= least[at]
        beyond = self._beyond()
        last = {at: low for at, low in least.items() if not self._share[at]}
        by_share = fill(
            free - sum(last.values()), beyond, self._share, {at: low for at, low in least.items() if self._share[at]}
        )
        rest = fill(free - sum(by_share), beyond, self._equal(), last)
        given = [sum(parts) for parts in zip(self.reserved, by_share, rest, strict=True)]
        self._found = (key, given)
        return given
