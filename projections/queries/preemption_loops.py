"""Loops of preemption: pools, or jobs of one pool, that preempt each other again and again, each time by a run whose
predecessor the other one has preempted (decision 127).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, select

from events.cell_settings import Settings
from events.codes import Code, Outcome
from events.columns import ints
from events.quantities import write_ms
from events.words import listed
from projections.queries.metric_families import Family, Samples
from projections.queries.pages import rows_of
from projections.queries.resources import settings_of
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow

BACK_MS = 6 * 3_600_000
"""Orders of so long are looked at: what changes by day and by night is no loop."""
GOES_ON_MS = 3_600_000
"""A loop whose last order is older has ended."""
ORDERS_MAX = 5000
WINS = 3
"""So often somebody must have won in one chain of causes; twice is a demand that came, went and came again."""
NAMED = 4
AT_ONCE = 500
LOOPS_MAX = 20
_G = GaugeMetricFamily
ORDERS = Family(_G, "paceline_preemption_loop_orders", "Orders in 6 h of who preempts in a circle.", ("parties",))
LOST = Family(_G, "paceline_preemption_loop_lost_seconds", "What their victims had run for.", ("parties",))
FAMILIES = (ORDERS, LOST)
_REMEDIES = {
    Code.BELOW_RESERVATION: "keep the reservations of pools as they are",
    Code.BELOW_ENTITLEMENT: "keep the shares of pools as they are, or reserve for each what it always needs",
    Code.HIGHER_PRIORITY: "keep the priorities of jobs as they are, or give them one priority",
    Code.HOSTS_CLEARED: "give each a host pool of its own, or raise `move_after`",
    Code.REBALANCED: "leave the hosts of campaigns apart from each other",
    Code.LIMIT_REACHED: "raise the limit that they share",
    Code.FOR_DAEMON: "keep daemons and others on different hosts by constraints",
}
"""By the right by which victims left: what ends a loop."""


class Order(NamedTuple):
    """An order whose victims have left, and the unit for which."""

    number: int
    at_ms: int
    code: str
    pool: str
    job_id: str
    first: int
    tasks: int
    run: int


class Loop(NamedTuple):
    """Parties that preempt each other in a circle: pools, or jobs where all is in `pool`."""

    parties: tuple[str, ...]
    pool: str
    since_ms: int
    last_ms: int
    orders: int
    lost_s: int
    codes: tuple[str, ...]
    remedy: str

    @property
    def name(self) -> str:
        """The parties in words."""
        return listed(self.parties, NAMED)

    @property
    def sentence(self) -> str:
        """Says what happens and how it is ended."""
        who = f"jobs {self.name} of pool {self.pool}" if self.pool else f"pools {self.name}"
        return (
            f"{who} preempt each other again and again: {self.orders} orders since {at(self.since_ms)} ended runs "
            f"that had run for {self.lost_s} s in all ({', '.join(self.codes)}). To end it, {self.remedy}"
        )


def loops(connection: Connection, now_ms: int) -> list[Loop]:
    """The loops that go on, those that began first first."""
    orders = _orders(connection, now_ms - BACK_MS)
    before = _causes(connection, orders)
    by_parties: dict[tuple[str, tuple[str, ...]], set[int]] = {}
    walked: set[int] = set()
    for number in sorted(before, reverse=True):
        if number in walked:
            continue
        chain = list(_chain(number, before))
        walked.update(chain)
        key = _circle([orders[each] for each in chain])
        if key is not None:
            by_parties.setdefault(key, set()).update(chain)
    settings = settings_of(connection)
    going: list[Loop] = []
    for (pool, parties), numbers in by_parties.items():
        mine = [orders[each] for each in sorted(numbers)]
        if mine[-1].at_ms < now_ms - GOES_ON_MS:
            continue
        codes = tuple(sorted({each.code for each in mine}))
        remedy = _remedy(codes, settings, bool(pool))
        times = mine[0].at_ms, mine[-1].at_ms
        going.append(Loop(parties, pool, *times, len(mine), _lost_s(connection, numbers), codes, remedy))
    return sorted(going, key=lambda loop: (loop.since_ms, loop.parties))[:LOOPS_MAX]


def look(going: Iterable[Loop], cell: str, samples: Samples) -> None:
    """Adds the samples of a cell."""
    for loop in going:
        samples[ORDERS.name].append(((cell, loop.name), loop.orders))
        samples[LOST.name].append(((cell, loop.name), loop.lost_s))


def _orders(connection: Connection, since_ms: int) -> dict[int, Order]:
    rows = tables.orders.c
    unit = rows.for_job, rows.for_first, rows.for_count, rows.for_run
    query = select(rows.number, rows.at_ms, rows.code, rows.for_pool, *unit).where(
        rows.at_ms >= since_ms, rows.answer == Code.LEFT, rows.for_job != ""
    )
    newest = connection.execute(query.order_by(rows.at_ms.desc()).limit(ORDERS_MAX))
    return {each.number: each for each in (Order(*row) for row in newest)}


def _causes(connection: Connection, orders: dict[int, Order]) -> dict[int, int]:
    """By order, the newest one before it by which the last run of its unit had to leave."""
    displaced: dict[tuple[str, int], list[Order]] = {}
    for order in orders.values():
        displaced.setdefault((order.job_id, order.run - 1), []).append(order)
    before: dict[int, int] = {}
    for job_id, number, runs in _victims(connection, orders):
        instance, run = ints(runs).reshape(4, -1)[:2]
        for of in np.unique(run).tolist():
            mine = instance[run == of]
            for order in displaced.get((job_id, of), ()):
                touched = (mine >= order.first) & (mine < order.first + order.tasks)
                if number < order.number and touched.any():
                    before[order.number] = max(number, before.get(order.number, 0))
    return before


def _victims(connection: Connection, numbers: Iterable[int]) -> Iterator[tuple[str, int, bytes]]:
    """Job, order and runs of the victims of orders."""
    victims = tables.victims.c
    of_orders = sorted(numbers)
    for start in range(0, len(of_orders), AT_ONCE):
        query = select(victims.job_id, victims.number, victims.runs)
        for row in connection.execute(query.where(victims.number.in_(of_orders[start : start + AT_ONCE]))):
            yield row.job_id, row.number, row.runs


def _chain(number: int, before: dict[int, int]) -> Iterator[int]:
    at: int | None = number
    while at is not None:
        yield at
        at = before.get(at)


def _circle(chain: Sequence[Order]) -> tuple[str, tuple[str, ...]] | None:
    """The pool where all is in one, and the parties; None: nobody comes up often enough."""
    pools = {order.pool for order in chain}
    one = chain[0].pool if len(pools) == 1 else ""
    winners = [order.job_id if one else order.pool for order in chain]
    turns = [each for place, each in enumerate(winners) if not place or winners[place - 1] != each]
    often = {each for each, count in Counter(turns).items() if count >= WINS}
    return (one, tuple(sorted(set(turns)))) if often else None


def _lost_s(connection: Connection, numbers: Iterable[int]) -> int:
    """For how long those runs had run that had to leave."""
    by_job: dict[str, set[tuple[int, int]]] = {}
    for job_id, _, runs in _victims(connection, numbers):
        instance, run = ints(runs).reshape(4, -1)[:2].tolist()
        by_job.setdefault(job_id, set()).update(zip(instance, run, strict=True))
    total = 0
    past = tables.past_runs.c
    for job_id, preempted in by_job.items():
        query = select(past.instance, past.run, past.started_s, past.ended_s)
        rows = connection.execute(query.where(past.job_id == job_id, past.outcome == Outcome.PREEMPTED)).all()
        times = {(row.instance, row.run): (row.started_s, row.ended_s) for row in rows}
        times |= _present(connection, job_id, preempted - times.keys())
        total += sum(max(0, ended - started) for key, (started, ended) in times.items() if key in preempted and started)
    return total


def _present(connection: Connection, job_id: str, runs: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The times at which runs started and ended that are still the last of their task."""
    jobs: list[JobRow] = rows_of(connection, JobRow, select(tables.jobs).where(tables.jobs.c.job_id == job_id))
    if not jobs or jobs[0].base < 0 or not runs:
        return {}
    instances = np.array(sorted({instance for instance, _ in runs if instance < jobs[0].instances}), dtype=np.int64)
    columns = columns_of(connection, jobs[0], instances)
    run, started, ended = (columns[TASK_PLACES[name]].tolist() for name in ("run", "started_s", "ended_s"))
    of = zip(instances.tolist(), run, strict=True)
    return dict(zip(of, zip(started, ended, strict=True), strict=True))


def _remedy(codes: Iterable[str], settings: Settings, in_one_pool: bool) -> str:
    parts = [_REMEDIES[Code(code)] for code in codes if code in _REMEDIES]
    parts.append(
        f"{'or ' * bool(parts)}set `preemption_delay: never` of {'the pool' if in_one_pool else 'one of the pools'}"
    )
    usual = Settings()
    if settings.settle_ms < usual.settle_ms:
        parts.append(f"and `settle` of the cell to {write_ms(usual.settle_ms)} (it is {write_ms(settings.settle_ms)})")
    if settings.preemptions_per_hour > usual.preemptions_per_hour:
        cap = usual.preemptions_per_hour
        parts.append(f"and `preemptions_per_hour` of the cell to {cap} (it is {settings.preemptions_per_hour})")
    return ", ".join(parts)
