"""Room on hosts that is kept for units: what others leave for one, and what is drained for one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.codes import Code
from events.columns import I64


class OwnRoom(NamedTuple):
    """The room kept for one unit."""

    hosts: I64
    """Numbers of hosts, ascending."""
    amounts: I64
    """The amounts kept on each of them, [kinds + 1, hosts] with ports behind the kinds; part of what is free there now.
    """
    complete: bool
    """Whether all is there that it needs."""
    needs: I64
    """[kinds + 1, hosts]: what it needs there."""
    code: Code
    """The reason of its wait while it finds no place: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""


class OwnRooms:
    """The room of each unit that has some, by the slot of its first task: columns, of which one is made when it is
    asked for.
    """

    def __init__(
        self,
        slots: I64,
        hosts: I64,
        amounts: I64,
        starts: I64,
        complete: NDArray[np.bool_],
        needs: I64,
        codes: Sequence[Code],
    ) -> None:
        """`hosts`, `amounts` and `needs` ([kinds + 1, those hosts]) have one room after another; `starts` says where
        each begins, and where the last one ends.
        """
        self._slots = slots
        self._hosts = hosts
        self._amounts = amounts
        self._starts = starts
        self._complete = complete
        self._needs = needs
        self._codes = codes
        self._order = np.argsort(slots, kind="stable")
        self._sorted = slots[self._order]

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[int]:
        return iter(self._slots.tolist())

    def __contains__(self, slot: int) -> bool:
        return self._at(slot) is not None

    def __getitem__(self, slot: int) -> OwnRoom:
        own = self.get(slot)
        assert own is not None, slot
        return own

    def get(self, slot: int) -> OwnRoom | None:
        """The room of a unit, if it has any."""
        at = self._at(slot)
        if at is None:
            return None
        which = slice(int(self._starts[at]), int(self._starts[at + 1]))
        amounts, needs = self._amounts[:, which], self._needs[:, which]
        return OwnRoom(self._hosts[which], amounts, bool(self._complete[at]), needs, self._codes[at])

    def among(self, slots: I64) -> tuple[I64, NDArray[np.bool_]]:
        """Those of some ascending slots that have room, and whether that of each is complete."""
        at = np.searchsorted(self._sorted, slots)
        at[at == len(self._sorted)] = 0
        has = self._sorted[at] == slots if len(self) else np.zeros(len(slots), dtype=np.bool_)
        return slots[has], self._complete[self._order[at[has]]]

    def _at(self, slot: int) -> int | None:
        at = int(np.searchsorted(self._sorted, slot))
        return int(self._order[at]) if at < len(self._sorted) and self._sorted[at] == slot else None


def rooms_of(rooms: Mapping[int, OwnRoom], kinds: int) -> OwnRooms:
    """The columns of some rooms; `kinds`: so many amounts a host has, ports included."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros((kinds, 0), dtype=np.int64)
    return OwnRooms(
        np.fromiter(rooms, dtype=np.int64),
        np.concatenate([none, *(room.hosts for room in rooms.values())]),
        np.concatenate([nothing, *(room.amounts for room in rooms.values())], axis=1),
        np.cumsum([0, *(len(room.hosts) for room in rooms.values())]),
        np.array([room.complete for room in rooms.values()], dtype=np.bool_),
        np.concatenate([nothing, *(room.needs for room in rooms.values())], axis=1),
        [room.code for room in rooms.values()],
    )


class KeptRoom(NamedTuple):
    """The room kept for all units. Others see what is free less that; a unit sees its own too."""

    amounts: I64
    """[kinds + 1, hosts]: the sum of what is kept."""
    own: OwnRooms
    ports: Mapping[int, list[int]]
    """The hosts on which a port number is kept for a unit."""
