"""The campaigns and their hosts: rows that records alone change, and what is derived of them."""

from collections.abc import Iterator

import msgspec
from sortedcontainers import SortedSet

from events.codes import Code, Step
from events.natural_order import natural_key
from events.records.hosts import MaintenanceActionRequested, MaintenanceRequested
from events.records.parts import Cause
from events.records.placement import HostMaintenanceChanged, HostsAnswered, MaintenanceChanged
from processors.placement.campaigns.rows import (
    OVER,
    CampaignAskRow,
    CampaignHostRow,
    CampaignRow,
    PlanRow,
    State,
)
from processors.placement.hosts import Hosts
from processors.state.causes import CurrentInput
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

ENDED_MAX = 100
"""So many campaigns that are over are remembered, the last: their ids aren't given again."""
CANNOT_START_MS = 3_600_000
"""A host that can't be started is waited for so long after all others are over."""
ROOM_AGAIN_MS = 5_000
"""Where no room was found elsewhere, it is looked for again so long after something has changed."""


class CampaignTable:
    """Keeps up the rows by what is said."""

    def __init__(self, hosts: Hosts, current: CurrentInput) -> None:
        self.campaigns: Table[str, CampaignRow] = struct_table("campaigns", CampaignRow)
        self.members: Table[str, CampaignHostRow] = struct_table("campaign_hosts", CampaignHostRow)
        """The hosts that aren't over in their campaign."""
        self.asks: Table[int, CampaignAskRow] = struct_table("campaign_asks", CampaignAskRow, int)
        self._hosts = hosts
        self._input = current
        self.going_on: dict[str, None] = {}
        """The campaigns that aren't over, in the order in which they were started."""
        self.pending: dict[str, SortedSet] = {}
        """The hosts that each of them has still to start, as (natural key, id)."""
        self.steps: dict[str, dict[str, None]] = {}
        """And those that it has taken."""
        self.due: Deadlines[str] = Deadlines()
        """When the step of a host is over by time."""
        self.touched: dict[str, None] = {}
        """The hosts that may be in another step by something that was said. Only saves work."""

    def restored(self) -> None:
        """Rebuilds what is derived; after hosts and their stages were."""
        rows = sorted(self.campaigns.items(), key=lambda item: item[1].number)
        self.going_on = {name: None for name, row in rows if not State(row.state).is_over}
        self.pending = {name: SortedSet() for name in self.going_on}
        self.steps = {name: {} for name in self.going_on}
        self.touched = dict.fromkeys(self.members)
        self.due = Deadlines()
        for host_id, row in self.members.items():
            self._derive(host_id, row)

    # What is said.

    def asked(self, event: MaintenanceRequested, now: int) -> None:
        """An operator starts a campaign."""
        plan = msgspec.convert(event.plan, PlanRow, from_attributes=True)
        host_ids = tuple(dict.fromkeys(event.host_ids))
        row = CampaignAskRow(event.maintenance_id, event.command_id, "start", now, host_ids, plan)
        self.asks.put(self._input.offset, row)

    def action_asked(self, event: MaintenanceActionRequested, now: int) -> None:
        """An operator acts on one."""
        row = CampaignAskRow(event.maintenance_id, event.command_id, event.action, now)
        self.asks.put(self._input.offset, row)

    def answered(self, event: HostsAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def changed(self, event: MaintenanceChanged, now: int) -> None:
        """A campaign begins, or has another state."""
        name = event.maintenance_id
        if event.host_ids:
            self._begin(event)
            return
        row = self.campaigns.change(name)
        if event.state != row.state:
            row.waits, row.waits_ms, row.again_ms = "", 0, 0
            self.touched |= dict.fromkeys(self.of(name))
        if event.state == row.state == State.RUNNING:
            row.waits, row.waits_ms, row.again_ms = event.code, now, 0
        if event.state == State.RUNNING != row.state:
            row.failed = 0
        row.state = event.state
        if State(row.state).is_over:
            del self.going_on[name], self.pending[name], self.steps[name]
            self._forget_some()

    def staged(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts are in other steps, or stages; after `Stages` has heard it."""
        if not self.members:
            return
        for host_id, step in zip(event.host_ids, event.step_array.tolist(), strict=True):
            row = self.members.get(host_id)
            if row is None:
                continue
            self.touched[host_id] = None
            if step in (Step.NONE, row.step):
                continue
            self._step(host_id, row, Step(step), now)

    def touch(self, host_id: str) -> None:
        """Something was said of a host."""
        if host_id in self.members:
            self.touched[host_id] = None

    def stir(self, now: int) -> None:
        """Something was said by which there may be room where there was none."""
        for name in self.going_on:
            row = self.campaigns[name]
            if row.waits == Code.NO_ROOM_ELSEWHERE and not row.again_ms:
                self.campaigns.change(name).again_ms = max(now, row.waits_ms) + ROOM_AGAIN_MS

    def passed(self, due_ms: int) -> None:
        """A deadline passed, and nothing was decided by it."""
        for name in self.going_on:
            if 0 < self.campaigns[name].again_ms <= due_ms:
                self.campaigns.change(name).again_ms = 0

    # What is asked.

    def said(
        self,
        name: str,
        state: State,
        code: Code,
        cause: Cause | None,
        message: str = "",
        host_ids: tuple[str, ...] = (),
    ) -> MaintenanceChanged:
        """The decision that a campaign has a state."""
        row = self.campaigns.get(name)
        counts = row.counts if row is not None else [0] * len(Step)
        return MaintenanceChanged(
            maintenance_id=name,
            state=state,
            code=code,
            message=message,
            host_ids=host_ids,
            failed=counts[Step.FAILED],
            skipped=counts[Step.SKIPPED],
            done=counts[Step.DONE],
            cause=cause,
        )

    def of(self, name: str) -> Iterator[str]:
        """The hosts of a campaign that aren't over."""
        return iter([*self.steps[name], *(host_id for _, host_id in self.pending[name])])

    def next_ms(self) -> int | None:
        """When a step is over by time, or something else of a campaign is due."""
        times = [ask.at_ms for ask in list(self.asks.values())[:1]]
        if (first := self.due.first()) is not None:
            times.append(first)
        for name in self.going_on:
            row = self.campaigns[name]
            if row.state == State.RUNNING and row.again_ms:
                times.append(row.again_ms)
            if row.state == State.RUNNING and row.waits == Code.HOSTS_CANNOT_START:
                times.append(row.waits_ms + CANNOT_START_MS)
        return min(times, default=None)

    # How.

    def _begin(self, event: MaintenanceChanged) -> None:
        assert event.cause is not None
        ask = self.asks[event.cause.offset]
        assert ask.plan is not None
        number = max((row.number for row in self.campaigns.values()), default=0) + 1
        counts = [0] * len(Step)
        row = CampaignRow(number, ask.plan, ask.command_id, self._input.cause, counts=counts)
        name = event.maintenance_id
        self.campaigns.put(name, row)
        self.going_on[name], self.pending[name], self.steps[name] = None, SortedSet(), {}
        now = ask.at_ms
        for host_id in event.host_ids:
            member = self.members.put(host_id, CampaignHostRow(name, Step.PENDING, now))
            row.counts[Step.PENDING] += 1
            self._derive(host_id, member)

    def _step(self, host_id: str, member: CampaignHostRow, step: Step, now: int) -> None:
        row = self.campaigns.change(member.campaign)
        row.counts = [*row.counts]
        row.counts[member.step] -= 1
        row.counts[step] += 1
        self._let_go(host_id, member)
        if step == Step.FAILED:
            row.failed += 1
        if step == Step.DRAIN:
            row.waits, row.waits_ms, row.again_ms = "", 0, 0
        if step in OVER:
            self.members.remove(host_id)
            self.touched.pop(host_id, None)
            return
        member = self.members.change(host_id)
        member.step, member.since_ms = step, now
        if step == Step.WORK and (host := self._hosts.table.get(host_id)) is not None:
            member.session, member.boot = host.session, host.boot
        self._derive(host_id, member)

    def _derive(self, host_id: str, member: CampaignHostRow) -> None:
        """Notes a host where it is looked for."""
        if member.step == Step.PENDING:
            self.pending[member.campaign].add((natural_key(host_id), host_id))
        else:
            self.steps[member.campaign][host_id] = None
        self.due.set(host_id, self._over_ms(member))
        self._note_leaving(host_id, member.step == Step.PENDING)

    def _let_go(self, host_id: str, member: CampaignHostRow) -> None:
        self.pending[member.campaign].discard((natural_key(host_id), host_id))
        self.steps[member.campaign].pop(host_id, None)
        self.due.clear(host_id)
        self._note_leaving(host_id, False)

    def _note_leaving(self, host_id: str, is_leaving: bool) -> None:
        """New tasks go elsewhere, if they can, while a host is still to be emptied."""
        host = self._hosts.table.get(host_id)
        if host is not None:
            self._hosts.constraints.leaves(host.number, is_leaving)

    def _over_ms(self, member: CampaignHostRow) -> int | None:
        """When the step of a host ends by time; None: it doesn't."""
        plan, since_ms = self.campaigns[member.campaign].plan, member.since_ms
        match member.step:
            case Step.DRAIN:
                return since_ms + plan.stuck_ms if plan.stuck_ms else None
            case Step.WORK:
                times = [since_ms + plan.work_ms] if plan.work == "time" else []
                times += [since_ms + plan.within_ms] if plan.within_ms else []
                return min(times, default=None)
            case Step.CHECK:
                return since_ms + plan.check_ms
        return None

    def _forget_some(self) -> None:
        ended = [name for name, row in self.campaigns.items() if State(row.state).is_over]
        for name in sorted(ended, key=lambda each: self.campaigns[each].number)[:-ENDED_MAX]:
            self.campaigns.remove(name)
