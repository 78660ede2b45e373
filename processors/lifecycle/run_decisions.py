"""What to do about the tasks that need it: from columns to decisions, for all jobs at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from events.bounds import RUN_MAX
from events.codes import Code, Outcome, RunReport, TaskState
from events.columns import I64, Names, indexed, pack_ints, pack_longs
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    PreemptionDeferred,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from processors.lifecycle.tasks import GANG_WAIT, LOST, PLACED, RETRIES_SHIFT, WAITING, Ask, Mask, Trait, among
from processors.state.arena import Arena

CAUSES = {
    Ask.PREEMPT: Outcome.PREEMPTED,
    Ask.ALLOWED: Outcome.PREEMPTED,
    Ask.GANG: Outcome.WITH_GANG,
    Ask.STOP: Outcome.STOPPED,
}


class Lookup(NamedTuple):
    """Names for numbers in the columns: a job by its base, a host's id and session by its number; ports of tasks."""

    job_id: Callable[[int], str]
    host: Callable[[int], tuple[str, int]]
    has_ports: Callable[[str], bool]
    ports: Callable[[str, int], list[int] | None]


class RunColumns(NamedTuple):
    """The columns that name runs."""

    job_ids: tuple[str, ...]
    job: I64
    instance: I64
    run: I64


def run_columns(arena: Arena, slots: I64, lookup: Lookup) -> RunColumns:
    """Names the present runs of slots."""
    bases, job = indexed(arena["owner"][slots] - 1)
    names = tuple(lookup.job_id(base) for base in bases.tolist())
    return RunColumns(names, job, slots - bases[job], arena["run"][slots].astype(np.int64))


def packed(columns: RunColumns) -> dict[str, Any]:
    """The columns as fields of a record."""
    fields: dict[str, Any] = {"job_ids": columns.job_ids}
    for name in ("job", "instance", "run"):
        fields[name] = pack_ints(getattr(columns, name))
    return fields


def verdicts(arena: Arena, slots: I64, lookup: Lookup) -> list[Event]:
    """The decisions about slots that need attention, ascending."""
    state, ask, report = arena["state"][slots], arena["ask"][slots], arena["report"][slots]
    over = report > RunReport.STARTED
    unwanted = among(ask, CAUSES) & ~over
    sla = (ask == Ask.PREEMPT) & (arena["traits"][slots] & Trait.SLA != 0)
    live = among(state, (TaskState.ORDERED, TaskState.RUNNING))
    ask_sla = unwanted & sla & live
    stopping = unwanted & live & ~ask_sla
    dropped = unwanted & (among(state, WAITING) | (state == GANG_WAIT))
    queued = (state == TaskState.BACKOFF) & ~dropped
    ordered = (state == PLACED) & ~over & ~dropped
    available = (report == RunReport.STARTED) & (state == TaskState.ORDERED) & ~stopping

    out: list[Event] = []
    if over.any() or dropped.any():
        out += _ends(arena, slots[over | dropped], lookup)
    if queued.any():
        out.append(_queued(arena, slots[queued], lookup))
    if ordered.any():
        out.append(_ordered(arena, slots[ordered], lookup))
    for mask, event in ((available, RunsAvailable), (ask_sla, DisruptionAsked)):
        if mask.any():
            out.append(event(**packed(run_columns(arena, slots[mask], lookup))))
    if stopping.any():
        out.append(_stopping(arena, slots[stopping], lookup))
    deferred = (ask == Ask.DEFERRED) & ~over
    if deferred.any():
        columns = packed(run_columns(arena, slots[deferred], lookup))
        out.append(PreemptionDeferred(**columns, code=Code.SLA_BUDGET_SPENT))
    return out


def outcomes(arena: Arena, slots: I64) -> tuple[I64, I64, I64]:
    """How the runs of slots end: outcome, exit code, and whether their admission is kept."""
    ask, report, cause = arena["ask"][slots], arena["report"][slots], arena["cause"][slots]
    exit_code = arena["exit"][slots].astype(np.int64)
    traits = arena["traits"][slots]
    outcome = np.zeros(len(slots), dtype=np.int64)
    for asked, meaning in CAUSES.items():
        outcome[ask == asked] = meaning
    stopped = report == RunReport.STOPPED
    outcome[stopped] = np.where(cause[stopped] > 0, cause[stopped], Outcome.STOPPED)
    outcome[among(report, (RunReport.SILENCED, LOST))] = Outcome.LOST
    exited = among(report, (RunReport.EXITED, RunReport.NOT_STARTED))
    fine = (report == RunReport.EXITED) & (exit_code == 0)
    outcome[exited] = np.where(fine[exited], Outcome.SUCCEEDED, Outcome.FAILED)
    exit_code[~exited] = -1

    stateless = traits & Trait.STATELESS != 0
    retry = (outcome == Outcome.FAILED) & (arena["failures"][slots] < (traits >> RETRIES_SHIFT))
    alone = traits & Trait.GANG == 0
    kept = exited & (arena["run"][slots] < RUN_MAX) & alone & (ask == Ask.NONE) & (cause == 0) & (stateless | retry)
    return outcome, exit_code, kept.astype(np.int64)


