"""Bugs that are planted in entitlement and placement, to see that the checker finds them in small cells."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

import processors.entitlement.admission.admit as admission
import processors.entitlement.admission.lend as lending
import processors.entitlement.admission.turns as turns
import processors.entitlement.preemption.confirm as confirm
import processors.placement.room.kept as holds
import processors.placement.room.search as plan_search
import processors.state.preemption_rules as rules
from events.columns import I64, longs, pack_longs
from events.ranks import Rank
from events.records.entitlement import EntitlementsSet, PreemptionsOrdered
from events.records.lifecycle import JobAccepted
from processors.entitlement.preemption.rights import Claims
from processors.entitlement.records import TaskRecords
from processors.entitlement.reports.pools import Reports
from processors.entitlement.reports.waits import Explanations
from processors.lifecycle.causes import SlaVerdict
from processors.lifecycle.preemption_orders import PreemptionOrders
from processors.lifecycle.task_table import TaskEvent
from processors.placement.admissions import Admissions
from processors.placement.assignment import Unplaced
from processors.placement.hosts import Hosts
from processors.placement.reports import Reports as Unplacements
from processors.placement.room.kept import KeptRoom, rooms_of
from processors.placement.room.reservations import Reservations
from processors.placement.runs import Runs
from processors.placement.waits import Range, Waits
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Giver, Verdict, Victim
from processors.state.seconds import elapsed
from tests.paceline.simulate import planted_cells as cells

Plant = Callable[[pytest.MonkeyPatch], None]


def victims_counted_once(patch: pytest.MonkeyPatch) -> None:
    """What a pool gives isn't taken off what it has to give: the next victim is judged as if it were the first."""
    patch.setattr(Giver, "less", lambda self, given: self)


def oversize_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who is larger than what its pool holds above its entitlement goes like anybody."""
    patch.setattr(rules, "_oversize_goes", lambda *numbers: True)


def slices_ignored(patch: pytest.MonkeyPatch) -> None:
    """Nobody is protected for a slice."""
    patch.setattr(rules, "slice_ms", lambda *numbers: 0)


def cap_ignored(patch: pytest.MonkeyPatch) -> None:
    """A task is preempted as often as anybody likes."""
    patch.setattr(Displacements, "capped_ms", lambda self, *unit: 0)


def refusals_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who was deferred by sla is asked again nine minutes too soon."""
    spared_ms = Displacements.spared_ms
    patch.setattr(Displacements, "spared_ms", lambda self, *unit: spared_ms(self, *unit[:-1], unit[-1] + 540_000))


def settling_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who was preempted preempts others at once."""
    patch.setattr(Displacements, "last", lambda self, job_id: {})


def delay_ignored(patch: pytest.MonkeyPatch) -> None:
    """Others leave as soon as somebody is entitled."""
    patch.setattr(Claims, "delay_ms", lambda self, pool: 0)


def nothing_kept(patch: pytest.MonkeyPatch) -> None:
    """What others leave for a gang is anybody's."""

    kept_room = holds.kept_room

    def none(hosts: Hosts, holding: holds.Holding) -> KeptRoom:
        own = kept_room(hosts, holding).own
        mine = {slot: own[slot]._replace(amounts=np.zeros_like(own[slot].amounts)) for slot in own}
        return KeptRoom(np.zeros_like(hosts.used), rooms_of(mine, len(hosts.used)), {})

    patch.setattr("processors.placement.machine.kept_room", none)
    patch.setattr(holds, "kept_room", none)


def reservations_side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Each gang reserves hosts, whatever others have reserved."""
    patch.setattr(Reservations, "hosts_reserved", property(lambda self: 0))


def all_victims_leave(patch: pytest.MonkeyPatch) -> None:
    """Whoever was looked at leaves, needed or not."""
    patch.setattr(plan_search, "_spare", lambda draft, parts: None)


def borrowed_first(patch: pytest.MonkeyPatch) -> None:
    """Borrowed work is served before what is entitled."""
    in_order = Waits.in_order

    def reversed_(self: Waits) -> Iterator[tuple[int, Range]]:
        return iter(sorted(in_order(self), key=lambda each: -each[0]))

    patch.setattr(Waits, "in_order", reversed_)


def claims_returned(patch: pytest.MonkeyPatch) -> None:
    """A claim that finds no place is given back like borrowed work."""
    return_, patience_over = Unplacements._return, Admissions.patience_over

    def any_rank(self: Unplacements, unplaced: Unplaced, due: list[int], returns: Any) -> None:
        return_(self, unplaced._replace(rank=Rank.BORROWED, some=self._assignment.slots(unplaced)), due, returns)

    def of_any_rank(self: Admissions, now: int) -> I64:
        claims = self._waits.calendars[Rank.ENTITLED].until(elapsed(now - self._settings.now.placement_patience_ms))
        return np.union1d(patience_over(self, now), claims)

    patch.setattr(Unplacements, "_return", any_rank)
    patch.setattr(Admissions, "patience_over", of_any_rank)


def closed_pools_admit(patch: pytest.MonkeyPatch) -> None:
    """Pools that are closed admit."""
    for module in (admission, lending, turns):
        patch.setattr(module, "closed_at", lambda pools, levels: "")


def nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told why it waits."""
    patch.setattr(Explanations, "of", lambda self, pool, heads, budget: [])


def nothing_is_lent(patch: pytest.MonkeyPatch) -> None:
    """What pools are entitled to and don't use stands idle."""
    patch.setattr(lending.Lending, "decide", lambda self, this: [])


