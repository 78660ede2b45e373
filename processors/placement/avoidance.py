"""Avoidance of suspected hosts, for some time, and of those that aren't well, while they aren't (decisions 041, 091).

Lifecycle suspects a host (`HostSuspected`), or a check says that it isn't well (`conditions.py`). It takes no new tasks
then, for `AVOIDED_MS` or until it is well, but for those that may run on no other host. Only a part of the hosts is
avoided at a time: jobs that fail everywhere, and checks that are bad everywhere, must not empty the cell.
"""

from collections.abc import Iterator
from itertools import islice

from events.codes import Code
from events.host_health import AVOIDED_PERCENT, most
from events.records.base import Event
from events.records.hosts import HostClearRequested
from events.records.lifecycle import HostSuspected
from events.records.parts import Cause
from events.records.placement import HostAnswered, HostAvoided, HostRemoved, HostTrusted
from processors.placement.conditions import Conditions
from processors.placement.hosts import Hosts
from processors.placement.rows import AskRow
from processors.state.causes import CurrentInput, host_fact, recorded
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

AVOIDED_MS = 600_000
"""Ten minutes: a host that is still at fault then is suspected again by the next failures."""
WHILE_ILL = -1
"""In place of the time until which a host is avoided: while a condition of it lasts."""


class Avoidance:
    """Decides `HostAvoided` and `HostTrusted`, and answers operators who clear a host."""

    def __init__(self, hosts: Hosts, conditions: Conditions, current: CurrentInput) -> None:
        self.asks: Table[int, AskRow] = struct_table("clears", AskRow, int)
        self._hosts = hosts
        self._conditions = conditions
        self._input = current
        self.suspicions: Deadlines[str] = Deadlines()
        """Hosts that are to be judged at once, since when."""
        self.avoided_until: Deadlines[str] = Deadlines()
        """Until when hosts are avoided."""
        self._ill: dict[str, None] = {}
        """The hosts that are avoided while they aren't well, in no order that means anything."""

    def restored(self) -> None:
        """Rebuilds the deadlines."""
        rows = self._hosts.table.items()
        self.suspicions.restore((host_id, row.suspected_ms) for host_id, row in rows if row.suspected_ms)
        self.avoided_until.restore((host_id, row.avoided_ms) for host_id, row in rows if row.avoided_ms > 0)
        self._ill = {host_id: None for host_id, row in rows if row.avoided_ms == WHILE_ILL}

    def suspected(self, event: HostSuspected, now: int) -> None:
        """Something speaks against a host; unless it was removed."""
        if event.host_id in self._hosts.table:
            row = self._hosts.table.change(event.host_id)
            row.suspected_ms, row.suspected_code, row.suspected_by = max(1, now), event.code, self._input.cause
            self.suspicions.set(event.host_id, row.suspected_ms)

    def asked(self, event: HostClearRequested, now: int) -> None:
        """An operator says that a host takes tasks again."""
        self.asks.put(self._input.offset, AskRow(event.host_id, event.command_id, now))

    def answered(self, event: HostAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def avoided(self, event: HostAvoided, now: int) -> None:
        """A host takes no new tasks."""
        self._judged(event.host_id, event.until_ms or WHILE_ILL)
        self.avoided_until.set(event.host_id, event.until_ms or None)
        if not event.until_ms:
            self._ill[event.host_id] = None

    def trusted(self, event: HostTrusted, now: int) -> None:
        """A host takes new tasks."""
        self._judged(event.host_id, 0)
        self.avoided_until.clear(event.host_id)
        self._ill.pop(event.host_id, None)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten."""
        self.suspicions.clear(event.host_id)
        self.avoided_until.clear(event.host_id)
        self._ill.pop(event.host_id, None)

    def decide(self, now: int, budget: int, passed_ms: int) -> list[Event]:
        """At most `budget` answers, hosts that take tasks again and hosts to avoid; to be asked only when caught up.
        `passed_ms`: up to then all deadlines were looked at.
        """
        out: list[Event] = []
        avoided = dict.fromkeys((*self.avoided_until, *self._ill))
        for offset, ask in islice(self.asks.items(), budget):
            code, message = self._answer(ask.host_id, avoided, now)
            if code == Code.DONE:
                avoided.pop(ask.host_id, None)
                out.append(self._trusted(ask.host_id, Code.ASKED, len(avoided), host_fact(offset)))
            out.append(ask.answer(offset, code, message))
        for host_id in sorted(each for each in self.avoided_until.due(now) if each in avoided):
            del avoided[host_id]
            cause = recorded(self._hosts.table[host_id].avoided_by)
            out.append(self._trusted(host_id, Code.TIME_PASSED, len(avoided), cause))
        for host_id in sorted(self.suspicions):
            row = self._hosts.table[host_id]
            others, cause = len(avoided) - (host_id in avoided), recorded(row.suspected_by)
            if others < self._most() or host_id in self._ill:
                avoided[host_id] = None
                until_ms, why = 0 if host_id in self._ill else now + AVOIDED_MS, row.suspected_code
                out.append(HostAvoided(host_id=host_id, code=why, until_ms=until_ms, cause=cause))
            else:
                avoided.pop(host_id, None)
                out.append(self._trusted(host_id, Code.TOO_MANY_SUSPECTED, others, cause))
        if not out and self._conditions.table and not self._conditions.settled(passed_ms, now):
            out += islice(self._judge(now, avoided), budget)
        return out

    def _judge(self, now: int, avoided: dict[str, None]) -> Iterator[Event]:
        """Decides by conditions: hosts that are well take tasks again, then the longest ill are avoided."""
        lasting = {host_id: self._conditions.lasting(host_id, now) for host_id in self._conditions.hosts()}
        for host_id in sorted(each for each in self._ill if not lasting.get(each)):
            del avoided[host_id]
            cause = recorded(self._hosts.table[host_id].avoided_by)
            yield self._trusted(host_id, Code.CONDITION, len(avoided), cause)
        ill = [
            (min((row.since_ms, name) for name, row in rows if row.bad), host_id)
            for host_id, rows in lasting.items()
            if host_id not in self._ill and any(row.bad for _, row in rows)
        ]
        for (_, name), host_id in sorted(ill):
            row, others = self._conditions.table[host_id, name], len(avoided) - (host_id in avoided)
            if others < self._most():
                avoided[host_id] = None
                yield HostAvoided(host_id=host_id, code=Code.CONDITION, until_ms=0, cause=row.by.record)
            elif not any(row.is_held for _, row in lasting[host_id]):
                yield self._trusted(host_id, Code.TOO_MANY_UNHEALTHY, others, row.by.record)

    def next_ask_ms(self) -> int | None:
        """When an operator asked, who is to be answered at once."""
        return next(iter(self.asks.values())).at_ms if self.asks else None

    def _judged(self, host_id: str, until_ms: int) -> None:
        self._conditions.unsettle()
        row = self._hosts.avoid(host_id, until_ms)
        row.suspected_ms, row.suspected_code, row.suspected_by = 0, "", None
        row.avoided_by = self._input.cause if until_ms else None
        self.suspicions.clear(host_id)

    def _answer(self, host_id: str, avoided: dict[str, None], now: int) -> tuple[Code, str]:
        if host_id not in self._hosts.table:
            return Code.NOT_FOUND, "This cell knows no such host."
        if host_id not in avoided and not self._conditions.lasting(host_id, now):
            return Code.NOT_AVOIDED, "The host isn't avoided."
        return Code.DONE, ""

    def _most(self) -> int:
        """The most hosts that are avoided at a time."""
        return most(self._conditions.heard(), AVOIDED_PERCENT)

    def _trusted(self, host_id: str, code: Code, avoided: int, cause: Cause | None) -> HostTrusted:
        return HostTrusted(host_id=host_id, code=code, avoided=avoided, most=self._most(), cause=cause)