def _ends(arena: Arena, slots: I64, lookup: Lookup) -> list[Event]:
    outcome, exit_code, kept = outcomes(arena, slots)
    columns = packed(run_columns(arena, slots, lookup))
    ended = RunsEnded(**columns, outcome=pack_ints(outcome), exit_code=pack_ints(exit_code), kept=pack_ints(kept))
    asked = slots[among(arena["ask"][slots], (Ask.ASKED, Ask.DEFERRED, Ask.WAITING))]
    if not len(asked):
        return [ended]
    return [ended, DisruptionWithdrawn(**packed(run_columns(arena, asked, lookup)))]


def _queued(arena: Arena, slots: I64, lookup: Lookup) -> GangsQueued:
    """Gangs of one that are queued again, neighbours of one job, run and admission as one range."""
    columns = run_columns(arena, slots, lookup)
    admitted = arena["admitted"][slots].astype(np.int64)
    first, count = ranges(columns, admitted)
    return GangsQueued(
        job_ids=columns.job_ids,
        job=pack_ints(columns.job[first]),
        first=pack_ints(columns.instance[first]),
        count=pack_ints(count),
        run=pack_ints(columns.run[first]),
        gang=pack_ints(np.zeros(len(first), dtype=np.int64)),
        admitted=pack_ints(admitted[first]),
    )


def ranges(columns: RunColumns, *also: I64) -> tuple[I64, I64]:
    """Where stretches of neighbouring instances begin that are equal in all else, and how long they are."""
    breaks: Mask = np.ones(len(columns.job), dtype=np.bool_)
    breaks[1:] = np.diff(columns.instance) != 1
    for column in (columns.job, columns.run, *also):
        breaks[1:] |= np.diff(column) != 0
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(breaks)))


def _hosts(arena: Arena, slots: I64, lookup: Lookup) -> tuple[list[tuple[str, int]], I64]:
    numbers, index = indexed(arena["host"][slots])
    return [lookup.host(number) for number in numbers.tolist()], index


def _ordered(arena: Arena, slots: I64, lookup: Lookup) -> RunsOrdered:
    columns = run_columns(arena, slots, lookup)
    hosts, host = _hosts(arena, slots, lookup)
    ports: list[int] = []
    asking = [lookup.has_ports(job_id) for job_id in columns.job_ids]
    if any(asking):
        for job, instance in zip(columns.job.tolist(), columns.instance.tolist(), strict=True):
            if asking[job]:
                ports += lookup.ports(columns.job_ids[job], instance) or ()
    return RunsOrdered(
        **packed(columns),
        host_ids=tuple(name for name, _ in hosts),
        host_session=pack_longs([session for _, session in hosts]),
        host=pack_ints(host),
        ports=pack_ints(ports),
    )


def _stopping(arena: Arena, slots: I64, lookup: Lookup) -> RunsStopping:
    hosts, host = _hosts(arena, slots, lookup)
    ask = arena["ask"][slots]
    cause = np.zeros(len(slots), dtype=np.int64)
    for asked, meaning in CAUSES.items():
        cause[ask == asked] = meaning
    return RunsStopping(
        **packed(run_columns(arena, slots, lookup)),
        host_ids=tuple(name for name, _ in hosts),
        host=pack_ints(host),
        cause=pack_ints(cause),
    )


def orphans(runs: list[tuple[str, int, int]], host_id: str) -> RunsStopping:
    """Runs that a host has and nobody wants."""
    names = Names()
    job = [names[job_id] for job_id, _, _ in runs]
    return RunsStopping(
        job_ids=names.all(),
        job=pack_ints(job),
        instance=pack_ints([instance for _, instance, _ in runs]),
        run=pack_ints([run for _, _, run in runs]),
        host_ids=(host_id,),
        host=pack_ints([0] * len(runs)),
        cause=pack_ints([Outcome.STOPPED] * len(runs)),
    )
