"""Taints that operators give hosts: new tasks are kept away that don't tolerate them, and runs leave by those whose
effect is to evict (decision 077).
"""

from itertools import islice

from events.codes import Code
from events.records.base import Event
from events.records.hosts import HostTaintRequested
from events.records.placement import HostAnswered, HostTainted
from events.taints import EVICT, TAINTS_MAX, text_of, toleration_fault
from processors.placement.hosts import Hosts
from processors.placement.rows import AskRow, TaintRow
from processors.state.causes import CurrentInput, host_fact
from processors.state.table import Table, struct_table


class Taints:
    """Decides `HostTainted` and answers operators."""

    def __init__(self, hosts: Hosts, current: CurrentInput) -> None:
        self.asks: Table[int, TaintRow] = struct_table("taints", TaintRow, int)
        self._hosts = hosts
        self._input = current

    def asked(self, event: HostTaintRequested, now: int) -> None:
        """An operator gives a host a taint, or takes one off."""
        ask = AskRow(event.host_id, event.command_id, now)
        self.asks.put(self._input.offset, TaintRow(ask, event.key, event.value, event.remove, event.effect == EVICT))

    def answered(self, event: HostAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def decide(self, budget: int) -> list[Event]:
        """At most `budget` answers; what changes a host comes before its answer, at most once for each host."""
        out: list[Event] = []
        changed: dict[str, None] = {}
        for offset, row in islice(self.asks.items(), budget):
            host_id = row.ask.host_id
            if host_id in changed:  # judged on what it has then
                continue
            code, message, taints = self._judge(row)
            if code == Code.DONE:
                changed[host_id] = None
                before = self._hosts.table[host_id].evicts
                keys = {*before, row.key} if row.evicts and not row.remove else {*before} - {row.key}
                evicts = tuple(sorted(keys & taints.keys()))
                out.append(HostTainted(host_id=host_id, taints=taints, evicts=evicts, cause=host_fact(offset)))
            out.append(row.ask.answer(offset, code, message))
        return out

    def next_ask_ms(self) -> int | None:
        """When an operator asked, who is to be answered at once."""
        return next(iter(self.asks.values())).ask.at_ms if self.asks else None

    def _judge(self, ask: TaintRow) -> tuple[Code, str, dict[str, str]]:
        """The answer, and the taints that the host has by it."""
        row = self._hosts.table.get(ask.ask.host_id)
        if row is None:
            return Code.NOT_FOUND, "This cell knows no such host.", {}
        taints, text = dict(row.tainted), text_of(ask.key, ask.value)
        if fault := toleration_fault(f"{ask.key}={ask.value}"):
            return Code.INVALID_TAINT, f"taint {fault}", {}
        if not ask.remove:
            taints[ask.key] = ask.value
            if len(taints) > TAINTS_MAX:
                return Code.INVALID_TAINT, f"The host has {TAINTS_MAX} taints by operators, which is the most.", {}
            return Code.DONE, f"The host has the taint {text}.", dict(sorted(taints.items()))
        if ask.key not in taints:
            whose = f"its agent has {text_of(ask.key, row.taints[ask.key])}" if ask.key in row.taints else "it has none"
            return Code.NOT_TAINTED, f"No operator gave the host a taint {ask.key}: {whose}.", {}
        del taints[ask.key]
        rest = f", which its agent has still: {text_of(ask.key, row.taints[ask.key])}" if ask.key in row.taints else ""
        return Code.DONE, f"The taint {ask.key} by operators is taken off{rest}.", taints
