"""Loss of hosts: which silent hosts are given up, and when (decision 021).

Silence counts only while a gateway's beats arrive, and only some hosts a minute are given up for it, because a
partition is likelier than a mass death. The rest stays silent until an operator confirms or a long grace passes.
"""

from collections.abc import Container
from itertools import islice

import numpy as np

from events.codes import Code, Stage
from events.columns import I64
from events.records.base import Event
from events.records.hosts import GatewayBeat, HostLossConfirmed
from events.records.parts import Cause
from events.records.placement import HostAnswered, HostLost
from events.records.rounds import TimerPassed
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask
from processors.placement.rows import AskRow, CellRow
from processors.placement.stages import Stages
from processors.placement.states import ABSENT
from processors.state.causes import CurrentInput, host_fact, recorded
from processors.state.cell_settings import CellSettings
from processors.state.table import Table, struct_table

BEAT_MS = 30_000
"""Beats come every 10 s; without one for so long, nobody can tell whether hosts are silent."""
WINDOW_MS = 60_000
"""The minute of `host_lost_percent_per_minute`."""


class Liveness:
    """Decides `HostLost` and answers operators."""

    def __init__(
        self, hosts: Hosts, cell: Table[str, CellRow], settings: CellSettings, current: CurrentInput, stages: Stages
    ) -> None:
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self._hosts = hosts
        self._cell = cell
        self._settings = settings
        self._input = current
        self._stages = stages

    def beat(self, event: GatewayBeat, now: int) -> None:
        """A gateway lives."""
        row = self._cell.change("cell")
        if not row.beats_since_ms or now - row.beat_ms >= BEAT_MS:
            row.beats_since_ms = max(1, now)
        row.beat_ms = max(row.beat_ms, now)

    def confirmed(self, event: HostLossConfirmed, now: int) -> None:
        """An operator says that a host is lost."""
        self.asks.put(self._input.offset, AskRow(event.host_id, event.command_id, now))

    def answered(self, event: HostAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def lost(self, event: HostLost, now: int) -> None:
        """A host was given up; by silence, it counts for the bound, unless it was drained: nothing is lost with it."""
        if event.code != Code.SILENT or self._stages.is_drained(event.host_id):
            return
        row = self._cell.change("cell")
        if now - row.window_ms >= WINDOW_MS:
            row.window_ms, row.losses = now, 0
        row.losses += 1

    def passed(self, event: TimerPassed, now: int) -> None:
        """A deadline passed and nothing was decided: the beats have stopped. Silence counts from when they return."""
        if now - self._cell["cell"].beat_ms >= BEAT_MS:
            self._cell.change("cell").beats_since_ms = 0

    def decide(self, now: int, most: int) -> list[Event]:
        """At most `most` answers and hosts to give up; to be asked only when caught up."""
        out: list[Event] = []
        given_up: dict[str, None] = {}
        for offset, ask in islice(self.asks.items(), most):
            code, message = self._answer(ask.host_id, given_up)
            if code == Code.DONE:
                given_up[ask.host_id] = None
                number = self._hosts.table[ask.host_id].number
                out.append(self._lost(number, Code.CONFIRMED, now, host_fact(offset)))
            out.append(ask.answer(offset, code, message))
        most -= min(most, len(self.asks))
        return out + [self._lost(number, code, now) for number, code in self._silent(now, given_up)[:most]]

    def next_wakeup(self) -> int | None:
        """When the next host is to be given up, as far as beats go on; an operator's ask is due at once."""
        times = [ask.at_ms for ask in list(self.asks.values())[:1]]
        cell = self._cell["cell"]
        silent = np.flatnonzero(self._hosts.silent_ms)
        if cell.beats_since_ms and len(silent):
            lost_ms, graced_ms = self._lost_ms(silent)
            drained = self._drained(silent)
            times += [int(each.min()) for each in (lost_ms[drained], graced_ms[~drained]) if len(each)]
            if not drained.all():
                bounded = int(lost_ms[~drained].min())
                if self._losses_allowed(bounded) == 0:
                    bounded = max(bounded, cell.window_ms + WINDOW_MS)
                times.append(bounded)
        return min(times, default=None)

    def _answer(self, host_id: str, given_up: dict[str, None]) -> tuple[Code, str]:
        row = self._hosts.table.get(host_id)
        if row is None:
            return Code.NOT_FOUND, "This cell knows no such host."
        if row.lost or host_id in given_up:
            return Code.REPEATED, "The host is lost already."
        if not row.silent_ms:
            return Code.NOT_SILENT, "The host is heard; only a silent host can be declared lost."
        return Code.DONE, ""

    def _silent(self, now: int, given_up: Container[str]) -> list[tuple[int, Code]]:
        """The hosts to give up for their silence, and why, the longest silent first."""
        cell = self._cell["cell"]
        if not cell.beats_since_ms or now - cell.beat_ms >= BEAT_MS:
            return []
        hosts = np.flatnonzero(self._hosts.silent_ms)
        if not len(hosts):
            return []
        hosts = hosts[np.argsort(self._hosts.silent_ms[hosts], kind="stable")]
        lost_ms, graced_ms = self._lost_ms(hosts)
        drained, late = self._drained(hosts) & (lost_ms <= now), graced_ms <= now
        due = hosts[(lost_ms <= now) & ~late & ~drained].tolist()[: self._losses_allowed(now)]
        hosts_due = [(number, Code.GRACE_PASSED) for number in hosts[late & ~drained].tolist()]
        hosts_due += [(number, Code.SILENT) for number in [*hosts[drained].tolist(), *due]]
        return [each for each in hosts_due if self._hosts.ids[each[0]] not in given_up]

    def _drained(self, hosts: I64) -> Mask:
        """True for hosts that were drained: they are given up whatever the bound says."""
        mask: Mask = (self._hosts.stage[hosts] == Stage.DRAINED) & (self._hosts.runs[hosts] == 0)
        return mask

    def _lost_ms(self, hosts: I64) -> tuple[I64, I64]:
        """When silent hosts are given up as far as the bound of losses allows, and when whatever it says."""
        since: I64 = np.maximum(self._hosts.silent_ms[hosts], self._cell["cell"].beats_since_ms)
        return since + self._settings.now.host_lost_after_ms, since + self._settings.now.host_lost_grace_ms

    def _losses_allowed(self, now: int) -> int:
        """Counts the hosts that may still be given up for their silence in the present minute."""
        cell = self._cell["cell"]
        losses = cell.losses if now - cell.window_ms < WINDOW_MS else 0
        present = int((~self._hosts.are(ABSENT)).sum())
        return max(0, max(1, (present + losses) * self._settings.now.host_lost_percent_per_minute // 100) - losses)

    def _lost(self, number: int, code: Code, now: int, by: Cause | None = None) -> HostLost:
        host_id = self._hosts.ids[number]
        row = self._hosts.table[host_id]
        silent_ms, cause = max(0, now - row.silent_ms), by or recorded(row.silent_by)
        return HostLost(host_id=host_id, session=row.session, code=code, silent_ms=silent_ms, cause=cause)
