"""Bugs that are planted in how devices are taken and host pools are used, each with the scenario in which it is found
and what is said then.
"""

from typing import Any

import pytest

from processors.entitlement import host_pools
from processors.entitlement.shares import reach
from processors.entitlement.shares.reach import Reach
from processors.placement import hosts
from processors.placement.devices import layouts, states
from processors.placement.devices.layouts import HostLayout
from processors.placement.host_pools import HostPools
from processors.placement.host_reports import HostReports
from processors.placement.room.search import Search
from processors.placement.waits import Waits
from tests.paceline.simulate.stage_bugs import Found, Plant


def any_host_pool_will_do(patch: pytest.MonkeyPatch) -> None:
    """Placement takes no notice of host pools."""
    patch.setattr(HostPools, "reach", lambda self, job: ())


def host_pools_bound_nobody(patch: pytest.MonkeyPatch) -> None:
    """Entitlement promises more than the host pools of a pool hold."""
    patch.setattr(Reach, "limits", lambda self, wants: {})


def kinds_of_jobs_are_one(patch: pytest.MonkeyPatch) -> None:
    """Entitlement takes a pool for one that reaches the host pools of all kinds of jobs with any of its jobs."""

    def union(*asked: Any) -> tuple[Any, ...]:
        groups = host_pools.reach_of(*asked)
        return (frozenset().union(*groups),) * len(groups)

    patch.setattr(reach, "reach_of", union)


def loans_know_no_host_pools(patch: pytest.MonkeyPatch) -> None:
    """Entitlement lends whatever is idle in the cell."""
    patch.setattr(Reach, "room", lambda self, pool, kind, use: (1 << 62,) * len(use(pool, 1)))


def daemons_take_nothing(patch: pytest.MonkeyPatch) -> None:
    """Placement doesn't say what daemons hold in host pools."""
    patch.setattr(HostReports, "_daemons", lambda self: {})


def cards_set_aside_are_used(patch: pytest.MonkeyPatch) -> None:
    """A card that an operator has set aside takes new tasks."""

    def with_all(*offered: Any) -> HostLayout:
        return layouts.layout_of(*offered[:-1], ())

    patch.setattr(hosts, "layout_of", with_all)


def shares_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A card whose part is in use counts as free."""
    patch.setattr(states.States, "after", lambda self, number, choice, sign=1: number)


def all_leave_who_may(patch: pytest.MonkeyPatch) -> None:
    """Who leaves for a card isn't compared with what it needs."""
    cover = Search._cover_devices

    def one_more(self: Search, draft: Any, host: int, *asked: Any) -> list[Any] | None:
        picks = cover(self, draft, host, *asked)
        others = [each for each in self._may_leave(draft, host) if picks and each not in picks]
        return picks + others[:1] if picks else picks

    patch.setattr(Search, "_cover_devices", one_more)


def only_untouched_cards_are_shared(patch: pytest.MonkeyPatch) -> None:
    """A share finds no place on a card of which another task has a part."""
    choice = states.States.choice

    def untouched(self: states.States, need: Any, number: int) -> Any:
        found = choice(self, need, number)
        used = found is not None and any(self.state(number).room[at][0] < 1000 for at, _, _ in found.devices)
        return None if used else found

    patch.setattr(states.States, "choice", untouched)


def last_come_first_served(patch: pytest.MonkeyPatch) -> None:
    """Placement serves first what was admitted last."""
    in_order = Waits.in_order
    patch.setattr(Waits, "in_order", lambda self: reversed([*in_order(self)]))


PLANTED: dict[Plant, Found] = {
    any_host_pool_will_do: Found("host_pools/kinds-of-jobs", "places .* which is in batch_reserved: /p may not"),
    host_pools_bound_nobody: Found(
        "host_pools/admission-stays-within", "entitles .*/research.* to 6000 cpu, .* have 4000"
    ),
    kinds_of_jobs_are_one: Found("host_pools/batch-stays-within-its-kind", "claims of /p reach nothing but .'shared'."),
    loans_know_no_host_pools: Found(
        "host_pools/loans-stay-within", "lends to early: 6000 cpu of admitted work reach nothing"
    ),
    daemons_take_nothing: Found(
        "host_pools/daemons-come-first", "says that daemons hold {} in host pools, they hold .*gpus"
    ),
    last_come_first_served: Found(
        "host_pools/full-for-some", "places .'second', 0. on gpu-.* before .'first', 0. run 1, which was to go first"
    ),
    cards_set_aside_are_used: Found("placement/gang-that-lacks-a-card-set-aside", "on gpu-0, which is set aside"),
    all_leave_who_may: Found("placement/others-leave-on-one-card", "asks others to leave .* isn't in the way"),
    only_untouched_cards_are_shared: Found("placement/shares-of-cards", "NO_DEVICES_FIT, and it would fit on g-"),
    shares_are_not_counted: Found("placement/shares-of-cards", "thousandths of .* are held"),
}
