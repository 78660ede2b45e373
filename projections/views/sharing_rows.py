"""The rows of the views about sharing: why tasks wait, which runs leave for whom, what pools save for.

As in `rows.py` each column has one owning topic. All are entitlement's but for the answers to orders, which are
lifecycle's, and reservations of hosts, which are placement's.
"""

import msgspec

from events.turn_credit import suffices_after
from projections.views.rows import amounts_in


class WaitingRow(msgspec.Struct):
    """The number of tasks of a job that wait with one standing: that of a `WaitReasonRow`, or one of `Standing`."""

    job_id: str
    standing: int
    tasks: int = 0


class WaitReasonRow(msgspec.Struct):
    """A GangsHeld that tasks still wait for; `tasks`: how many, `aside`: whether nobody waits behind them. `numbers` is
    JSON of its amounts.
    """

    number: int
    round: int
    pool: str
    at: str
    code: str
    firm: int
    controllers: int
    aside: int
    numbers: str
    tasks: int = 0


class OrderRow(msgspec.Struct):
    """An order to preempt; `answer` is empty until lifecycle has answered it. Lists and maps are JSON. The settings are
    those that held when it was decided.
    """

    number: int
    round: int
    at_ms: int
    hold_for_ms: int
    defer_for_ms: int
    code: str
    for_pool: str
    for_job: str
    for_first: int
    for_count: int
    for_run: int
    victims: int
    host_ids: str
    spared: str
    from_pools: str
    """Runs by pool."""
    from_jobs: str
    """Runs by job, of the first jobs that it names."""
    answer: str = ""
    answered_ms: int = 0

    @property
    def kept_until_ms(self) -> int:
        """The time until which what it frees is kept for its unit."""
        return self.at_ms + self.hold_for_ms

    @property
    def spared_until_ms(self) -> int:
        """The time before which its victims aren't asked again, where its answer is DEFERRED."""
        return self.answered_ms + self.defer_for_ms


class VictimsRow(msgspec.Struct):
    """The runs of a job that an order names: int32 columns of instance, run, way and slice, one after another."""

    job_id: str
    number: int
    pool: str
    tasks: int
    runs: bytes


class ReservationRow(msgspec.Struct):
    """Hosts that are reserved for a gang. Lists and maps are JSON."""

    job_id: str
    first: int
    count: int
    run: int
    host_ids: str
    kept: str
    since_ms: int
    until_ms: int
    round: int


class TurnRow(msgspec.Struct):
    """The gang whose turn it is in a pool; `floor` is JSON."""

    pool: str
    job_id: str
    first: int
    count: int
    run: int
    floor: str
    since_ms: int


class CreditRow(msgspec.Struct):
    """The credit of a pool at `at_ms`, and what is added each millisecond. Maps are JSON. `goes_on` is 1
    where its last turn has left some.
    """

    pool: str
    credit: str
    rate: str
    full: str
    at_ms: int
    goes_on: int = 0

    def amounts(self) -> tuple[list[int], list[int], list[int]]:
        """The credit, what is added, and what suffices, of each kind of which the pool is short."""
        credit, rate, full = (amounts_in(each) for each in (self.credit, self.rate, self.full))
        return [credit.get(name, 0) for name in full], [rate.get(name, 0) for name in full], list(full.values())

    def suffices_ms(self) -> int | None:
        """When it suffices for a turn; None: it doesn't as it is now."""
        after = suffices_after(*self.amounts(), self.goes_on > 0)
        return None if after is None else self.at_ms + after
