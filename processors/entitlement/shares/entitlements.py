"""The entitlements of pools as they are now: the share tree follows what changed, and is read along paths."""

from collections.abc import Iterable

from events.host_pools import KINDS
from events.resources import Vector, add, subtract
from processors.entitlement.bounds import closed_at, exceeds
from processors.entitlement.host_pools import ALL_KINDS, UNBOUNDED
from processors.entitlement.queues.parts import Consumer
from processors.entitlement.queues.queues import Queues
from processors.entitlement.queues.usage import Usages
from processors.entitlement.rows import CellRow, PoolRow
from processors.entitlement.shares.reach import Limits, Reach
from processors.entitlement.shares.slack import slack_of, within_limit
from processors.entitlement.shares.tree import ShareTree, Watch
from processors.state.marks import Marks
from processors.state.table import Table

FEW_POOLS = 16
"""The entitlements of so many pools are read one by one; those of more are computed by columns."""


def wanted(holding: Vector, waiting: Vector, firm_waiting: Vector, reservation: Vector, firm: Vector) -> Vector:
    """The amount that a pool wants: what it holds, and what waits and may be admitted; of work that isn't preemptible
    so much as its reservation can take, since no entitlement would let the rest in. `firm`: what it holds of that.
    """
    want = add(holding, waiting)
    if not any(firm_waiting):
        return want
    free = subtract(reservation, firm)
    return add(want, tuple([max(0, min(waits, have)) for waits, have in zip(firm_waiting, free, strict=True)]))


