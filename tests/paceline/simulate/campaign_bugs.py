"""Bugs that are planted in campaigns, each in a scenario of tests/scenarios/maintenance that holds without it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from events.codes import Step
from events.records.base import Event
from processors.placement.campaigns import steps
from processors.placement.campaigns.answers import Answers
from processors.placement.campaigns.campaigns import Campaigns
from processors.placement.campaigns.rows import ACTIVE, CampaignRow, State
from processors.placement.campaigns.table import CampaignTable

Plant = Callable[[pytest.MonkeyPatch], None]


def one_host_too_many(patch: pytest.MonkeyPatch) -> None:
    """One host more than `at_a_time` is taken."""
    start = Campaigns._start_of

    def more(self: Campaigns, name: str, row: CampaignRow, now: int, budget: int) -> Iterator[Event]:
        plan = replace(row.plan, at_a_time=row.plan.at_a_time + 1)
        return start(self, name, replace(row, plan=plan), now, budget)

    patch.setattr(Campaigns, "_start_of", more)
    fewer = property(lambda row: max(0, sum(row.counts[step] for step in ACTIVE) - 1))
    patch.setattr(CampaignRow, "active", fewer)


def racks_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """No host of a rack counts."""
    patch.setattr(Campaigns, "_rack", lambda self, row, host_id: None)


def a_paused_one_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A campaign that is paused starts hosts."""
    start = Campaigns._start

    def go_on(self: Campaigns, now: int, budget: int) -> Iterator[Event]:
        paused = [row for row in self.rows.campaigns.values() if row.state == State.PAUSED]
        for row in paused:
            row.state = State.RUNNING
        events = [*start(self, now, budget)]
        for row in paused:
            row.state = State.PAUSED
        return iter(events)

    patch.setattr(Campaigns, "_start", go_on)


def failures_do_not_pause(patch: pytest.MonkeyPatch) -> None:
    """It goes on however many hosts have failed."""
    patch.setattr(Campaigns, "_settle", _settled_but_for(State.PAUSED))


def an_aborted_one_leaves_hosts_draining(patch: pytest.MonkeyPatch) -> None:
    """Hosts that drain aren't put back."""
    taken_back = steps._left

    def left(member: object, stage: object) -> object:
        goal = taken_back(member, stage)  # type: ignore[arg-type]
        return goal._replace(stage=stage.stage)  # type: ignore[attr-defined]

    patch.setattr(steps, "_left", left)


def two_have_one_host(patch: pytest.MonkeyPatch) -> None:
    """A campaign takes hosts that another has."""
    patch.setattr(Answers, "_refusal", lambda self, host_id: None)


def same_boot_is_another(patch: pytest.MonkeyPatch) -> None:
    """An agent that has connected anew is taken for a host that was restarted, or for none."""
    over_ms = CampaignTable._over_ms

    def never(self: CampaignTable, member: object) -> int | None:
        return None if member.step == Step.WORK else over_ms(self, member)  # type: ignore[attr-defined,arg-type]

    patch.setattr(CampaignTable, "_over_ms", never)


def _settled_but_for(state: State) -> Callable[..., Iterator[Event]]:
    settle = Campaigns._settle

    def settled(self: Campaigns, now: int) -> Iterator[Event]:
        return (event for event in settle(self, now) if getattr(event, "state", None) != state)

    return settled


class Found(NamedTuple):
    """The scenario that finds a bug, and what is said there."""

    scenario: str
    says: str


PLANTED = {
    one_host_too_many: Found("campaign", "1 are at a time"),
    racks_are_not_counted: Found("campaigns-for-one-host", "of rack r1 are, 2 may be"),
    a_paused_one_goes_on: Found("campaign-pauses-and-is-aborted", "and it is PAUSED"),
    failures_do_not_pause: Found("campaign-pauses-and-is-aborted", "campaign kernel is RUNNING|have failed"),
    an_aborted_one_leaves_hosts_draining: Found("campaign-aborted-while-draining", "host h-1 is DRAINING"),
    two_have_one_host: Found("campaigns-for-one-host", "and it is in|is no part|of second after"),
    same_boot_is_another: Found("campaign", "is in step WORK of kernel for"),
}
