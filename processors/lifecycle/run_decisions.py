"""Decisions about the tasks that need one: from columns to records, for all jobs at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from events.causes import NOTHING
from events.codes import Counts, Outcome, Overdue, RunCause, TaskState
from events.columns import I64, Names, indexed
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsOverdue,
    RunsStopping,
)
from events.records.parts import Cause, TaskShape
from processors.lifecycle.asks import UNIT, asked_now, units
from processors.lifecycle.causes import CODE_OF, OUTCOME_OF, EndCause, SlaVerdict
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.lookups import Mask, among, table
from processors.lifecycle.task_rules import DECISIONS, EndRules, RunEnds, Trait, decided, run_ends
from processors.lifecycle.task_table import LOST, STATES
from processors.state.arena import Arena
from processors.state.seconds import EPOCH_S, milliseconds, second


class RunLookup(NamedTuple):
    """Names for numbers in the columns: a job by its base, a host's id and session by its number, and by what
    runs there were lost; what instances leave a job for, by its base; by what stages of hosts tasks leave, and which of
    that each does, -1: by none; ports, devices and alternatives of tasks; what tasks ask from their next run on, and
    which of that each does, -1: as before; what ends depend on, and how long tasks wait that have failed so often; the
    time.
    """

    job_id: Callable[[int], str]
    host: Callable[[int], tuple[str, int]]
    lost_by: Callable[[int], Cause | None]
    leaving_by: Callable[[int], Cause | None]
    drained_by: Callable[[I64], tuple[list[Cause], I64]]
    has_ports: Callable[[str], bool]
    ports: Callable[[str, int], list[int] | None]
    devices: Callable[[Sequence[str], I64, I64], dict[str, Any]]
    new_shapes: Callable[[I64], tuple[tuple[TaskShape, ...], I64]]
    end_rules: EndRules
    backoff: Callable[[I64], I64]
    now: int = 0


_DRAINED = (RunCause.DRAIN, RunCause.EVICT)
Writer = Callable[[Arena, I64, RunLookup], list[Event]]
"""Writes the records of one decision about slots."""


class RunColumns(NamedTuple):
    """The columns that name runs."""

    job_ids: tuple[str, ...]
    job: I64
    instance: I64
    run: I64


def run_columns(arena: Arena, slots: I64, lookup: RunLookup) -> RunColumns:
    """Names the present runs of slots."""
    bases, job = indexed(arena["owner"][slots] - 1)
    names = tuple(map(lookup.job_id, bases.tolist()))
    return RunColumns(names, job, slots - bases[job], arena["run"][slots].astype(np.int64))


def run_decisions(arena: Arena, slots: I64, due: I64, lookup: RunLookup) -> list[Event]:
    """The decisions about slots that need attention, ascending; `due` are those whose back-off has just passed."""
    waits = arena["due"][slots] > 0
    if len(due):
        waits &= ~np.isin(slots, due)
    which = decided(arena, slots, waits)
    out: list[Event] = []
    for at, decision in enumerate(DECISIONS, start=1):
        about = slots[which == at]
        if len(about):
            out += _RECORDS[decision](arena, about, lookup)
    return out


def _ended(arena: Arena, slots: I64, lookup: RunLookup) -> list[Event]:
    ends = run_ends(arena, slots, lookup.end_rules, lookup.now)
    waits = (arena["traits"][slots] & Trait.STATELESS != 0) & (ends.counts_as == Counts.TASK)
    waits |= (ends.counts_as == Counts.HOST) & (ends.why != RunCause.CANNOT_START)  # it goes elsewhere at once
    ended = RunsEnded.pack(
        **run_columns(arena, slots, lookup)._asdict(),
        outcome=ends.outcome,
        exit_code=ends.exit_code,
        kept=ends.keeps,
        why=ends.why,
        next=ends.next,
        counts_as=ends.counts_as,
        failures=ends.failures,
        wait_ms=np.where(waits & (ends.next == TaskState.BACKOFF), lookup.backoff(ends.failures), 0),
        hold=_goes_home(arena, slots, ends),
        **_carried_causes(arena, slots, ends.why, lookup),
    )
    withdrawn = slots[among(arena["verdict"][slots], (SlaVerdict.ASKED, SlaVerdict.DEFERRED))]
    return [ended, *(_named(DisruptionWithdrawn)(arena, withdrawn, lookup) if len(withdrawn) else ())]


def _goes_home(arena: Arena, slots: I64, ends: RunEnds) -> I64:
    """True where the host is kept for the next run: of runs that an update ends, or that are bound to it and keep their
    admission, unless the host is lost. A gang is placed whole.
    """
    home = (ends.why == CODE_OF[EndCause.UPDATE]) | ((arena["pin"][slots] > 0) & (ends.keeps > 0))
    home &= (ends.next == TaskState.BACKOFF) & ~among(ends.outcome, (Outcome.LOST, Outcome.RELOCATED))
    home &= (arena["traits"][slots] & Trait.GANG == 0) & (arena["host"][slots] > 0)
    return np.where(home, 1, 0)


def _carried_causes(arena: Arena, slots: I64, why: I64, lookup: RunLookup) -> dict[str, Any]:
    """The causes that no record that names the run tells: what became of the host of a lost run, and what instances
    leave their job for, where nothing had to be stopped first.
    """
    lost = arena["report"][slots] == LOST
    unstopped = (arena["state"][slots] != TaskState.STOPPING) & ~lost
    leaves = (why == CODE_OF[EndCause.REMOVE]) & unstopped
    drained = among(why, _DRAINED) & unstopped
    if not np.count_nonzero(lost | leaves | drained):
        return {}
    which = np.full(len(slots), -1)
    causes: list[Cause] = []
    sources = ((lost, arena["host"][slots], lookup.lost_by), (leaves, arena["owner"][slots] - 1, lookup.leaving_by))
    for of, numbers, cause_of in sources:
        if of.any():
            names, index = indexed(numbers[of])
            which[of] = index + len(causes)
            causes += [cause_of(number) or NOTHING for number in names.tolist()]
    if drained.any():
        stages, index = lookup.drained_by(slots[drained])
        which[drained] = np.where(index >= 0, index + len(causes), -1)
        causes += stages
    return {"causes": tuple(causes), "cause": which}


def _asked(arena: Arena, slots: I64, lookup: RunLookup) -> list[Event]:
    causes, pin, since = (arena[column][slots] for column in ("causes", "pin", "since"))
    now = asked_now(causes, arena["traits"][slots] & Trait.GANG != 0, pin)
    unit = units(now)
    numbers, index = indexed(unit[unit > 0])
    unit[unit > 0] = index + 1
    event = DisruptionAsked.pack(
        **run_columns(arena, slots, lookup)._asdict(),
        since=np.where(since > 0, since, second(lookup.now)).astype(np.int64) + EPOCH_S,
        why=now % UNIT,
        unit=unit,
        host_ids=tuple(lookup.host(number)[0] for number in numbers.tolist()),
        **_led_by(among(now % UNIT, _DRAINED), slots, lookup),
    )
    return [event]


def _led_by(drained: Mask, slots: I64, lookup: RunLookup) -> dict[str, Any]:
    """By what stages of hosts runs leave, as fields of a record."""
    if not drained.any():
        return {}
    causes, index = lookup.drained_by(slots[drained])
    led_by = np.full(len(slots), -1, dtype=np.int64)
    led_by[drained] = index
    return {"causes": tuple(causes), "led_by": led_by} if causes else {}


def _named(kind: type[DisruptionWithdrawn | RunsAvailable]) -> Writer:
    """Writes records that only name runs."""
    return lambda arena, slots, lookup: [kind.pack(**run_columns(arena, slots, lookup)._asdict())]


def queued(arena: Arena, slots: I64, lookup: RunLookup) -> list[Event]:
    """Gangs of one that are queued again, neighbours of one job, run, admission and host that they are bound to as one
    range; a controller is a range of its own.
    """
    columns = run_columns(arena, slots, lookup)
    admitted, pin = arena["admitted"][slots].astype(np.int64), arena["pin"][slots].astype(np.int64)
    shapes, shape = lookup.new_shapes(slots)
    controller = (arena["traits"][slots] & Trait.CONTROLLER).astype(np.int64)
    equal = (columns.job, columns.run, admitted, pin, controller, shape)
    first, count = stretches(columns.instance, *equal)
    gangs = GangsQueued.pack(
        job_ids=columns.job_ids,
        job=columns.job[first],
        first=columns.instance[first],
        count=count,
        run=columns.run[first],
        gang=np.zeros(len(first), dtype=np.int64),
        admitted=admitted[first],
        shapes=shapes,
        shape=shape[first],
        timed=bool((arena["traits"][slots] & Trait.STATELESS).any()),
        **_pins(pin[first], lookup),
    )
    return [gangs]


def _pins(pin: I64, lookup: RunLookup) -> dict[str, Any]:
    """The hosts that ranges are bound to, or kept from, as fields of a record."""
    if not pin.any():
        return {}
    numbers, index = indexed(np.abs(pin[pin != 0]))
    columns = {}
    for name, which in (("pin", pin > 0), ("avoid", pin < 0)):
        if which.any():
            column = np.full(len(pin), -1, dtype=np.int64)
            column[which] = index[which[pin != 0]]
            columns[name] = column
    return {"host_ids": tuple(lookup.host(number)[0] for number in numbers.tolist()), **columns}


def _hosts(arena: Arena, slots: I64, lookup: RunLookup) -> tuple[list[tuple[str, int]], I64]:
    numbers, index = indexed(arena["host"][slots])
    return [lookup.host(number) for number in numbers.tolist()], index


def _ordered(arena: Arena, slots: I64, lookup: RunLookup) -> list[Event]:
    """Hosts start runs one after another, as they are ordered: those of services come first."""
    if len(slots) > 1:
        slots = slots[np.argsort(arena["traits"][slots] & Trait.STATELESS == 0, kind="stable")]
    columns = run_columns(arena, slots, lookup)
    hosts, host = _hosts(arena, slots, lookup)
    ports: list[int] = []
    counts: list[int] = []
    asking = [lookup.has_ports(job_id) for job_id in columns.job_ids]
    if any(asking):
        for job, instance in zip(columns.job.tolist(), columns.instance.tolist(), strict=True):
            mine = (lookup.ports(columns.job_ids[job], instance) if asking[job] else None) or ()
            ports += mine
            counts.append(len(mine))
    ordered = RunsOrdered.pack(
        **columns._asdict(),
        host_ids=tuple(name for name, _ in hosts),
        host_session=[session for _, session in hosts],
        host=host,
        ports=ports,
        port_count=counts if ports else None,
        **lookup.devices(columns.job_ids, columns.job, columns.instance),
        version=arena["version"][slots],
    )
    return [ordered]


def _stopping(arena: Arena, slots: I64, lookup: RunLookup) -> list[Event]:
    hosts, host = _hosts(arena, slots, lookup)
    why = CODE_OF.take(arena["causes"][slots])
    unasked = among(arena["verdict"][slots], (SlaVerdict.NONE, SlaVerdict.ASKED, SlaVerdict.DEFERRED))
    stopping = RunsStopping.pack(
        **run_columns(arena, slots, lookup)._asdict(),
        host_ids=tuple(name for name, _ in hosts),
        host=host,
        cause=OUTCOME_OF.take(arena["causes"][slots]),
        why=why,
        kill=arena["state"][slots] == TaskState.STOPPING,
        **_led_by(among(why, _DRAINED) & unasked, slots, lookup),
    )
    return [stopping]


_RECORDS: dict[type[Event], Writer] = {
    RunsEnded: _ended,
    GangsQueued: queued,
    RunsOrdered: _ordered,
    RunsStopping: _stopping,
    DisruptionAsked: _asked,
    **{kind: _named(kind) for kind in (DisruptionWithdrawn, RunsAvailable)},
}


OVERDUE: Mapping[int, Overdue] = {
    TaskState.ORDERED: Overdue.START,
    TaskState.RUNNING: Overdue.RUN_LIMIT,
    TaskState.STOPPING: Overdue.STOP,
}
"""The meaning of a deadline, by the state."""
_WHAT = table(OVERDUE.get(state, 0) for state in range(STATES))


def deadline_of(state: Any) -> I64:
    """The meaning of the deadlines of runs in these states; 0: they have none."""
    kinds: I64 = _WHAT.take(state)
    return kinds


def overdue(arena: Arena, slots: I64, lookup: RunLookup) -> RunsOverdue:
    """That runs have taken longer than they may; it is by the first of their deadlines."""
    what, due_ms = deadline_of(arena["state"][slots]), milliseconds(int(arena["due"][slots].min()))
    return RunsOverdue.pack(**run_columns(arena, slots, lookup)._asdict(), what=what, cause=Cause(due_ms=due_ms))


def orphans(runs: list[tuple[str, int, int]], host_id: str) -> RunsStopping:
    """Runs that a host has and nobody wants."""
    names = Names()
    job = [names[job_id] for job_id, _, _ in runs]
    return RunsStopping.pack(
        job_ids=names.all(),
        job=job,
        instance=[instance for _, instance, _ in runs],
        run=[run for _, _, run in runs],
        host_ids=(host_id,),
        host=[0] * len(runs),
        cause=[Outcome.STOPPED] * len(runs),
    )
