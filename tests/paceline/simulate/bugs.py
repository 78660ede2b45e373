"""Bugs that are planted to see that trials find them: each a change to the machines, the driver or the protocol."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

import processors.entitlement.admission.admit as admission
import processors.entitlement.bounds as bounds
import processors.lifecycle.host_reports as host_reports
import processors.lifecycle.task_rules as task_rules
from events.acceptance import CLAIM, Acceptance, Chain, RoundKey, parse
from events.codec import decode
from events.codes import ENDED_TASKS, RunReport
from events.columns import I64
from events.log.port import LogRecord, NewRecord
from events.records.base import Event
from events.records.lifecycle import JobAccepted, RunsOrdered
from events.records.rounds import RoundCommitted
from events.resources import Vector, scale
from events.rounds import key_of
from hostagent.gateway.desired_runs import DesiredRuns, HostOrders
from hostagent.messages import OrderKind
from processors.entitlement.queues.usage import Usages
from processors.lifecycle.gangs import Gangs
from processors.lifecycle.host_reports import Hosts as LifecycleHosts
from processors.lifecycle.host_reports import Reported
from processors.lifecycle.machine import Lifecycle
from processors.lifecycle.preemption_orders import PreemptionOrders
from processors.lifecycle.task_table import Rule
from processors.placement.assignment import Assignment
from processors.placement.cluster_view import ClusterView
from processors.placement.hosts import Hosts
from processors.placement.machine import Placement
from processors.placement.runs import Runs
from processors.placement.shape_view import ShapeView
from processors.runtime.driver import Driver
from processors.runtime.fold import Fold, Recorded

Plant = Callable[[pytest.MonkeyPatch], None]


def decide_by(patch: pytest.MonkeyPatch, rules: tuple[Rule, ...]) -> None:
    """Lifecycle decides of tasks by these rules, be they few or many."""
    patch.setattr(task_rules, "RULES", rules)
    patch.setattr(task_rules, "_DECIDED", task_rules._decided())
    patch.setattr(task_rules, "_DECISION_OF", task_rules._DECIDED.tolist())


def no_read_back(patch: pytest.MonkeyPatch) -> None:
    """A driver believes its round as soon as it is sent."""

    def read_back(self: Driver, offset: int) -> None:
        record = next(found for found in self._log.scan(self.fold.topic, offset) if found.offset == offset)
        key, event = key_of(record), decode(record.value)
        assert key is not None
        assert isinstance(event, RoundCommitted)
        self.fold.own.follow(key, event, offset + 1)

    patch.setattr(Driver, "_read_back", read_back)
    patch.setattr(Driver, "_judge", lambda self, record, own_offset: False)


def no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """Rounds of an epoch that is over count, as long as their number is the next."""

    def judge(self: Chain, key: RoundKey, machine: str, cell: int) -> Acceptance:
        if key.kind == CLAIM:
            return Acceptance.ACCEPTED
        return Acceptance.ACCEPTED if key.round == self.round + 1 else Acceptance.REPEATED

    patch.setattr(Chain, "judge", judge)


def checkpoint_before_append(patch: pytest.MonkeyPatch) -> None:
    """The store has a round that the log may never get."""
    append = Driver._append

    def first_stored(self: Driver, record: NewRecord) -> int:
        key, event = parse(record.key), decode(record.value)
        if key is not None and isinstance(event, RoundCommitted):
            own, before = self.fold.own, deepcopy(self.fold.own)
            own.follow(key, event, own.position + 1)
            self._store.commit(self.fold.state.take_changes(), self.fold.progress())
            for name in own.__struct_fields__:
                setattr(own, name, getattr(before, name))
        return append(self, record)

    patch.setattr(Driver, "_append", first_stored)


def partial_gang(patch: pytest.MonkeyPatch) -> None:
    """A gang that doesn't fit keeps the places that were found."""
    put = Assignment._put

    def some(self: ClusterView, parts: Sequence[tuple[ShapeView, int]], level: I64 | None) -> list[I64] | None:
        found = [self.each(shape, size, level) for shape, size in parts]
        return found if any(map(len, found)) else None

    def put_some(self: Assignment, job_id: str, slots: I64, hosts: I64, *shape: Any, **feasible: Any) -> None:
        put(self, job_id, slots[: len(hosts)], hosts, *shape, **feasible)

    patch.setattr(ClusterView, "gang", some)
    patch.setattr(Assignment, "_put", put_some)


