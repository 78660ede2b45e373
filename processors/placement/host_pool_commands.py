"""Definitions of host pools and the assignment of hosts to them: what operators ask for, and the answers.

An assignment takes effect at once, and what runs on the hosts goes on. A host that isn't there yet is in its host pool
when it comes.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from events.bounds import MS_MAX
from events.codes import Code
from events.host_pools import KINDS, POOLS_MAX, SHARED, name_fault
from events.records.base import Event
from events.records.hosts import HostPoolAssigned, HostPoolDefined
from events.records.parts import HostPoolPolicy
from events.records.placement import HostPoolChanged, HostsAnswered, HostsPooled
from events.words import listed, plural
from processors.placement.host_pools import PolicyRow, policy_rows
from processors.placement.hosts import Hosts
from processors.state.causes import CurrentInput, host_fact
from processors.state.table import Table, struct_table

NAMED = 3
DESCRIPTION_MAX = 1000
HOSTS_MAX = 1_000_000
Verdict = tuple[Code, str]


class DefineRow(msgspec.Struct, array_like=True, frozen=True, tag="define"):
    """A HostPoolDefined."""

    name: str
    command_id: str
    removed: bool
    kinds: tuple[str, ...]
    description: str
    elastic: tuple[PolicyRow, ...] = ()


class AssignRow(msgspec.Struct, array_like=True, frozen=True, tag="assign"):
    """A HostPoolAssigned."""

    host_ids: tuple[str, ...]
    host_pool: str
    command_id: str


class HostPoolAskRow(msgspec.Struct, array_like=True, frozen=True):
    """A fact of an operator, while it waits for its answer."""

    fact: DefineRow | AssignRow
    at_ms: int


class HostPoolCommands:
    """Decides `HostPoolChanged` and `HostsPooled`, and answers operators."""

    def __init__(self, hosts: Hosts, current: CurrentInput) -> None:
        self.asks: Table[int, HostPoolAskRow] = struct_table("host_pool_asks", HostPoolAskRow, int)
        self._hosts = hosts
        self._pools = hosts.pools
        self._input = current

    def define_asked(self, event: HostPoolDefined, now: int) -> None:
        """An operator defines a host pool, or removes it."""
        kinds = tuple(sorted({*event.kinds}))
        row = DefineRow(
            event.name, event.command_id, event.removed, kinds, event.description, policy_rows(event.elastic)
        )
        self.asks.put(self._input.offset, HostPoolAskRow(row, now))

    def assign_asked(self, event: HostPoolAssigned, now: int) -> None:
        """An operator puts hosts into a host pool."""
        host_ids = tuple(dict.fromkeys(event.host_ids))
        row = AssignRow(host_ids, event.host_pool, event.command_id)
        self.asks.put(self._input.offset, HostPoolAskRow(row, now))

    def answered(self, event: HostsAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def next_ask_ms(self) -> int | None:
        """When an operator asked, who is to be answered at once."""
        return next(iter(self.asks.values())).at_ms if self.asks else None

    def decide(self) -> list[Event]:
        """The first answer, behind what follows from it: the next one is judged on that."""
        for offset, ask in islice(self.asks.items(), 1):
            return [*self._answer(ask.fact, offset)]
        return []

    def _answer(self, ask: DefineRow | AssignRow, offset: int) -> Iterator[Event]:
        if isinstance(ask, DefineRow):
            code, message = self._judge(ask)
            if code == Code.DONE:
                yield HostPoolChanged(
                    name=ask.name,
                    removed=ask.removed,
                    kinds=ask.kinds,
                    description=ask.description,
                    elastic=tuple(HostPoolPolicy(*each) for each in ask.elastic),
                    cause=host_fact(offset),
                )
        else:
            code, message = self._judge_hosts(ask)
            others = tuple(host_id for host_id in ask.host_ids if self._pools.of(host_id) != ask.host_pool)
            if code == Code.DONE:
                yield HostsPooled(host_ids=others, host_pool=ask.host_pool, code=Code.ASKED, cause=host_fact(offset))
        yield HostsAnswered(
            hosts_offset=offset,
            command_id=ask.command_id,
            code=code,
            message=message,
            host_ids=ask.host_ids if isinstance(ask, AssignRow) and code == Code.DONE else (),
        )

    def _judge(self, ask: DefineRow) -> Verdict:
        """The answer about a definition."""
        row = self._pools.table.get(ask.name)
        if fault := _fault(ask):
            return Code.INVALID_SPEC, fault
        if ask.removed:
            if row is None:
                return Code.NOT_FOUND, f"There is no host pool {ask.name}."
            hosts = [host_id for host_id, name in self._pools.of_host.items() if name == ask.name]
            if hosts:
                text = f"{plural(len(hosts), 'host')} in it: {listed(sorted(hosts), NAMED)}"
                return Code.HOST_POOL_IN_USE, f"The host pool {ask.name} has {text}; assign them to another one first."
            return Code.DONE, ""
        for source, *_ in ask.elastic:
            if not self._pools.is_known(source):
                return Code.NOT_FOUND, f"elastic: there is no host pool {source}; define it first."
        if row is not None and (row.kinds, row.description, row.elastic) == (
            ask.kinds,
            ask.description,
            ask.elastic,
        ):
            return Code.REPEATED, "The host pool is defined like this already."
        if row is None and len(self._pools.table) >= POOLS_MAX:
            return Code.INVALID_SPEC, f"The cell has {POOLS_MAX} host pools, which is the most."
        return Code.DONE, ""

    def _judge_hosts(self, ask: AssignRow) -> Verdict:
        """The answer about hosts, also of those that aren't there yet."""
        if not ask.host_ids:
            return Code.INVALID_SPEC, "The request names no host."
        if not self._pools.is_known(ask.host_pool):
            return Code.NOT_FOUND, f"There is no host pool {ask.host_pool[:80]}: define it first."
        if len(self._pools.of_host) + len(ask.host_ids) > HOSTS_MAX:
            return Code.INVALID_SPEC, f"At most {HOSTS_MAX} hosts are in other host pools than {SHARED}."
        if all(self._pools.of(host_id) == ask.host_pool for host_id in ask.host_ids):
            return Code.REPEATED, "That is so already."
        return Code.DONE, ""


