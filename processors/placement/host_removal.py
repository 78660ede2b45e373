"""Removal of hosts that have left: some time after they were given up, or when an operator asks for it."""

import numpy as np

from events.codes import Code
from events.columns import I64
from events.records.base import Event
from events.records.hosts import HostRemovalRequested
from events.records.parts import Cause
from events.records.placement import HostAnswered, HostRemoved
from processors.placement.hosts import Hosts
from processors.placement.rows import NEVER, AskRow, HostRow
from processors.state.causes import CurrentInput, host_fact, recorded
from processors.state.cell_settings import CellSettings
from processors.state.table import Table, struct_table


class HostRemovals:
    """Decides `HostRemoved` and answers operators who ask for it."""

    def __init__(self, hosts: Hosts, settings: CellSettings, current: CurrentInput) -> None:
        self.asks: Table[int, AskRow] = struct_table("removals", AskRow, int)
        self._hosts = hosts
        self._settings = settings
        self._input = current

    def asked(self, event: HostRemovalRequested, now: int) -> None:
        """An operator says that a host has left."""
        self.asks.put(self._input.offset, AskRow(event.host_id, event.command_id, now))

    def answered(self, event: HostAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def decide(self, now: int, busy: set[str], budget: int) -> list[Event]:
        """Answers, and the hosts to remove, at most `budget`; to be asked only when caught up. `busy`: hosts of which
        something else is decided now; they are looked at again after that.
        """
        out: list[Event] = []
        removed: dict[str, None] = {}
        for offset, ask in self.asks.items():
            if len(out) >= budget:
                return out
            if ask.host_id in busy:
                continue
            row = None if ask.host_id in removed else self._hosts.table.get(ask.host_id)
            code, message = self._answer(row, now)
            if row is not None and code == Code.DONE:
                removed[ask.host_id] = None
                out.append(self._removed(ask.host_id, Code.ASKED, now, host_fact(offset)))
            out.append(ask.answer(offset, code, message))
        due = self._departed()
        due = due[self._removed_ms(due) <= now]
        names = (self._hosts.ids[number] for number in due.tolist())
        due_ids = [host_id for host_id in names if host_id not in removed and host_id not in busy]
        return out + [self._removed(host_id, Code.STAYED_AWAY, now) for host_id in due_ids[: max(0, budget - len(out))]]

    def next_wakeup(self) -> int | None:
        """When the next host is to be removed; an operator's ask is due at once."""
        times = [ask.at_ms for ask in list(self.asks.values())[:1]]
        departed = self._departed()
        if len(departed):
            times.append(int(self._removed_ms(departed).min()))
        return min(times, default=None)

    def _removed_ms(self, hosts: I64) -> I64:
        """When hosts that have left are removed."""
        times: I64 = self._hosts.departed_ms[hosts] + self._settings.now.host_removed_after_ms
        return times

    def _departed(self) -> I64:
        """The hosts that have left and hold no runs, the longest gone first."""
        hosts: I64 = np.flatnonzero(self._hosts.departed_ms)
        if not len(hosts):
            return hosts
        hosts = hosts[self._hosts.runs[hosts] == 0]
        return hosts[np.argsort(self._hosts.departed_ms[hosts], kind="stable")]

    def _answer(self, row: HostRow | None, now: int) -> tuple[Code, str]:
        if row is None:
            return Code.NOT_FOUND, "This cell knows no such host, or no longer."
        if not row.departed_ms and not row.silent_ms:
            return Code.HOST_CONNECTED, "The host is heard: stop its agent first; 10 s later it is silent."
        fresh = not row.departed_ms or now - row.departed_ms < self._settings.now.host_lost_after_ms
        if row.reconciled > row.session != NEVER and fresh:
            return Code.HOST_CONNECTED, "The host is connecting just now."
        if runs := int(self._hosts.runs[row.number]):
            return Code.RUNS_LEFT, f"{runs} runs are on the host: declare it lost first: `paceline host confirm-loss`."
        return Code.DONE, ""

    def _removed(self, host_id: str, code: Code, now: int, by: Cause | None = None) -> HostRemoved:
        row = self._hosts.table[host_id]
        departed_ms = max(0, now - row.departed_ms) if row.departed_ms else 0
        session, cause = max(row.session, row.reconciled), by or recorded(row.departed_by)
        return HostRemoved(host_id=host_id, session=session, code=code, left_ms=departed_ms, cause=cause)
