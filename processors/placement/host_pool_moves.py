"""Hosts that go from one host pool to another, empty: as operators ask, or by the policy of a host pool.

A move is a decision (`HostPoolMoveStarted`), with the scores of its hosts and the load that led to it. Its hosts
drain by the stages that maintenance has (`stages.py`); one that is DRAINED is put into its host pool (`HostsPooled`)
and is taken back. Who takes a host back before, or has it for another reason, ends its move.

The load of a host pool with a policy is looked at every `SAMPLE_MS`, when a deadline passes: nothing else changes since
when it is above or below a bound, so a replay finds the same.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from events.bounds import INT_MAX
from events.codes import Code, Stage
from events.columns import I64, counted
from events.maintenance_refusals import NO_FORCE
from events.records.base import Event
from events.records.entitlement import HostPoolsWanted
from events.records.hosts import HostPoolMoveRequested
from events.records.parts import Cause, DrainPlan, HostPoolPolicy
from events.records.placement import (
    HostMaintenanceChanged,
    HostPoolChanged,
    HostPoolMoveStarted,
    HostRemoved,
    HostsAnswered,
    HostsPooled,
)
from events.resources import in_order
from events.words import listed, plural
from processors.placement.host_scores import CONTROLLERS, MEAN_S, PRIORITIES, TASKS, batch_scores, first_to_move
from processors.placement.hosts import Hosts
from processors.placement.maintenance import BATCH, ESCALATE
from processors.placement.runs import Runs
from processors.placement.stages import HOST_POOL, Goal, Stages, changed
from processors.placement.states import TAKES
from processors.state.causes import CauseRow, CurrentInput, host_fact, recorded
from processors.state.cell_settings import CellSettings
from processors.state.table import Table, struct_table

SAMPLE_MS = 30_000
"""The time between two looks at the load of host pools with policies."""
BY_POLICY = DrainPlan(batch="move", deadline_ms=0, escalate="wait", force_after_ms=0)
"""The plan by which hosts are emptied that a policy moves."""
NAMED = 3
Pair = tuple[str, str]
"""The host pool that has a policy, and the other one of it."""


class MoveAskRow(msgspec.Struct, array_like=True, frozen=True):
    """A request of an operator to move hosts, while it waits for its answer. Durations are in milliseconds."""

    source: str
    target: str
    command_id: str
    hosts: int
    host_ids: tuple[str, ...]
    batch: str
    deadline_ms: int
    escalate: str
    force_after_ms: int
    at_ms: int

    @property
    def plan(self) -> DrainPlan:
        """The plan by which the hosts are emptied."""
        return DrainPlan(
            batch=self.batch,
            deadline_ms=self.deadline_ms,
            escalate=self.escalate,
            force_after_ms=self.force_after_ms,
        )


class MovingRow(msgspec.Struct, array_like=True, frozen=True):
    """A host that is emptied for another host pool."""

    source: str
    target: str
    cause: CauseRow | None
    """The decision that moves it."""


class LoadRow(msgspec.Struct, array_like=True):
    """The load of a host pool with a policy. Times are logical milliseconds; 0: it isn't so."""

    cause: CauseRow | None
    """The definition of the policy."""
    next_ms: int
    """When it is looked at next."""
    load: int = 0
    waiting: int = 0
    """The part of it that waits."""
    above_ms: int = 0
    """Since when it is above the bound of its policy."""
    below_ms: int = 0