def unfair_by_one(patch: pytest.MonkeyPatch) -> None:
    """The first pool is told that it may use a bit more than it may."""
    report = Reports.report

    def more(self: Reports, most: int) -> EntitlementsSet:
        said = report(self, most)
        column = longs(said.entitlement).copy()
        column[-len(said.resources) :][:1] += 1
        return replace(said, entitlement=pack_longs(column))

    patch.setattr(Reports, "report", more)


def credit_never_paid_back(patch: pytest.MonkeyPatch) -> None:
    """A turn costs nothing: the next one follows at once."""
    patch.setattr(turns.Turns, "_used", lambda self, pool, turn: self._queues.nothing)


def turn_without_end(patch: pytest.MonkeyPatch) -> None:
    """A turn lasts until its gang is over, however long that takes."""
    patch.setattr(turns.Turns, "_ends", lambda self, pool: [1 << 60])


def lost_wake_up(patch: pytest.MonkeyPatch) -> None:
    """Nobody wakes entitlement when the wait of what was given back is over."""
    patch.setattr(TaskRecords, "next_ms", lambda self: None)


def preempts_anyone(patch: pytest.MonkeyPatch) -> None:
    """Work that isn't preemptible is preempted like other work."""
    accepted, may_go = Runs.accepted, confirm.may_go

    def preemptible(self: Runs, event: JobAccepted, now: int) -> None:
        accepted(self, replace(event, preemptible=True), now)

    def anyone(way: int, victim: Victim, *numbers: Any) -> Verdict:
        return may_go(way, victim._replace(preemptible=True), *numbers)

    patch.setattr(Runs, "accepted", preemptible)
    patch.setattr(confirm, "may_go", anyone)


def half_a_gang_preempted(patch: pytest.MonkeyPatch) -> None:
    """Of a gang only those leave that are in the way."""

    def as_named(self: confirm.Confirmation, victim: confirm.VictimGroup) -> list[tuple[confirm.VictimGroup, I64]]:
        return [(victim, victim.instances + self._queues.jobs[victim.job_id].base)]

    patch.setattr(Runs, "unit", lambda self, slot: np.array([slot]))
    patch.setattr(confirm.Confirmation, "_split_alike", as_named)


def without_verdict(patch: pytest.MonkeyPatch) -> None:
    """Lifecycle disturbs a service without asking sla."""

    ordered = PreemptionOrders.ordered

    def allowed(self: PreemptionOrders, event: PreemptionsOrdered, now: int) -> None:
        self._tasks.note("verdict", self._current(event), SlaVerdict.ALLOWED)
        ordered(self, event, now)

    patch.setattr(PreemptionOrders, "ordered", allowed)


def half_an_order_goes(patch: pytest.MonkeyPatch) -> None:
    """Each run of an order to preempt leaves as soon as it may, whatever becomes of the others."""
    hear = PreemptionOrders._hear

    def at_once(self: PreemptionOrders, number: int) -> None:
        hear(self, number)
        slots = self._runs_of(number)
        self._tasks.record_event(TaskEvent.PREEMPT_GOES, slots[~self._waits(slots)])

    patch.setattr(PreemptionOrders, "_hear", at_once)


class Found(NamedTuple):
    """The cell in which a bug is found, and what is said then, in part."""

    cell: str
    says: str


PLANTED: dict[Plant, Found] = {
    victims_counted_once: Found(cells.THREE_POOLS, "its pool has nothing above its entitlement"),
    oversize_ignored: Found(cells.OVERSIZE, "it is larger than what its pool holds"),
    slices_ignored: Found(cells.OVERSIZE, "its slice isn't over"),
    cap_ignored: Found(cells.CAP, "it was displaced 1 times in this hour"),
    refusals_ignored: Found(cells.REFUSES, "sla has refused it a while ago"),
    settling_ignored: Found(cells.SETTLES, "ms ago itself"),
    delay_ignored: Found(cells.THREE_POOLS, "the delay is 120000"),
    nothing_kept: Found(cells.STUBBORN, "gives others what is kept"),
    reservations_side_by_side: Found(cells.NEVER_ASKS, "and 1 others have some"),
    all_victims_leave: Found(cells.ONE_IS_ENOUGH, "isn't in the way"),
    borrowed_first: Found(cells.BORROWED_WAITS, "which was to go first"),
    claims_returned: Found(cells.BORROWED_WAITS, "which is a claim"),
    closed_pools_admit: Found(cells.CLOSED, "which is closed"),
    nobody_is_told: Found(cells.WAITS, "isn't told why"),
    nothing_is_lent: Found(cells.ROOM_BESIDE, "waits and would fit"),
    unfair_by_one: Found(cells.WAITS, "may use more|aren't fair"),
    credit_never_paid_back: Found(cells.MANY_TURNS, "job g2 is SUCCEEDED"),
    turn_without_end: Found(cells.ONE_TURN, "job gang preempted"),
    lost_wake_up: Found(cells.GIVEN_BACK, "job b tasks RUNNING"),
    preempts_anyone: Found(cells.FIRM_IN_THE_WAY, "which isn't preemptible"),
    half_a_gang_preempted: Found(cells.GANG_IN_THE_WAY, "preempts a part of a gang"),
    without_verdict: Found(cells.REFUSES, "without a verdict of sla"),
    half_an_order_goes: Found(cells.PARTLY_REFUSED, "were told to stop"),
}
