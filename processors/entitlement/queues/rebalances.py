"""Jobs for which others are moved at once, as that was asked for (decision 112)."""

import msgspec

from processors.entitlement.queues.queues import Queues
from processors.state.table import Table, struct_table

MOVES_MS = 60_000
"""So long others are moved for a job once an operator has said so."""
HOUR_MS = 3_600_000
ANY = 1 << 31
"""More moves than there are."""


class RebalanceAskRow(msgspec.Struct, frozen=True, array_like=True):
    """A job for which others are moved: until when, how many more, and whether a process proposed it by the setting."""

    until_ms: int
    moves: int
    by_setting: bool = False


class MovesRow(msgspec.Struct, frozen=True, array_like=True):
    """Moves that were proposed by the setting: how many, and when."""

    at_ms: int
    moves: int


class Rebalances:
    """Two tables: by job what was asked for, and by order the moves of the last hour that nobody asked for."""

    def __init__(self, queues: Queues) -> None:
        self.table: Table[str, RebalanceAskRow] = struct_table("rebalances", RebalanceAskRow)
        self.moves: Table[int, MovesRow] = struct_table("rebalance_moves", MovesRow, int)
        self._queues = queues

    def start(self, job_id: str, max_moves: int, by_setting: bool, now: int) -> None:
        """Others are moved for a job from now on. `max_moves` 0: as many as it takes."""
        self.table.put(job_id, RebalanceAskRow(now + MOVES_MS, max_moves or ANY, by_setting))

    def ordered(self, order: int, job_id: str, moves: int, now: int) -> None:
        """So many tasks are moved for a job."""
        row = self.table.get(job_id)
        if row is None:
            return
        self.table.put(job_id, RebalanceAskRow(row.until_ms, max(0, row.moves - moves), row.by_setting))
        if row.by_setting:
            self.moves.put(order, MovesRow(now, moves))

    def drop(self, job_id: str) -> None:
        """A job is over."""
        if job_id in self.table:
            self.table.remove(job_id)

    def expire(self, now: int) -> None:
        """Forgets those whose time is over, and moves of more than an hour ago."""
        for job_id in [job_id for job_id, row in self.table.items() if row.until_ms <= now]:
            self.table.remove(job_id)
        for order in [order for order, row in self.moves.items() if row.at_ms + HOUR_MS <= now]:
            self.moves.remove(order)

    def is_on(self, job_id: str, now: int) -> bool:
        """Whether others are moved for a job."""
        row = self.table.get(job_id)
        return row is not None and row.until_ms > now

    def bound(self, job_id: str, per_hour: int, now: int) -> int | None:
        """The most tasks that may be moved for a job now; None: it isn't bound, as none were asked for. `per_hour`: the
        setting of the cell.
        """
        row = self.table.get(job_id)
        if row is None or row.until_ms <= now:
            return None
        return min(row.moves, self.left(per_hour, now)) if row.by_setting else row.moves

    def left(self, per_hour: int, now: int) -> int:
        """The number of moves that the setting leaves for the hour that ends now."""
        return max(0, per_hour - sum(row.moves for row in self.moves.values() if row.at_ms + HOUR_MS > now))

    def ends(self, pool: str) -> list[int]:
        """When the times of the jobs of a pool are over."""
        return [row.until_ms for job_id, row in self.table.items() if self._queues.jobs[job_id].pool == pool]
