"""Checks campaigns: the steps of each host in their order, no more hosts at a time than the plan says, none is begun
unless the campaign runs, failures pause it, and it is over when all its hosts are.
"""

from collections import Counter
from dataclasses import dataclass, field

from events.codes import Step
from events.records.base import Event
from events.records.hosts import MaintenanceRequested
from events.records.parts import MaintenancePlan
from events.records.placement import (
    HostMaintenanceChanged,
    HostRemoved,
    HostsAnswered,
    MaintenanceChanged,
)
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.stages import Goal, goals_of
from paceline.simulate.checker.windows import Windows

NEXT = {
    Step.NONE: (Step.PENDING, Step.DRAIN, Step.SKIPPED),
    Step.PENDING: (Step.DRAIN, Step.SKIPPED),
    Step.DRAIN: (Step.WORK, Step.SKIPPED, Step.FAILED),
    Step.WORK: (Step.CHECK, Step.FAILED, Step.DONE, Step.SKIPPED),
    Step.CHECK: (Step.DONE, Step.FAILED, Step.SKIPPED),
}
"""The steps that may follow each; any may follow when a host is in another campaign."""
HAS = (Step.PENDING, Step.DRAIN, Step.WORK, Step.CHECK)
BUSY = (Step.DRAIN, Step.WORK, Step.CHECK)
OVER = ("DONE", "ABORTED")
ROUNDS = 10
"""Placement may take so many rounds to pause what has failed too often, as there is a bound on what one decides."""
SOON_MS = 120_000


@dataclass
class Campaign:
    """A campaign as placement has decided it."""

    plan: MaintenancePlan
    state: str = "RUNNING"
    steps: dict[str, int] = field(default_factory=dict)
    """The step of each of its hosts."""
    since_ms: dict[str, int] = field(default_factory=dict)
    """Since when each is in its step."""
    failed: set[str] = field(default_factory=set)
    """Hosts that have failed since it was started or resumed."""
    failed_since: int = 0
    """The round since which more have failed than it allows; 0: no more have."""