class Shares:
    """Entitlements, kept up when they are asked for."""

    def __init__(
        self,
        pools: Table[str, PoolRow],
        cell: Table[str, CellRow],
        queues: Queues,
        usage: Usages,
        marks: Marks[Consumer, str],
    ) -> None:
        self._queues = queues
        self._usage = usage
        self._marks = marks
        self._wants = marks.of(Consumer.SHARES)
        """Pools that may want something else than the tree knows."""
        self._pools = pools
        self._cell = cell
        self._tree = ShareTree(queues.kinds)
        self._all: tuple[int, dict[str, Vector]] = (-1, {})
        self._is_stale = True
        """The tree is built from the rows before it is read next."""
        self._to_share: tuple[Vector, Vector] | None = None
        """The capacity and what daemons hold of it, as the tree knows it."""
        self._limits: dict[str, Limits] = {}
        """The most that pools may be entitled to by the host pools that they reach; of those that want more."""

    def restored(self) -> None:
        """The tables were loaded, or the cell knows more kinds."""
        self._is_stale = True

    def define(self, path: str) -> None:
        """A pool was created or changed."""
        if not self._is_stale:
            self._tree.define(path, self._pools[path])
            self._set_floor(path)

    def remove(self, path: str) -> None:
        """A pool was removed."""
        if not self._is_stale:
            self._tree.remove(path)

    def turned(self, path: str) -> None:
        """A turn began or is over."""
        if not self._is_stale:
            self._set_floor(path)

    def follow(self) -> list[str]:
        """Brings the tree up to date. Returns the pools that are watched and to be looked at since."""
        if self._is_stale:
            self._build()
        if self._wants:
            paths = [path for path in self._marks.take(Consumer.SHARES) if path in self._pools]
            if self.reach is not None:
                paths = self._bounded(paths)
            for path in paths:
                want = self.wanted(path)
                self._tree.set_want(path, self._within_reach(path, want) if self._limits else want)
        to_share = self._cell["cell"].capacity, self._usage["/"].daemons
        if to_share != self._to_share:
            self._to_share = to_share
            self._tree.set_capacity(self._usage.shared(to_share[0]))
        return self._tree.found()

    def watch(self, path: str, needs: tuple[Vector, ...], least: Vector) -> None:
        """Looks out for when a pool is entitled to one of the needs, or to less than the least."""
        self._tree.watch(path, Watch(needs, least) if needs or any(least) else None)

    def all(self) -> dict[str, Vector]:
        """The amount that each pool may use now."""
        if self._all[0] != self._tree.version:
            few = len(self._pools) <= FEW_POOLS
            whole = {path: self._tree.entitlement(path) for path in self._pools} if few else self._tree.all()
            self._all = self._tree.version, whole | {path: self.entitlement(path) for path in self._limits}
        return self._all[1]

    def entitlement(self, path: str) -> Vector:
        """The amount that a pool may use now."""
        entitled = self._tree.entitlement(path)
        return self._within_reach(path, entitled) if self._limits else entitled

    def reached(self, path: str) -> Vector | None:
        """The most that a pool may be entitled to by the host pools that it reaches; None: they bound it in nothing."""
        return self._limits.get(path, {}).get(ALL_KINDS)

    def is_bounded(self, path: str, kind: int) -> bool:
        """Whether it is the host pools that a pool reaches that leave it no more of a kind."""
        limit = self.reached(path)
        return limit is not None and limit[kind] <= self._tree.entitlement(path)[kind]

    def limits_of_kinds(self, path: str) -> Limits:
        """The most that kinds of jobs of a pool may be entitled to together, by the host pools that they reach."""
        return {mask: most for mask, most in self._limits.get(path, {}).items() if mask != ALL_KINDS}

    def waiting_for_host_pools(self) -> dict[str, Vector]:
        """By host pool the amount that waits because those which hold it up have no more, within limits of pools."""
        reach = self.reach
        if reach is None:
            return {}
        wants = {path: self._wanted_by_kind(path, reach) for path in self._limits}
        return reach.waits(wants, self._limits, self._least_limit)

    def _least_limit(self, path: str) -> Vector:
        """The least of the limits of a pool and of those above it."""
        limits = [self._pools[level].limit for level in self._usage.levels(path)]
        return tuple(
            min([UNBOUNDED, *(each for each in of_kind if each >= 0)]) for of_kind in zip(*limits, strict=True)
        )

    def share(self, path: str) -> Vector:
        """The amount that it might use if nobody had a turn."""
        return self._tree.share(path)

    def most(self, path: str) -> Vector:
        """The most that it might use by a turn: what the reservations of others leave, as far as these want them."""
        return self._tree.most(path)

    def demand(self, path: str) -> Vector:
        """The amount that it wants with all below it, within its limit."""
        return self._tree.want(path)

    def holds_floor(self, path: str, floor: Vector, turns: Iterable[str]) -> bool:
        """Whether a pool would be entitled to a floor beside the reservations of others, and beside their turns."""
        floors = {path: floor}
        for other in turns:
            turn = self._pools[other].turn
            if turn is not None:
                floors[other] = tuple(map(min, turn.floor, self._tree.want(other)))
        self._tree.set_floor(path, floor)
        holds = not any(exceeds(each, self._tree.entitlement(pool)) for pool, each in floors.items())
        self._set_floor(path)
        return holds

    def wanted(self, path: str) -> Vector:
        """The amount that a pool itself wants."""
        usage = self._usage[path]
        regular, is_closed = self._regular(path), closed_at(self._pools, self._usage.levels(path)) != ""
        revocable = usage.revocable if is_closed else add(usage.revocable, usage.revocable_waiting)
        if not any(revocable):
            return regular
        return add(regular, within_limit(self._pools[path], revocable, self._queues.kinds.revocable))

    def slack(self, path: str) -> tuple[Vector, Vector]:
        """The amount to which revocable work of a pool may be entitled, and what its other work wants."""
        regular = self._regular(path)
        at = self._queues.kinds.revocable
        return slack_of(self._pools[path], self._tree.entitlement(path), regular, at), regular

    def _regular(self, path: str) -> Vector:
        """The amount that work of a pool wants which isn't revocable."""
        usage = self._usage[path]
        holding = subtract(subtract(add(usage.allocation, usage.parked), usage.daemons), usage.revocable)
        if closed_at(self._pools, self._usage.levels(path)):
            return holding
        return wanted(holding, usage.waiting, usage.firm_waiting, self._pools[path].reservation, usage.firm)

    @property
    def reach(self) -> Reach | None:
        """The reach of pools with jobs; None: all hosts."""
        cell = self._cell["cell"]
        if not cell.host_pools:
            return None
        return Reach(self._pools, cell, self._queues.kinds, filter(self._pools.__contains__, self._queues.open_jobs))

    def _bounded(self, paths: list[str]) -> list[str]:
        """Finds what host pools let pools be entitled to; returns those of which that has changed, with some others."""
        reach, before = self.reach, self._limits
        assert reach is not None
        open_ = [path for path in self._queues.open_jobs if path in self._pools]
        self._limits = reach.limits({path: self._wanted_by_kind(path, reach) for path in open_})
        others = [path for path in {**before, **self._limits} if before.get(path) != self._limits.get(path)]
        for consumer in (Consumer.ADMISSION, Consumer.DEMOTION):  # reasons may be others too
            self._marks.mark(consumer, others)
        return list(dict.fromkeys([*paths, *(path for path in others if path in self._pools)]))

    def _within_reach(self, path: str, amount: Vector) -> Vector:
        limit = self.reached(path)
        return amount if limit is None else tuple(map(min, amount, limit))

    def _wanted_by_kind(self, path: str, reach: Reach) -> list[Vector]:
        """The amount that each kind of jobs of a pool wants; as one where all of them reach the same host pools."""
        nothing = self._queues.nothing
        if not reach.tells_kinds(path):
            return [self.wanted(path), *(nothing for _ in KINDS[1:])]
        row, firm = self._pools[path], self._usage[path].firm
        is_closed = closed_at(self._pools, self._usage.levels(path)) != ""
        wants = []
        for kind in range(len(KINDS)):
            usage = self._usage.of_kind(path, kind)
            regular = subtract(add(usage.allocation, usage.parked), usage.revocable)
            revocable = usage.revocable
            if not is_closed:
                regular = wanted(regular, usage.waiting, usage.firm_waiting, row.reservation, firm)
                revocable = add(revocable, usage.revocable_waiting)
            wants.append(add(regular, within_limit(row, revocable, self._queues.kinds.revocable)))
        return wants

    def _set_floor(self, path: str) -> None:
        turn = self._pools[path].turn
        self._tree.set_floor(path, None if turn is None else turn.floor)

    def _build(self) -> None:
        self._is_stale, self._all, self._to_share, self._limits = False, (-1, {}), None, {}
        self._tree = ShareTree(self._queues.kinds)
        for path in sorted(self._pools, key=lambda path: (path.count("/") if path != "/" else 0, path)):
            self._tree.define(path, self._pools[path])
        for path, row in self._pools.items():
            if row.turn is not None:
                self._set_floor(path)
        paths = [path for path, _ in self._usage.items() if path in self._pools]
        self._marks.mark(Consumer.SHARES, [path for path in paths if path in self._queues.open_jobs])