class HostPoolMoves:
    """Decides `HostPoolMoveStarted` and what follows, and answers operators."""

    def __init__(self, hosts: Hosts, runs: Runs, stages: Stages, settings: CellSettings, current: CurrentInput) -> None:
        self.asks: Table[int, MoveAskRow] = struct_table("move_asks", MoveAskRow, int)
        self.moving: Table[str, MovingRow] = struct_table("moving", MovingRow)
        self.loads: Table[Pair, LoadRow] = struct_table("loads", LoadRow, Pair)
        self.waiting: Table[str, dict[str, int]] = struct_table("host_pool_waits", dict[str, int])
        """By host pool the amount that waits for its admission there, as entitlement has said."""
        self._hosts = hosts
        self._pools = hosts.pools
        self._runs = runs
        self._stages = stages
        self._settings = settings
        self._input = current
        self._strays: dict[str, None] = {}
        """Hosts that drain for a move which is no more."""

    def restored(self) -> None:
        """Finds again what is derived; after the stages were."""
        of_moves = [host_id for host_id, row in self._stages.table.items() if row.by == HOST_POOL]
        self._strays = dict.fromkeys(host_id for host_id in of_moves if host_id not in self.moving)

    @property
    def is_at_work(self) -> bool:
        """Whether there is anything to decide, now or some time."""
        return bool(self.asks or self.moving or self.loads or self._strays)

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All tables."""
        return self.asks, self.moving, self.loads, self.waiting

    # What is said.

    def asked(self, event: HostPoolMoveRequested, now: int) -> None:
        """An operator wants hosts in another host pool."""
        host_ids = tuple(dict.fromkeys(event.host_ids))
        plan = event.batch, event.deadline_ms, event.escalate, event.force_after_ms
        row = MoveAskRow(event.source, event.target, event.command_id, event.hosts, host_ids, *plan, now)
        self.asks.put(self._input.offset, row)

    def answered(self, event: HostsAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def defined(self, event: HostPoolChanged, now: int) -> None:
        """A host pool has other policies; their times begin again."""
        for pair in [pair for pair in self.loads if pair[0] == event.name]:
            self.loads.remove(pair)
        if event.removed:
            self._forget([host_id for host_id, row in self.moving.items() if row.target == event.name])
        for policy in event.elastic if not event.removed else ():
            self.loads.put((event.name, policy.source), LoadRow(self._input.cause, now + SAMPLE_MS))

    def wanted(self, event: HostPoolsWanted, now: int) -> None:
        """Work waits for host pools."""
        for name in [name for name, _ in self.waiting.items()]:
            self.waiting.remove(name)
        for each in event.host_pools:
            self.waiting.put(each.name, in_order(each.waiting))

    def started(self, event: HostPoolMoveStarted, now: int) -> None:
        """Hosts are emptied."""
        for host_id in event.host_ids:
            self.moving.put(host_id, MovingRow(event.source, event.target, self._input.cause))
        for pair in ((event.target, event.source), (event.source, event.target)):
            if event.code != Code.ASKED and pair in self.loads:
                row = self.loads.change(pair)
                row.above_ms = row.below_ms = 0

    def staged(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts that somebody else has now aren't moved."""
        if event.by != HOST_POOL:
            self._forget(event.host_ids)
            for host_id in event.host_ids:
                self._strays.pop(host_id, None)

    def pooled(self, event: HostsPooled, now: int) -> None:
        """Hosts are where they were to go, or elsewhere."""
        self._forget(event.host_ids)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten."""
        self._forget((event.host_id,))
        self._strays.pop(event.host_id, None)

    def passed(self, due_ms: int, now: int) -> None:
        """A deadline has passed: loads are looked at that were to be."""
        for pair in [pair for pair, row in self.loads.items() if row.next_ms <= due_ms]:
            row, policy = self.loads.change(pair), self._policy(pair)
            row.next_ms = now + SAMPLE_MS
            row.load, row.waiting = self._load(pair[0])
            row.above_ms = (row.above_ms or max(1, now)) if row.load > policy.above else 0
            row.below_ms = (row.below_ms or max(1, now)) if row.load < policy.below else 0

    def _forget(self, host_ids: Iterable[str]) -> None:
        for host_id in host_ids:
            if host_id in self.moving:
                self.moving.remove(host_id)
                if self._stages.of(host_id).by == HOST_POOL:
                    self._strays[host_id] = None

    # What is decided.

    def next_ms(self) -> int | None:
        """When a load is looked at; an operator's ask is due at once."""
        times = [row.at_ms for row in islice(self.asks.values(), 1)]
        return min([*times, *(row.next_ms for row in self.loads.values())], default=None)

    def decide(self, now: int) -> list[Event]:
        """One answer, the hosts that are empty, or one move by a policy; to be asked only when caught up."""
        for offset, ask in islice(self.asks.items(), 1):
            return [*self._answer(ask, offset, now)]
        if self._strays:
            back = {host_id: self._stages.of(host_id).taken_back() for host_id in sorted(self._strays)}
            return [changed(back, Code.RESUMED)]
        return [*self._arrived()] or [*self._by_policy(now)]

    def _arrived(self) -> Iterator[Event]:
        """Hosts that are empty are put into their host pools, and taken back."""
        of_move: dict[tuple[str, CauseRow | None], list[str]] = {}
        for host_id, row in self.moving.items():
            if self._stages.is_drained(host_id):
                of_move.setdefault((row.target, row.cause), []).append(host_id)
        for (target, cause), host_ids in of_move.items():
            back = {host_id: self._stages.of(host_id).taken_back() for host_id in host_ids}
            yield HostsPooled(host_ids=tuple(host_ids), host_pool=target, code=Code.MOVED, cause=recorded(cause))
            yield changed(back, Code.MOVED, cause=recorded(cause))

    def _by_policy(self, now: int) -> Iterator[Event]:
        """The first move that a policy asks for."""
        moving = {pair for row in self.moving.values() for pair in ((row.source, row.target), (row.target, row.source))}
        for pair, row in sorted(self.loads.items()):
            policy, name, other = self._policy(pair), *pair
            if pair in moving or not self._pools.is_known(other):
                continue
            for code, since_ms, source, target, bound in (
                (Code.LOAD_ABOVE, row.above_ms, other, name, policy.above),
                (Code.LOAD_BELOW, row.below_ms, name, other, policy.below),
            ):
                if not since_ms or now - since_ms < policy.lasts_ms:
                    continue
                hosts, candidates = self._first(source, now)
                hosts = hosts[: min(policy.hosts, len(self._in(source)) - policy.keep)]
                if hosts and (code == Code.LOAD_ABOVE or self._bears(name, hosts, policy)):
                    started = self._started(source, target, hosts, candidates, now, code, recorded(row.cause))
                    yield replace(started, load=row.load, waiting=row.waiting, bound=bound, since_ms=since_ms)
                    yield self._drained(hosts, target, BY_POLICY, now, code, recorded(row.cause))
                    return

    def _bears(self, name: str, hosts: list[int], policy: HostPoolPolicy) -> bool:
        """Whether the load of a host pool stays within the upper bound without some hosts."""
        return self._load(name, hosts)[0] <= policy.above

    def _answer(self, ask: MoveAskRow, offset: int, now: int) -> Iterator[Event]:
        """Decides what follows from a request, and the answer to it."""
        cause = host_fact(offset)
        hosts, candidates = self._first(ask.source, now)
        if ask.host_ids:
            table = self._hosts.table
            free = set(hosts)
            hosts = [table[host_id].number for host_id in ask.host_ids if host_id in table]
            hosts = [number for number in hosts if number in free or self._is_free(number, ask.source)]
        hosts = hosts[: ask.hosts or len(ask.host_ids)]
        code, message, refused = self._judge(ask, hosts, candidates)
        if code == Code.DONE:
            yield self._started(ask.source, ask.target, hosts, candidates, now, Code.ASKED, cause)
            yield self._drained(hosts, ask.target, ask.plan, ask.at_ms, Code.ASKED, cause)
        yield HostsAnswered(
            hosts_offset=offset,
            command_id=ask.command_id,
            code=code,
            message=message,
            host_ids=tuple(self._hosts.ids[number] for number in hosts) if code == Code.DONE else refused,
            codes=(Code.WRONG_STATE,) * len(refused),
        )

    def _judge(self, ask: MoveAskRow, hosts: list[int], candidates: int) -> tuple[Code, str, tuple[str, ...]]:
        """Whether a request is followed; else why not, and the hosts that can't move."""
        if fault := self._fault(ask):
            return Code.INVALID_SPEC, fault, ()
        if ask.escalate == "force" and not self._settings.now.drain_force:
            return Code.FORCE_NOT_ALLOWED, NO_FORCE, ()
        for name in (ask.source, ask.target):
            if not self._pools.is_known(name):
                return Code.NOT_FOUND, f"There is no host pool {name[:80]}: define it first.", ()
        names = {self._hosts.ids[number] for number in hosts}
        if refused := tuple(host_id for host_id in ask.host_ids if host_id not in names):
            text = f"not in {ask.source}, or aren't up, or drain already"
            return Code.TOO_FEW_HOSTS, f"These hosts are {text}: {listed(refused, NAMED)}; none was moved.", refused
        if len(hosts) < ask.hosts:
            have = plural(candidates, "host")
            text = f"of {have} that are up in {ask.source} {len(hosts)} have nothing that must stay"
            return Code.TOO_FEW_HOSTS, f"{plural(ask.hosts, 'host')} asked, {text}; none was moved.", ()
        return Code.DONE, "", ()

    def _fault(self, ask: MoveAskRow) -> str:
        """Why a request is none; empty: it is one."""
        if ask.batch not in BATCH or ask.escalate not in ESCALATE:
            return f"`batch` must be one of {', '.join(BATCH)}, `escalate` {', '.join(ESCALATE)}."
        if min(ask.hosts, ask.deadline_ms, ask.force_after_ms) < 0 or not (ask.hosts or ask.host_ids):
            return "Times and numbers of hosts must be 0 or more, and some host must be asked for."
        return f"The hosts of {ask.source} are in it already." if ask.source == ask.target else ""

    def _started(
        self, source: str, target: str, hosts: list[int], candidates: int, now: int, code: Code, cause: Cause | None
    ) -> HostPoolMoveStarted:
        scores = batch_scores(self._runs, self._hosts, now)[:, hosts]
        return HostPoolMoveStarted.pack(
            source=source,
            target=target,
            host_ids=tuple(self._hosts.ids[number] for number in hosts),
            code=code,
            candidates=candidates,
            controllers=scores[CONTROLLERS],
            tasks=scores[TASKS],
            priorities=scores[PRIORITIES],
            mean_s=scores[MEAN_S],
            cause=cause,
        )

    def _drained(
        self, hosts: list[int], target: str, plan: DrainPlan, at_ms: int, code: Code, cause: Cause | None
    ) -> HostMaintenanceChanged:
        goals: dict[str, Goal] = {}
        for number in hosts:
            host_id = self._hosts.ids[number]
            goals[host_id] = self._stages.of(host_id).drained(plan, at_ms)
        return changed(goals, code, by=HOST_POOL, source=target, cause=cause)

    def _first(self, source: str, now: int) -> tuple[list[int], int]:
        """The hosts of a host pool that may move, in their order, and how many there are beside those that stay."""
        numbers = [number for number in self._in(source) if self._is_free(number, source)]
        return first_to_move(self._hosts, numbers, batch_scores(self._runs, self._hosts, now)), len(numbers)

    def _is_free(self, number: int, source: str) -> bool:
        """Whether a host is up in a host pool, and nobody has it for maintenance."""
        host_id, hosts = self._hosts.ids[number], self._hosts
        if self._pools.of(host_id) != source or not hosts.are(TAKES)[number]:
            return False
        stage = self._stages.of(host_id)
        return stage.stage == Stage.UP and not stage.in_campaign and host_id not in self.moving

    def _in(self, name: str) -> list[int]:
        """The hosts of a host pool that count."""
        table = self._hosts.table
        return [row.number for host_id, row in table.items() if self._pools.of(host_id) == name and row.offered >= 0]

    def _load(self, name: str, without: Iterable[int] = ()) -> tuple[int, int]:
        """The part of what a host pool has that is allocated there or waits for it, of the kind of which that is most,
        and the part that waits, in percent; 100 of what it has none of.
        """
        hosts, out = self._hosts, {*without}
        numbers = self._in(name)
        rest = [number for number in numbers if number not in out]
        has, used = hosts.capacity[:-1, rest].sum(axis=1), hosts.used[:-1, numbers].sum(axis=1)
        waiting = np.array(hosts.kinds.asked_of_host(self.waiting.get(name) or {}), dtype=np.int64)
        waiting += self._unplaced(name)
        loads, waits = (
            np.where(has > 0, amount * 100 // np.maximum(has, 1), np.where(amount > 0, 100, 0))
            for amount in (used + waiting, waiting)
        )
        at = int(loads.argmax())
        return min(int(loads[at]), INT_MAX), min(int(waits[at]), INT_MAX)

    def _unplaced(self, name: str) -> I64:
        """The amount that is admitted, and waits for a place of which a host pool is the first choice."""
        runs, amount = self._runs, np.zeros(len(self._hosts.kinds), dtype=np.int64)
        for rank, tasks in runs.waits.in_order():
            if self._pools.reach(runs.jobs[tasks.job_id])[:1] != (name,):
                continue
            slots = runs.waits.slots(rank, tasks)
            coming = slots[runs.arena["home"][slots] == 0]  # room is kept for the others
            shapes, counts = counted(runs.arena["shape"][coming])
            for shape, count in zip(shapes.tolist(), counts.tolist(), strict=True):
                amount += count * np.array(runs.shapes[shape].need, dtype=np.int64)
        return amount

    def _policy(self, pair: Pair) -> HostPoolPolicy:
        return next(each for each in self._pools.table[pair[0]].policies() if each.source == pair[1])