class Campaigns:
    """Follows placement. `hosts` and `windows` have taken each round of it."""

    def __init__(self, hosts: Hosts, windows: Windows) -> None:
        self._hosts = hosts
        self._windows = windows
        self._requests: dict[int, MaintenanceRequested] = {}
        """Requests without an answer, by offset."""
        self._plans: dict[str, MaintenancePlan] = {}
        self.campaigns: dict[str, Campaign] = {}
        self._of: dict[str, str] = {}
        """The campaign that each host is in."""

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, offset, event, _ in round_.inputs:
            if isinstance(event, MaintenanceRequested):
                self._requests[offset] = event
        for event in round_.decisions:
            self._decided(event, round_)
        for maintenance_id, campaign in self.campaigns.items():
            self._look(maintenance_id, campaign, round_)

    def at_rest(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where a host is in a step for longer than its plan lets it."""
        for maintenance_id, campaign in self.campaigns.items():
            plan = campaign.plan
            most = {Step.DRAIN: plan.stuck_ms, Step.WORK: plan.within_ms, Step.CHECK: plan.check_ms}
            for host_id, step in campaign.steps.items():
                most_ms, lasts_ms = most.get(Step(step), 0), now - campaign.since_ms[host_id]
                if most_ms and lasts_ms > most_ms + SOON_MS:
                    raise Violation(
                        f"at {now}, {host_id} is in step {Step(step).name} of {maintenance_id} for {lasts_ms} ms, "
                        f"{most_ms} is the most"
                    )

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case HostsAnswered() if event.hosts_offset in self._requests:
                request = self._requests.pop(event.hosts_offset)
                if event.code == "DONE":
                    self._plans[request.maintenance_id] = request.plan
            case MaintenanceChanged():
                self._changed(event, round_)
            case HostMaintenanceChanged():
                for host_id, goal in goals_of(event).items():
                    self._step(host_id, goal, round_)
            case HostRemoved():
                campaign = self.campaigns.get(self._of.pop(event.host_id, ""))
                if campaign is not None:
                    campaign.steps[event.host_id] = Step.SKIPPED

    def _changed(self, event: MaintenanceChanged, round_: Round) -> None:
        name = event.maintenance_id
        if event.host_ids and (name not in self.campaigns or self.campaigns[name].state in OVER):
            plan = self._plans.get(name) or self._requested(name)
            if plan is None:
                raise Violation(f"{round_} starts {name}, which nobody has asked for")
            self.campaigns[name] = Campaign(plan, steps=dict.fromkeys(event.host_ids, int(Step.NONE)))
            self._of |= dict.fromkeys(event.host_ids, name)
            self.campaigns[name].since_ms = dict.fromkeys(event.host_ids, round_.now_ms)
        campaign = self.campaigns[name]
        if event.state == "RUNNING" and campaign.state != "RUNNING":
            campaign.failed, campaign.failed_since = set(), 0
        if event.state in OVER and (open_ := [host for host, step in campaign.steps.items() if step in HAS]):
            raise Violation(f"{round_} has {name} {event.state}, and {open_[:3]} aren't over")
        if campaign.state in OVER and event.state != campaign.state:
            raise Violation(f"{round_} has {name} {event.state} after {campaign.state}")
        campaign.state = event.state

    def _requested(self, maintenance_id: str) -> MaintenancePlan | None:
        """The plan of a campaign whose answer comes later in its round."""
        plans = [each.plan for each in self._requests.values() if each.maintenance_id == maintenance_id]
        return plans[0] if plans else None

    def _step(self, host_id: str, goal: Goal, round_: Round) -> None:
        before = self._of.get(host_id, "")
        campaign = self.campaigns.get(before)
        step_before = campaign.steps[host_id] if campaign is not None else Step.NONE
        if not goal.step and step_before not in HAS:
            self._of.pop(host_id, None)
            return
        name = goal.source if goal.by == "campaign" else before
        what = f"{round_} has {host_id} in step {Step(goal.step).name} of {name or 'no campaign'}"
        if step_before in HAS and name != before:
            raise Violation(f"{what}, and it is in {Step(step_before).name} of {before}")
        campaign = self.campaigns.get(name)
        if campaign is None or host_id not in campaign.steps:
            raise Violation(f"{what}, of which it is no part")
        step_here = campaign.steps[host_id]
        if goal.step == step_here:
            return
        if step_here in NEXT and goal.step not in NEXT[Step(step_here)]:
            raise Violation(f"{what} after {Step(step_here).name}")
        campaign.steps[host_id], campaign.since_ms[host_id], self._of[host_id] = goal.step, round_.now_ms, name
        if goal.step == Step.FAILED:
            campaign.failed.add(host_id)
        if goal.step == Step.DRAIN:
            self._begins(host_id, campaign, round_, what)

    def _begins(self, host_id: str, campaign: Campaign, round_: Round, what: str) -> None:
        plan = campaign.plan
        if campaign.state != "RUNNING":
            raise Violation(f"{what}, and it is {campaign.state}")
        busy = [each for each, step in campaign.steps.items() if step in BUSY]
        if len(busy) > plan.at_a_time:
            raise Violation(f"{what} beside {sorted(busy)[:5]}, {plan.at_a_time} are at a time")
        racks = Counter(self._rack(each, plan.rack) for each in busy)
        rack = self._rack(host_id, plan.rack)
        if plan.per_rack and rack and racks[rack] > plan.per_rack:
            raise Violation(f"{what}, {racks[rack]} of rack {rack} are, {plan.per_rack} may be")
        if plan.window_id and not self._windows.is_open(plan.window_id):
            raise Violation(f"{what}, and {plan.window_id} isn't open")

    def _look(self, name: str, campaign: Campaign, round_: Round) -> None:
        if campaign.state != "RUNNING" or len(campaign.failed) <= campaign.plan.max_failed:
            campaign.failed_since = 0
            return
        campaign.failed_since = campaign.failed_since or round_.number
        if round_.number - campaign.failed_since > ROUNDS:
            raise Violation(f"{round_} has {name} go on, and {sorted(campaign.failed)[:5]} have failed")

    def _rack(self, host_id: str, attribute: str) -> str:
        host = self._hosts.hosts.get(host_id)
        return "" if host is None or host.offer is None else host.offer.attributes.get(attribute, "")
