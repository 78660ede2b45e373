"""Bugs that are planted in maintenance across machines, each in a scenario of tests/scenarios/maintenance that holds
without it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import processors.placement.campaigns.campaigns as campaigns
import processors.placement.stages as stages
from events.codes import Code, Stage
from events.records.base import Event
from processors.placement.campaigns.answers import Answers
from processors.placement.campaigns.campaigns import Campaigns
from processors.placement.campaigns.rows import CampaignRow
from tests.paceline.simulate.life_bugs import Planted

Plant = Callable[[pytest.MonkeyPatch], None]


def campaigns_share_hosts(patch: pytest.MonkeyPatch) -> None:
    """A campaign takes hosts that another one has."""
    refusal = Answers._refusal

    def others(self: Answers, host_id: str) -> Code | None:
        code = refusal(self, host_id)
        return None if code == Code.HOSTS_BUSY else code

    patch.setattr(Answers, "_refusal", others)


def failures_do_not_pause(patch: pytest.MonkeyPatch) -> None:
    """A campaign goes on whatever fails."""
    settle = Campaigns._settle

    def over(self: Campaigns, now: int) -> Iterator[Event]:
        return (event for event in settle(self, now) if getattr(event, "code", "") != Code.FAILURES)

    patch.setattr(Campaigns, "_settle", over)


def batches_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A campaign starts hosts only once all that it has started are over."""
    start_of = Campaigns._start_of

    def batch(self: Campaigns, name: str, row: CampaignRow, *when: int) -> Iterator[Event]:
        return iter(()) if row.active else start_of(self, name, row, *when)

    patch.setattr(Campaigns, "_start_of", batch)


def racks_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A campaign takes any number of hosts of a rack."""
    patch.setattr(Campaigns, "_racks", lambda self, row: {})


def drained_with_runs(patch: pytest.MonkeyPatch) -> None:
    """A host that drains is said to be DRAINED at once."""
    drained = stages.StageRow.drained

    def at_once(self: stages.StageRow, *plan: Any, **how: Any) -> stages.Goal:
        return drained(self, *plan, **how)._replace(stage=Stage.DRAINED)

    patch.setattr(stages.StageRow, "drained", at_once)


def forced_at_once(patch: pytest.MonkeyPatch) -> None:
    """What a drain may end by force is ended from its beginning on."""
    drained = stages.StageRow.drained

    def at_once(self: stages.StageRow, *plan: Any, **how: Any) -> stages.Goal:
        goal = drained(self, *plan, **how)
        return goal._replace(stage=Stage.FORCING) if goal.force_at else goal

    patch.setattr(stages.StageRow, "drained", at_once)


def one_host_more(patch: pytest.MonkeyPatch) -> None:
    """A campaign has one host more at a time than its plan says."""
    choose = Campaigns._choose

    def more(self: Campaigns, name: str, row: CampaignRow, most: int, now_s: int) -> Any:
        return choose(self, name, row, most + 1, now_s)

    patch.setattr(campaigns.Campaigns, "_choose", more)


PLANTED: dict[Plant, Planted] = {
    campaigns_share_hosts: Planted("campaigns-for-one-host", "and it is in|in step PENDING of second after"),
    failures_do_not_pause: Planted("campaign-pauses-and-is-aborted", "have failed|is PAUSED"),
    batches_are_waited_for: Planted("hosts-wait-for-nobody", "hosts DONE == 5"),
    racks_are_not_counted: Planted("campaigns-for-one-host", "of rack r1 are"),
    drained_with_runs: Planted("drained-and-resumed", "are there"),
    forced_at_once: Planted("escalates-to-force", "it may from"),
    one_host_more: Planted("campaign", "are at a time"),
}