def limit_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """A pool takes one task more than fits."""
    patch.setattr(admission, "fits", lambda need, free, fits=admission.fits: fits(need, free) + 1)


def asked_twice(patch: pytest.MonkeyPatch) -> None:
    """Room within a limit is looked for as if a unit asked for twice as much."""
    room = bounds.Limit.room

    def half(self: bounds.Limit, *unit: Any) -> Vector | None:
        left = room(self, *unit)
        return None if left is None else tuple([have // 2 for have in left])

    patch.setattr(bounds.Limit, "room", half)


def old_reports_count(patch: pytest.MonkeyPatch) -> None:
    """A report of a run that is over is taken for one of the present run."""
    note = LifecycleHosts._note

    def of_any_run(self: LifecycleHosts, reports: Reported) -> I64:
        return note(self, reports._replace(run=self._tasks.arena["run"][reports.slots]))

    patch.setattr(LifecycleHosts, "_note", of_any_run)


def reports_count_twice(patch: pytest.MonkeyPatch) -> None:
    """A report that comes once more ends its run once more, in whatever state the task is."""
    patch.setattr(host_reports, "among", lambda states, which: np.ones(len(states), bool))
    patch.setattr(host_reports, "noted", lambda happening, note, states: np.ones(len(states), bool))
    end, *others = task_rules.RULES
    decide_by(patch, (end._replace(states=(*end.states, *ENDED_TASKS)), *others))


def order_of_a_set(patch: pytest.MonkeyPatch) -> None:
    """Decisions come in the order of a set, which is that of addresses in memory."""
    decide = Placement.decide

    class Held:
        def __init__(self, event: Event) -> None:
            self.event = event

    def shuffled(self: Placement, now: int, caught_up: bool, budget: int) -> list[Event]:
        return [held.event for held in {Held(event) for event in decide(self, now, caught_up, budget)}]

    patch.setattr(Placement, "decide", shuffled)


def wall_clock(patch: pytest.MonkeyPatch) -> None:
    """A machine looks at the clock of the computer."""
    decide = Lifecycle.decide

    def hurried(self: Lifecycle, now: int, caught_up: bool, budget: int) -> list[Event]:
        return decide(self, now, caught_up, 1 + time.perf_counter_ns() // 1000 % 50)

    patch.setattr(Lifecycle, "decide", hurried)


def released_twice(patch: pytest.MonkeyPatch) -> None:
    """What a run held is given back twice."""
    _given_back(patch, 2)


def never_released(patch: pytest.MonkeyPatch) -> None:
    """What a run held is never given back."""
    _given_back(patch, 0)


def _given_back(patch: pytest.MonkeyPatch, times: int) -> None:
    usages_add = Usages.add

    def counted(self: Usages, pool: str, sums: Mapping[str, Vector]) -> None:
        amount = sums.get("allocation", self.nothing)
        if min(amount, default=0) < 0:
            sums = {**sums, "allocation": scale(amount, times)}
        usages_add(self, pool, sums)

    patch.setattr(Usages, "add", counted)


def disk_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Disk that runs hold of a host isn't counted."""
    hold = Hosts.hold

    def some(self: Hosts, host: I64, needs: I64, sign: int = 1) -> None:
        counted = needs.copy()
        counted[2] = 0
        hold(self, host, counted, sign)

    patch.setattr(Hosts, "hold", some)


def ports_twice(patch: pytest.MonkeyPatch) -> None:
    """A port that is taken is given out again."""

    def all_ports(self: Assignment, number: int, fixed: set[int]) -> Iterator[int]:
        row = self._hosts.table[self._hosts.ids[number]]
        return iter(range(row.port_first, row.port_last + 1))

    patch.setattr(Assignment, "_free_ports", all_ports)


def inputs_sorted_at_replay(patch: pytest.MonkeyPatch) -> None:
    """Replay applies the inputs of a round topic by topic."""
    inputs = Recorded._inputs

    def resorted(self: Recorded, record: RoundCommitted) -> list[LogRecord]:
        return sorted(inputs(self, record), key=lambda found: (found.topic, found.offset))

    patch.setattr(Recorded, "_inputs", resorted)


def silent_hosts_used(patch: pytest.MonkeyPatch) -> None:
    """Placement takes no notice of hosts that fall silent."""
    patch.setattr(Hosts, "silent", lambda self, event, now: None)


def constraints_ignored(patch: pytest.MonkeyPatch) -> None:
    """Any host will do."""
    accepted = Runs.accepted

    def without(self: Runs, event: JobAccepted, now: int) -> None:
        accepted(self, replace(event, shapes=tuple(replace(each, constraints=()) for each in event.shapes)), now)

    patch.setattr(Runs, "accepted", without)


def columns_out_of_step(patch: pytest.MonkeyPatch) -> None:
    """The gateway sends the orders of a round to one another's hosts."""
    ordered = DesiredRuns._ordered

    def rolled(self: DesiredRuns, event: RunsOrdered) -> HostOrders | None:
        piece = ordered(self, event)
        return piece and piece._replace(host=np.roll(piece.host, 1))

    patch.setattr(DesiredRuns, "_ordered", rolled)


def inputs_hashed_without_time(patch: pytest.MonkeyPatch) -> None:
    """The hash over inputs leaves out when they were appended, for who decides and who replays alike."""
    note = Fold.note
    patch.setattr(Fold, "note", lambda self, record: note(self, record._replace(at_ms=0)))


def stops_what_is_wanted(patch: pytest.MonkeyPatch) -> None:
    """The gateway leaves out what shall run when it tells a host that comes back all that is wanted there."""
    all_orders = DesiredRuns.all_orders

    def only_stops(self: DesiredRuns, hosts: Sequence[int]) -> list[HostOrders]:
        return [piece for piece in all_orders(self, hosts) if (piece.kind == OrderKind.STOP).all()]

    patch.setattr(DesiredRuns, "all_orders", only_stops)


def ends_unheard(patch: pytest.MonkeyPatch) -> None:
    """Lifecycle takes no notice of runs that end by themselves."""
    note = LifecycleHosts._note

    def but_exits(self: LifecycleHosts, reports: Reported) -> I64:
        said = reports.state
        return note(self, reports._replace(state=np.where(said == RunReport.EXITED, 0, said)))

    patch.setattr(LifecycleHosts, "_note", but_exits)


def gang_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A member of a gang that fails leaves the others alone."""
    patch.setattr(Gangs, "count_failures", lambda self, *ends: None)


def order_unanswered(patch: pytest.MonkeyPatch) -> None:
    """An order to preempt isn't told of the end of its runs."""
    patch.setattr(PreemptionOrders, "ended", lambda self, slots: None)


def answered_too_early(patch: pytest.MonkeyPatch) -> None:
    """An order to preempt counts a run as over when it is told to stop."""
    patch.setattr(PreemptionOrders, "stopping", PreemptionOrders.ended)
    patch.setattr(PreemptionOrders, "ended", lambda self, slots: None)


class Planted(NamedTuple):
    """What a trial says when it finds a bug, in part; from which seed on it is looked for: those before don't find it,
    and would take long; and what users do in each.
    """

    says: str
    first: int = 0
    acts: int = 40


PLANTED: dict[Plant, Planted] = {
    no_read_back: Planted("doesn't continue what stands before it|live and replayed state of .* differ", 7),
    no_epoch_check: Planted("this process hasn't written it|which isn't queued", 11),
    checkpoint_before_append: Planted("ends at|is of another log", 1),
    partial_gang: Planted("places a part of a gang", 1),
    limit_off_by_one: Planted("aren't preemptible|its limit is"),
    asked_twice: Planted("it would fit within that", 10),
    old_reports_count: Planted("by itself, which no host has said", 107, 60),
    reports_count_twice: Planted("for the second time|none has come to its end", 11, 60),
    order_of_a_set: Planted("decided otherwise"),
    wall_clock: Planted("decided otherwise"),
    released_twice: Planted("aren't fair|^AssertionError: /"),  # a pool that holds less than one below it stops it
    never_released: Planted("nothing runs, and"),
    disk_not_counted: Planted("of 10000 disk"),
    ports_twice: Planted("has another holder"),
    inputs_sorted_at_replay: Planted("inputs in the log have another hash"),
    silent_hosts_used: Planted("which may take nothing"),
    constraints_ignored: Planted("which doesn't meet", 1),
    columns_out_of_step: Planted("which nobody has ordered"),
    inputs_hashed_without_time: Planted("says another hash"),
    ends_unheard: Planted("none has come to its end"),
    gang_goes_on: Planted("of a gang of which", 7),
    order_unanswered: Planted("have no answer"),
    answered_too_early: Planted("have left, and .* are not over"),
    stops_what_is_wanted: Planted("which nobody has told to|none has come to its end", 11),
}
