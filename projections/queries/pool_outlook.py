"""The effects of a tree of pools on the work of a cell: entitlements, what is admitted, what may be preempted.

The shares and bounds of admission are those of the machine itself. Work is chosen by amounts: which runs leave is
decided with the hosts, so that these are the first that may.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from events.pool_paths import ROOT, levels_of
from events.resources import Kinds, Vector, add, fits, positive, scale, subtract
from events.work_classes import DAEMONS, FIRM, REVOCABLES, class_of
from processors.entitlement.bounds import BOUNDS, Ask, NoUsage, check, closed_at, limit_of, room
from processors.entitlement.pools import Tree
from processors.entitlement.shares.entitlements import wanted
from processors.entitlement.shares.slack import slack_of, within_limit
from processors.entitlement.shares.tree import ShareTree
from projections.views.rows import JobRow


class Work(NamedTuple):
    """A job as far as a plan looks at it."""

    row: JobRow
    need: Vector
    """The amounts of one task."""
    waiting: int
    """Tasks that wait for admission."""
    holding: int
    """Tasks that are admitted."""

    @property
    def is_daemon(self) -> bool:
        """Whether it stands beside the shares: bounded by limits alone, and never preempted."""
        return self.row.kind == "daemon"


class Known(NamedTuple):
    """The state of a cell beside its pools."""

    kinds: Kinds
    shared: Vector
    """The amounts that pools share: those of the cell without those that daemons hold."""
    work: Sequence[Work]
    """In the order of the queues."""
    floors: Mapping[str, Vector]
    """The least entitlements of pools for a turn."""
    is_firm: Callable[[Work], bool]
    """Whether a job isn't preemptible."""


class PlannedUsage(NoUsage):
    """The `bounds.Usage` of a plan, which knows of neither controllers nor room that is kept or parked."""

    def __init__(self, outlook: "Outlook", tree: Tree, known: Known) -> None:
        super().__init__(tree.pools, len(known.kinds))
        self._kinds = known.kinds
        self._may = outlook.may
        self._held = dict(outlook.held)
        self._in_shares = dict(outlook.in_shares)
        self._firm = dict(outlook.firm)
        self._on_slack = dict(outlook.on_slack)
        self._regular = outlook.regular

    def take(self, pool: str, kind: int, amount: Vector) -> None:
        """Work of a class holds so much in a pool, and in those above it."""
        sums = [self._held, *[self._in_shares] * (kind != DAEMONS), *[self._firm] * (kind & FIRM > 0)]
        sums += [self._on_slack] * (kind == REVOCABLES)
        for level in levels_of(pool):
            for each in sums:
                each[level] = add(each.get(level, self._nothing), amount)

    def limit(self, level: str) -> Vector:
        """The limit of a pool; of the root with the licences of the cell."""
        return limit_of(self._pools[level], level, self._kinds)

    def entitlement(self, level: str) -> Vector:
        """The amount that a pool may use."""
        return self._may[level]

    def allocation(self, level: str) -> Vector:
        """The amount that is admitted in a pool."""
        return self._held.get(level, self._nothing)

    def firm(self, level: str) -> Vector:
        """The amount that is admitted and not preemptible."""
        return self._firm.get(level, self._nothing)

    def entitled(self, pool: str, priority: int) -> Vector:
        """The amount that is admitted beside daemons and revocable work, at any priority."""
        return subtract(self._in_shares.get(pool, self._nothing), self._on_slack.get(pool, self._nothing))

    def slack(self, pool: str) -> tuple[Vector, Vector]:
        """The amount to which revocable work of a pool may be entitled, and what its other work wants."""
        regular = self._regular.get(pool, self._nothing)
        return slack_of(self._pools[pool], self._may[pool], regular, self._kinds.revocable), regular

    def on_slack(self, pool: str, priority: int) -> Vector:
        """The amount of revocable work, at any priority."""
        return self._on_slack.get(pool, self._nothing)


