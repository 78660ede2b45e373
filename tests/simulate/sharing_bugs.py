"""Bugs that are planted in entitlement and placement, to see that trials and scenarios of sharing find them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import processors.entitlement.admission as admission
import processors.entitlement.judge as judge
import processors.entitlement.lending as lending
import processors.entitlement.turns as turns
import processors.placement.holds as holds
import processors.placement.plan_search as plan_search
import processors.state.preemption_rules as rules
from events.records.entitlement import EntitlementsSet
from processors.entitlement.claims import Claims
from processors.entitlement.explanations import Explanations
from processors.entitlement.passes import Passes
from processors.entitlement.reports import Reports
from processors.placement.assignment import Unplaced
from processors.placement.kept import KeptRoom
from processors.placement.reports import Reports as Unplacements
from processors.placement.reservations import Reservations
from processors.placement.waits import Range, Waits
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Giver


def victims_counted_once(patch: pytest.MonkeyPatch) -> None:
    """What a pool gives isn't taken off what it has to give: the next victim is judged as if it were the first."""
    patch.setattr(Giver, "less", lambda self, given: self)


def oversize_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who is larger than what its pool holds above its entitlement goes like anybody."""
    patch.setattr(rules, "_oversize_goes", lambda *numbers: True)


def slices_ignored(patch: pytest.MonkeyPatch) -> None:
    """Nobody is protected for a slice."""
    for module in (rules, judge):
        patch.setattr(module, "slice_ms", lambda *numbers: 0)


def cap_ignored(patch: pytest.MonkeyPatch) -> None:
    """A task is preempted as often as anybody likes."""
    patch.setattr(Displacements, "capped_ms", lambda self, *unit: 0)


def refusals_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who was deferred by sla is asked again at once."""
    patch.setattr(Displacements, "spared_ms", lambda self, *unit: 0)


def settling_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who was preempted preempts others at once."""
    patch.setattr(Displacements, "last", lambda self, job_id: {})


def delay_ignored(patch: pytest.MonkeyPatch) -> None:
    """Others leave as soon as somebody is entitled."""
    patch.setattr(Claims, "delay_ms", lambda self, pool: 0)


def nothing_kept(patch: pytest.MonkeyPatch) -> None:
    """What others leave for a gang is anybody's."""

    def none(hosts: Any, holding: Any) -> KeptRoom:
        return KeptRoom(np.zeros_like(hosts.used), {})

    patch.setattr("processors.placement.machine.kept_room", none)
    patch.setattr(holds, "kept_room", none)


def reservations_side_by_side(patch: pytest.MonkeyPatch) -> None:
    """Each gang reserves hosts, whatever others have reserved."""
    patch.setattr(Reservations, "hosts_reserved", lambda self: 0)


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
    return_ = Unplacements._return

    def any_rank(self: Unplacements, unplaced: Unplaced, due: list[int], returns: Any) -> None:
        slots = self._assignment.slots(unplaced).tolist()
        return_(self, unplaced._replace(rank=2), slots, returns)

    patch.setattr(Unplacements, "_return", any_rank)


def closed_pools_admit(patch: pytest.MonkeyPatch) -> None:
    """Pools that are closed admit."""
    for module in (admission, lending, turns):
        patch.setattr(module, "closed_at", lambda pools, levels: "")


def nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told why it waits."""
    patch.setattr(Explanations, "of", lambda self, pool, heads, budget: [])


def nothing_is_lent(patch: pytest.MonkeyPatch) -> None:
    """What pools are entitled to and don't use stands idle."""
    patch.setattr(Passes, "lend", lambda self, now, budget: [])


def unfair_by_one(patch: pytest.MonkeyPatch) -> None:
    """The first pool is told that it may use a bit more than it may."""
    report = Reports.report

    def more(self: Reports, most: int) -> EntitlementsSet:
        from msgspec.structs import replace

        from events.columns import longs, pack_longs

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


class Found(NamedTuple):
    """How a bug is found: by a `trial` under faults, a `drawn` cell over hours, or a scenario of a name; from which
    seed on, and what is said then.
    """

    by: str
    seed: int
    says: str
