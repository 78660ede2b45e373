"""Campaigns: which host is emptied next, and the steps of each until it is taken back (decisions 088 and 089).

Each decision is one of four, applied before the next is looked for: an answer to an operator, hosts that are in another
step, a campaign in another state, hosts that are started.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from events.codes import Code, Stage, Step
from events.maintenance_refusals import NAMED
from events.records.base import Event
from events.records.lifecycle import InstancesChanged, JobSlaChanged
from events.records.placement import HostMaintenanceChanged, HostRemoved, MaintenanceChanged, MaintenanceWindowChanged
from events.words import listed
from processors.placement.campaigns.answers import Answers
from processors.placement.campaigns.pace import Pace
from processors.placement.campaigns.room import RoomElsewhere
from processors.placement.campaigns.rows import CampaignRow, PlanRow, State
from processors.placement.campaigns.steps import Next, checking, next_step, skipped
from processors.placement.campaigns.table import CANNOT_START_MS, CampaignTable
from processors.placement.cluster_view import ClusterView
from processors.placement.hosts import Hosts
from processors.placement.runs import Runs
from processors.placement.stages import CAMPAIGN, WINDOW, Goal, StageRow, Stages, changed
from processors.placement.states import Phase
from processors.placement.windows import Windows
from processors.state.causes import CurrentInput, recorded
from processors.state.cell_settings import CellSettings
from processors.state.seconds import elapsed
from processors.state.table import Table

TRIES_MAX = 4
"""Room elsewhere is looked for of so many hosts in one decision."""
STARTS_MAX = 16
"""So many hosts are started in one decision."""
READY = (Phase.UP, Phase.SUSPECTED, Phase.SHRUNK)
"""A host that is so may be started."""
DOWN = (Phase.SILENT, Phase.LOST, Phase.RETURNING)


class OfHost(Protocol):
    """A record about a host."""

    @property
    def host_id(self) -> str:
        """Its id."""


class Group(NamedTuple):
    """Hosts that are in another step for one reason."""

    campaign: str
    code: Code
    message: str
    by: str
    source: str


class Campaigns:
    """Decides `MaintenanceChanged`, `HostMaintenanceChanged` for campaigns, and answers operators."""

    def __init__(
        self,
        runs: Runs,
        hosts: Hosts,
        stages: Stages,
        settings: CellSettings,
        current: CurrentInput,
        windows: Windows,
        view: Callable[[], ClusterView],
    ) -> None:
        self.rows = CampaignTable(hosts, current)
        self.is_well: Callable[[str], bool] = lambda host_id: True
        """Whether no check of a host fails."""
        self._hosts = hosts
        self._runs = runs
        self._stages = stages
        self._windows = windows
        self._answers = Answers(self.rows, hosts, stages, settings, windows)
        self._pace = Pace(runs, hosts)
        self._room = RoomElsewhere(runs, hosts, view)
        self._stirred = True
        """Whether something was said since no host was nexts to be started. Only saves work."""

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """The rows."""
        return self.rows.campaigns, self.rows.members, self.rows.asks

    def restored(self) -> None:
        """Rebuilds what is derived; after stages and runs were."""
        self._pace.end()
        self._stirred = True
        self.rows.restored()
        if self.rows.going_on:
            self._begin()

    # What is said.

    def changed(self, event: MaintenanceChanged, now: int) -> None:
        """A campaign begins, or has another state."""
        self.rows.changed(event, now)
        self._stirred = True
        if not self.rows.going_on:
            self._pace.end()
        elif event.host_ids:
            self._begin()

    def staged(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts are in other stages or steps; after `Stages` has heard it."""
        if not self.rows.going_on:
            return
        self.rows.staged(event, now)
        for host_id in event.host_ids:
            self._note(host_id)

    def said_of_host(self, event: OfHost, now: int) -> None:
        """Something was said of a host."""
        if self.rows.going_on:
            self.rows.touch(event.host_id)
            self.stir(now)

    def stir(self, now: int) -> None:
        """Something has changed by which tasks find a place, or don't."""
        self._stirred = True
        self.rows.stir(now)

    def window_changed(self, event: MaintenanceWindowChanged, now: int) -> None:
        """A window opens or closes."""
        self._stirred = True

    def job_changed(self, event: InstancesChanged | JobSlaChanged, now: int) -> None:
        """A job has another budget; after its row has it."""
        if event.job_id in self._runs.jobs:
            self._pace.changed(event.job_id)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten; to be called while it has its number."""
        self.said_of_host(event, now)
        if self.rows.going_on:
            self._pace.gone(self._hosts.table[event.host_id].number)

    # What is decided.

    def decide(self, now: int, budget: int) -> list[Event]:
        """Answers, steps, states or starts, at most `budget`; to be asked only when caught up."""
        rows = self.rows
        if rows.asks:
            return self._answers.decide()
        if not rows.going_on:
            return []
        return [*self._step(now, budget)] or [*self._settle(now)] or [*self._start(now, budget)]

    def _step(self, now: int, budget: int) -> Iterator[HostMaintenanceChanged]:
        """Hosts that are in another step, together those for one reason."""
        rows = self.rows
        nexts: dict[str, Next] = {}
        due = rows.due.due(now)
        looked = dict.fromkeys(chain(rows.touched, due))
        for host_id in sorted(looked):
            if len(nexts) >= max(1, budget):
                break
            member = rows.members[host_id]
            host = self._hosts.table.get(host_id)
            phase = Phase.LOST if host is None else Phase(int(self._hosts.phase[host.number]))
            to = next_step(
                rows.campaigns[member.campaign],
                member,
                self._stages.of(host_id),
                host,
                is_up=phase in READY and phase != Phase.SUSPECTED,
                is_well=self.is_well(host_id),
                is_due=host_id in due,
                now=now,
            )
            if to is None:
                rows.touched.pop(host_id, None)
            else:
                nexts[host_id] = to
        yield from self._said(nexts)

    def _said(self, nexts: Mapping[str, Next]) -> Iterator[HostMaintenanceChanged]:
        groups: dict[Group, dict[str, Goal]] = {}
        for host_id, to in nexts.items():
            campaign, stage = self.rows.members[host_id].campaign, self._stages.of(host_id)
            by, source = CAMPAIGN, campaign
            if to.goal._replace(step=stage.goal.step) == stage.goal and stage.by:
                by, source = stage.by, stage.source  # whoever had the host has it still
            groups.setdefault(Group(campaign, to.code, to.message, by, source), {})[host_id] = to.goal
        for group, hosts in groups.items():
            cause = recorded(self.rows.campaigns[group.campaign].by)
            yield changed(hosts, group.code, by=group.by, source=group.source, message=group.message, cause=cause)

    def _settle(self, now: int) -> Iterator[Event]:
        """A campaign that is over, or pauses by failures; else the hosts that it waits for no longer."""
        for name in self.rows.going_on:
            row = self.rows.campaigns[name]
            if not row.open:
                state = State.ABORTED if row.state == State.ABORTING else State.DONE
                yield self.rows.said(name, state, Code.OVER, recorded(row.by))
            elif row.state == State.RUNNING and row.failed > row.plan.max_failed:
                hosts = "1 host has" if row.failed == 1 else f"{row.failed} hosts have"
                message = f"{hosts} failed, more than the {row.plan.max_failed} of `max_failed`."
                yield self.rows.said(name, State.PAUSED, Code.FAILURES, recorded(row.by), message)

    def _start(self, now: int, budget: int) -> Iterator[Event]:
        """The hosts that the first campaign starts that may, or why it starts none."""
        if not self._stirred and not self._is_due(now):
            return
        for name in self.rows.going_on:
            row = self.rows.campaigns[name]
            if row.state != State.RUNNING or not self.rows.pending[name] or row.active >= row.plan.at_a_time:
                continue
            if row.waits == Code.NO_ROOM_ELSEWHERE and not 0 < row.again_ms <= now:
                continue
            if starts := [*self._start_of(name, row, now, budget)]:
                yield from starts
                return
        self._stirred = False

    def _is_due(self, now: int) -> bool:
        at = self.rows.next_ms()
        return at is not None and at <= now

    def _start_of(self, name: str, row: CampaignRow, now: int, budget: int) -> Iterator[Event]:
        plan = row.plan
        if plan.window_id and not self._windows.is_open(plan.window_id):
            yield from self._wait(name, row, Code.OUTSIDE_WINDOW, f"The window {plan.window_id} is closed.")
            return
        if plan.max_down and (down := self._down()) > plan.max_down:
            message = f"{down} hosts are silent, lost or returning, more than the {plan.max_down} of `max_down`."
            yield from self._wait(name, row, Code.TOO_MANY_DOWN, message)
            return
        if not row.active and not any(self._can_start(each, plan) for _, each in self.rows.pending[name]):
            yield from self._cannot_start(name, row, now, budget)
            return
        most = min(row.plan.at_a_time - row.active, STARTS_MAX, max(1, budget))
        hosts, without_room = self._choose(name, row, most, elapsed(now))
        if hosts:
            drains = {each: self._stages.of(each).drained(plan.drain.part, now) for each in hosts}
            goals = {each: goal._replace(step=Step.DRAIN) for each, goal in drains.items()}
            yield changed(goals, Code.CAMPAIGN, by=CAMPAIGN, source=name, cause=recorded(row.by))
        elif without_room:
            host_id, job_id = without_room
            message = f"What leaves {host_id} has no room elsewhere: a task of {job_id} finds none."
            yield from self._wait(name, row, Code.NO_ROOM_ELSEWHERE, message)

    def _wait(self, name: str, row: CampaignRow, code: Code, message: str) -> Iterator[MaintenanceChanged]:
        """Says why no host is started, where that is another reason than before."""
        if row.waits != code:
            yield self.rows.said(name, State.RUNNING, code, recorded(row.by), message)

    def _cannot_start(self, name: str, row: CampaignRow, now: int, budget: int) -> Iterator[Event]:
        """Nothing is left but hosts that can't be started: they are waited for, and then left out."""
        host_ids = [host_id for _, host_id in self.rows.pending[name]]
        if row.waits != Code.HOSTS_CANNOT_START:
            hosts = listed(host_ids, NAMED)
            message = f"Only hosts are left that are cordoned, drained or away: {hosts}. They are skipped in an hour."
            yield from self._wait(name, row, Code.HOSTS_CANNOT_START, message)
        elif row.waits_ms + CANNOT_START_MS <= now:
            message = "It was cordoned, drained or away for an hour after all others were over."
            nexts = {
                host_id: skipped(self.rows.members[host_id], self._stages.of(host_id), Code.HOSTS_CANNOT_START, message)
                for host_id in host_ids[: max(1, budget)]
            }
            yield from self._said(nexts)

    # Which host is next.

    def _choose(self, name: str, row: CampaignRow, most: int, now_s: int) -> tuple[list[str], tuple[str, str] | None]:
        """The next hosts, and else one that is kept back by a job that finds no room elsewhere."""
        hosts: list[str] = []
        tried: dict[str, int] = {}
        draining = self._draining()
        no_room: tuple[str, str] | None = None
        racks = self._racks(row)
        tries = 0
        while len(hosts) < most and tries < TRIES_MAX:
            host_id = self._next(name, row, racks, tried, now_s)
            if host_id is None:
                break
            number = self._hosts.table[host_id].number
            tried[host_id] = number
            numbers = [self._hosts.table[each].number for each in hosts] + [number]
            job_id = self._room.missing(draining, numbers, row.plan.drain.batch == "move")
            if job_id:
                no_room, tries = no_room or (host_id, job_id), tries + 1
                continue
            hosts.append(host_id)
            if (rack := self._rack(row, host_id)) is not None:
                racks[rack] = racks.get(rack, 0) + 1
            if row.plan.order == "paced":
                break  # the counts by which the next is chosen are others then
        return hosts, no_room

    def _next(
        self, name: str, row: CampaignRow, racks: Mapping[str, int], tried: Mapping[str, int], now_s: int
    ) -> str | None:
        """The host that is started next; None: none may be."""

        def may(host_id: str) -> bool:
            rack = self._rack(row, host_id)
            full = rack is not None and racks.get(rack, 0) >= row.plan.per_rack
            return not full and host_id not in tried and self._can_start(host_id, row.plan)

        members, ids, pace = self.rows.members, self._hosts.ids, self._pace

        def own(numbers: Iterator[int]) -> list[int]:
            return [
                number
                for number in numbers
                if (member := members.get(ids[number])) is not None and member.campaign == name and may(ids[number])
            ]

        def cost(number: int) -> tuple[tuple[int, ...], str]:
            return pace.cost(number, now_s), ids[number]

        if row.plan.order == "name":
            return next((host_id for _, host_id in self.rows.pending[name] if may(host_id)), None)
        if row.plan.order == "paced":
            for _, numbers in pace.in_order():
                if some := own(iter(numbers)):
                    return ids[min(some, key=cost)]
            some = own(iter([*pace.open()]))
        else:
            hosts = (self._hosts.table.get(host_id) for _, host_id in self.rows.pending[name])
            some = own(host.number for host in hosts if host is not None)
        return ids[min(some, key=cost)] if some else None

    def _can_start(self, host_id: str, plan: PlanRow) -> bool:
        """Whether a host is there, and nobody has it but the window of the campaign."""
        host, stage = self._hosts.table.get(host_id), self._stages.of(host_id)
        of_window = stage.by == WINDOW and stage.source == plan.window_id
        if host is None or (stage.stage != Stage.UP and not of_window):
            return False
        return int(self._hosts.phase[host.number]) in READY

    def _rack(self, row: CampaignRow, host_id: str) -> str | None:
        """The rack of a host, where the campaign counts racks."""
        if not row.plan.per_rack:
            return None
        host = self._hosts.table.get(host_id)
        return None if host is None else host.attributes.get(row.plan.rack, "")  # without it they are one rack

    def _racks(self, row: CampaignRow) -> dict[str, int]:
        """So many hosts of each rack are taken from the cell, by any campaign."""
        racks: dict[str, int] = {}
        for host_id in chain.from_iterable(self.rows.steps.values()):
            if (rack := self._rack(row, host_id)) is not None:
                racks[rack] = racks.get(rack, 0) + 1
        return racks

    def _draining(self) -> list[int]:
        """The hosts that drain, whoever drains them."""
        return sorted(number for number, leaves in self._hosts.in_maintenance.items() if leaves)

    def _down(self) -> int:
        """Counts the hosts that are silent, lost or returning, but for those that are worked on."""
        down = np.flatnonzero(self._hosts.are(DOWN) & (self._hosts.present == 1)).tolist()
        members = self.rows.members
        return sum(
            (row := members.get(self._hosts.ids[number])) is None or row.step not in (Step.WORK, Step.CHECK)
            for number in down
        )

    def resumed(self, host_id: str, stage: StageRow, now: int) -> Goal:
        """The goal of a host that an operator resumes: its work is done, or else it is left out."""
        member = self.rows.members.get(host_id)
        if member is None or member.step != Step.WORK:
            return Goal(step=Step.SKIPPED)
        return checking(self.rows.campaigns[member.campaign], stage, now)

    def cost(self, number: int, now: int) -> tuple[int, ...]:
        """The cost of draining a host, by its number, while there is a campaign."""
        return self._pace.cost(number, elapsed(now))

    # What is derived.

    def _begin(self) -> None:
        self._pace.begin()
        for host_id in self._hosts.table:
            self._note(host_id)

    def _note(self, host_id: str) -> None:
        """Tells the pace whether a host is still to be emptied, or drains."""
        host = self._hosts.table.get(host_id)
        if host is None:
            return
        member = self.rows.members.get(host_id)
        self._pace.wait(host.number, member is not None and member.step == Step.PENDING)
        self._pace.drain(host.number, self._stages.of(host_id).drains)
