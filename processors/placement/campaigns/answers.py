"""Answers to operators who start campaigns, or act on them: done whole, or refused whole."""

from collections.abc import Mapping

from events.codes import Code, Step
from events.maintenance_refusals import NO_FORCE, campaign_exists, campaign_refused, no_window
from events.records.base import Event
from events.records.placement import HostMaintenanceChanged, HostsAnswered
from processors.placement.campaigns.rows import CampaignAskRow, State
from processors.placement.campaigns.table import CampaignTable
from processors.placement.hosts import Hosts
from processors.placement.stages import CAMPAIGN, Goal, Stages, changed
from processors.placement.windows import Windows
from processors.state.causes import host_fact
from processors.state.cell_settings import CellSettings

ACTIONS = {
    "pause": ((State.RUNNING,), State.PAUSED, (State.PAUSED,)),
    "resume": ((State.PAUSED,), State.RUNNING, (State.RUNNING,)),
    "abort": ((State.RUNNING, State.PAUSED), State.ABORTING, (State.ABORTING, State.ABORTED)),
}
"""For each action the states in which it is taken, the state that follows, and those in which that is so already."""


class Answers:
    """Decides what follows from what an operator asks, and the answer to it."""

    def __init__(
        self,
        rows: CampaignTable,
        hosts: Hosts,
        stages: Stages,
        settings: CellSettings,
        windows: Windows,
    ) -> None:
        self._rows = rows
        self._hosts = hosts
        self._stages = stages
        self._settings = settings
        self._windows = windows

    def decide(self) -> list[Event]:
        """The answer to the first who asked, and what follows from it before."""
        offset, ask = next(iter(self._rows.asks.items()))
        return self._start(ask, offset) if ask.plan is not None else self._act(ask, offset)

    def _start(self, ask: CampaignAskRow, offset: int) -> list[Event]:
        assert ask.plan is not None
        name, before = ask.maintenance_id, self._rows.campaigns.get(ask.maintenance_id)
        if before is not None:
            if before.command_id == ask.command_id:
                return [_answer(ask, offset, Code.REPEATED, f"The campaign {name} was started by this command.")]
            return [_answer(ask, offset, Code.WRONG_STATE, campaign_exists(name, before.state))]
        if ask.plan.drain.escalate == "force" and not self._settings.now.drain_force:
            return [_answer(ask, offset, Code.FORCE_NOT_ALLOWED, NO_FORCE)]
        if ask.plan.window_id and ask.plan.window_id not in self._windows.table:
            return [_answer(ask, offset, Code.NOT_FOUND, no_window(ask.plan.window_id))]
        refused = {host_id: code for host_id in ask.host_ids if (code := self._refusal(host_id)) is not None}
        if refused or not ask.host_ids:
            return [_refused(ask, offset, refused)]
        change = self._rows.said(name, State.RUNNING, Code.ASKED, host_fact(offset), host_ids=ask.host_ids)
        return [change, *self._pending(ask, offset), _answer(ask, offset, Code.DONE, "", ask.host_ids)]

    def _refusal(self, host_id: str) -> Code | None:
        if host_id not in self._hosts.table:
            return Code.NOT_FOUND
        return Code.HOSTS_BUSY if host_id in self._rows.members else None

    def _pending(self, ask: CampaignAskRow, offset: int) -> list[HostMaintenanceChanged]:
        """The hosts wait for their turn; whoever has one has it still."""
        of_whom: dict[tuple[str, str], dict[str, Goal]] = {}
        for host_id in ask.host_ids:
            row = self._stages.of(host_id)
            by, source = (row.by, row.source) if row.by else (CAMPAIGN, ask.maintenance_id)
            of_whom.setdefault((by, source), {})[host_id] = row.goal._replace(step=Step.PENDING)
        return [
            changed(hosts, Code.CAMPAIGN, by=by, source=source, cause=host_fact(offset))
            for (by, source), hosts in of_whom.items()
        ]

    def _act(self, ask: CampaignAskRow, offset: int) -> list[Event]:
        row = self._rows.campaigns.get(ask.maintenance_id)
        if row is None:
            return [_answer(ask, offset, Code.NOT_FOUND, f"There is no campaign {ask.maintenance_id}.")]
        states, to, already = ACTIONS.get(ask.action, ((), State.RUNNING, ()))
        if row.state in already:
            return [_answer(ask, offset, Code.REPEATED, f"The campaign is {row.state} already.")]
        if row.state not in states:
            message = f"The campaign is {row.state}; `{ask.action}` needs one that is {' or '.join(states)}."
            return [_answer(ask, offset, Code.WRONG_STATE, message)]
        change = self._rows.said(ask.maintenance_id, to, Code.ASKED, host_fact(offset))
        return [change, _answer(ask, offset, Code.DONE, "")]


def _refused(ask: CampaignAskRow, offset: int, refused: Mapping[str, Code]) -> HostsAnswered:
    """Nothing is done with any host, as some can't be had."""
    if not refused:
        return _answer(ask, offset, Code.NOT_FOUND, "The campaign names no host.")
    code, message = campaign_refused(refused, len(ask.host_ids))
    return HostsAnswered(
        hosts_offset=offset,
        command_id=ask.command_id,
        code=code,
        message=message,
        host_ids=tuple(refused),
        codes=tuple(refused.values()),
    )


def _answer(
    ask: CampaignAskRow, offset: int, code: Code, message: str, host_ids: tuple[str, ...] = ()
) -> HostsAnswered:
    return HostsAnswered(hosts_offset=offset, command_id=ask.command_id, code=code, message=message, host_ids=host_ids)