class Outlook:
    """The effects of a tree of pools. `may`: what each pool may use; `held`: what it and all below it have admitted,
    `in_shares` without daemons, `firm` what isn't preemptible where such work waits; `lets_in`, `preempts`: by job how
    many of its tasks.
    """

    def __init__(self, tree: Tree, known: Known) -> None:
        self._tree, self._known = tree, known
        self._nothing: Vector = (0,) * len(known.kinds)
        self._in_pools = [self._without_aside(each) for each in known.work if each.row.pool in tree.pools]
        self._levels = {each.row.pool: levels_of(each.row.pool) for each in self._in_pools}
        self.held = self._sums(lambda each: each.holding)
        self.in_shares = self._sums(lambda each: 0 if each.is_daemon else each.holding)
        firm_pools = {each.row.pool for each in self._in_pools if each.waiting and self._is_firm(each)}
        in_reach = {level for pool in firm_pools for level in self._levels[pool][:-1]}
        self.firm = self._sums(
            lambda each: (
                each.holding if in_reach.intersection(self._levels[each.row.pool]) and self._is_firm(each) else 0
            )
        )
        self.on_slack = self._sums(lambda each: each.holding if self._is_revocable(each) else 0)
        self.regular: dict[str, Vector] = {}
        """By pool the demand of work that isn't revocable."""
        self.may = self._entitlements()
        self.lets_in = self._lets_in()
        self.preempts = self._preempts()

    def _without_aside(self, each: Work) -> Work:
        """A job without tasks that wait and ask for more than all that these pools allow: nobody waits behind them."""
        usage = NoUsage(self._tree.pools, len(self._known.kinds))
        ask = self._ask(each)
        aside = each.waiting and check(usage, ask, BOUNDS.fixed[ask.kind]) is not None
        return each._replace(waiting=0) if aside else each

    def _ask(self, each: Work) -> Ask:
        """The next unit of a job that waits."""
        return Ask(each.row.pool, self._class(each), each.row.priority, scale(each.need, self._size(each)))

    def _size(self, each: Work) -> int:
        """The number of tasks of a job that are admitted together."""
        gang = each.row.gang_min
        return gang if 1 < gang <= each.waiting else 1

    def _sums(self, tasks: Callable[[Work], int]) -> dict[str, Vector]:
        sums: dict[str, Vector] = {}
        for each in self._in_pools:
            if count := tasks(each):
                for level in self._levels[each.row.pool]:
                    sums[level] = add(sums.get(level, self._nothing), each.need, count)
        return sums

    def _is_firm(self, each: Work) -> bool:
        return not each.is_daemon and self._known.is_firm(each)

    def _is_revocable(self, each: Work) -> bool:
        return not each.is_daemon and self._known.kinds.is_revocable(each.need)

    def _is_closed(self, pool: str) -> bool:
        return closed_at(self._tree.pools, self._levels[pool]) != ""

    def _entitlements(self) -> dict[str, Vector]:
        shares = ShareTree(self._known.kinds)
        shares.set_capacity(self._known.shared)
        for path in sorted(self._tree.pools, key=lambda each: (each.count("/") if each != ROOT else 0, each)):
            shares.define(path, self._tree.pools[path])
        for path, floor in self._known.floors.items():
            if path in self._tree.pools:
                shares.set_floor(path, floor)
        for pool, want in self._wants().items():
            shares.set_want(pool, want)
        return shares.all()

    def _wants(self) -> dict[str, Vector]:
        """The demand of pools with jobs."""
        waits: dict[str, list[Vector]] = {}
        for each in self._in_pools:
            if each.is_daemon:
                continue
            mine = waits.setdefault(each.row.pool, [self._nothing] * 3)
            if each.waiting and not self._is_closed(each.row.pool):
                kind = 2 if self._is_revocable(each) else int(self._known.is_firm(each))
                mine[kind] = add(mine[kind], each.need, each.waiting)
        wants = {}
        for pool, (preemptible, firm, revocable) in waits.items():
            row, on_slack = self._tree.pools[pool], self.on_slack.get(pool, self._nothing)
            holding, stays = self.in_shares.get(pool, self._nothing), self.firm.get(pool, self._nothing)
            regular = wanted(subtract(holding, on_slack), preemptible, firm, row.reservation, stays)
            more = within_limit(row, add(on_slack, revocable), self._known.kinds.revocable)
            self.regular[pool], wants[pool] = regular, add(regular, more)
        return wants

    def _lets_in(self) -> dict[str, int]:
        """Work that waits and that its pool can let in."""
        usage, found = PlannedUsage(self, self._tree, self._known), dict[str, int]()
        for each in self._in_pools:
            pool = each.row.pool
            if not each.waiting or self._is_closed(pool):
                continue
            ask, size = self._ask(each), self._size(each)
            tasks = min(each.waiting, fits(ask.need, room(usage, ask, BOUNDS.told[ask.kind])) * size)
            if tasks > 0:
                found[each.row.job_id] = tasks
                usage.take(pool, ask.kind, scale(each.need, tasks))
        return found

    def _class(self, each: Work) -> int:
        """The class of a job, as entitlement has it."""
        return class_of(self._known.is_firm(each), False, each.is_daemon, self._is_revocable(each))

    def _preempts(self) -> dict[str, int]:
        """Work that may have to leave: of pools that hold more than they may use, as far as others can use it."""
        lacks, found = self._nothing, {}
        for pool, want in self._wants().items():
            have = self.in_shares.get(pool, self._nothing)
            lacks = add(lacks, positive(subtract(tuple(map(min, self.may[pool], want)), have)))
        idle = positive(subtract(self._known.shared, self.in_shares.get(ROOT, self._nothing)))
        lacks = positive(subtract(lacks, idle))
        over = {pool: subtract(self.in_shares.get(pool, self._nothing), self.may[pool]) for pool in self._levels}
        for each in sorted(self._in_pools, key=lambda one: (one.row.priority, -one.row.number)):
            most = tuple(map(min, over[each.row.pool], lacks))
            needs = [-(-room // need) for need, room in zip(each.need, most, strict=True) if need and room > 0]
            tasks = min(each.holding, max(needs, default=0))
            if tasks and not each.is_daemon and not self._known.is_firm(each):
                amount = scale(each.need, tasks)
                over[each.row.pool] = subtract(over[each.row.pool], amount)
                lacks = positive(subtract(lacks, amount))
                found[each.row.job_id] = tasks
        return found