def _fault(ask: DefineRow) -> str:
    """Why a definition is none; empty: it is one."""
    if fault := name_fault(ask.name):
        return f"{fault}."
    if ask.name == SHARED:
        return f"{SHARED} is in every cell: it holds the hosts that are in no other host pool."
    if unknown := [kind for kind in ask.kinds if kind not in KINDS]:
        return f"{unknown[0][:40]!r} is no kind of jobs: {', '.join(KINDS)}."
    for policy in (HostPoolPolicy(*each) for each in ask.elastic):
        if fault := _policy_fault(ask.name, policy):
            return fault
    if len({source for source, *_ in ask.elastic}) < len(ask.elastic):
        return "elastic: one policy for each source."
    if len(ask.description) > DESCRIPTION_MAX:
        return f"The description has {len(ask.description)} characters, at most {DESCRIPTION_MAX} are allowed."
    return ""


def _policy_fault(name: str, policy: HostPoolPolicy) -> str:
    """Why a policy is none; empty: it is one."""
    if name_fault(policy.source) or policy.source == name:
        return f"elastic: {policy.source[:80]!r} is no other host pool."
    if not 0 <= policy.below < policy.above <= 100:
        return f"elastic: below ({policy.below}) must be less than above ({policy.above}), both 0 to 100 percent."
    if not 0 <= policy.lasts_ms <= MS_MAX or not 1 <= policy.hosts <= HOSTS_MAX or not 0 <= policy.keep <= HOSTS_MAX:
        return f"elastic: lasts_ms must be 0 to {MS_MAX}, hosts 1 to {HOSTS_MAX}, keep 0 to {HOSTS_MAX}."
    return ""
