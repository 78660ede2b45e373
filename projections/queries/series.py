"""Time series of a cell for plots, read from the rows that the projector folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from events.codes import Code
from events.topics import ALL, MACHINES, rounds_of
from projections.queries.series_steps import POINTS, CellColumns, Times, Values, rows_in, times_of
from projections.views.host_series import HOSTS
from projections.views.series import CAPACITY
from projections.views.series_rows import CELL_PART
from projections.views.task_series import HELD as OF_HELD_JOBS
from projections.views.task_series import OLDEST, OPEN
from projections.views.waiting_series import HELD, UNPLACED


@dataclass(slots=True)
class MachineSeries:
    """Of one machine: rounds and decisions within each point, and the largest lag, see `CellSeries`."""

    rounds: list[int] = field(default_factory=list)
    decisions: list[int] = field(default_factory=list)
    lag_ms: Values = field(default_factory=list)


@dataclass(slots=True)
class CellSeries:
    """Of a cell. All lists have one value for each of `times`, which are milliseconds; a point is `step_ms` long.

    `tasks` by state: queued, ordered, running, stopping, backoff. `ended` within each point: succeeded, failed, killed.
    `waiting`: queued tasks by reason code, as the machine that says it knows them, and those in BACKOFF, which
    are HELD where their job is; of NOT_YET_EVALUATED nothing else was said.
    `hosts` by state: up, suspected, silent, lost, returning.
    `oldest_wait_ms`: how long the task waits that waits longest, 0 where none does. `lag_ms`: how much later than the
    newest record that its machine had read a round was written; None where it wrote none. `events`: records within
    each point by topic (paceline.jobs). `capacity` by resource, as amounts of records.
    """

    times: list[int]
    step_ms: int
    tasks: dict[str, Values]
    ended: dict[str, list[int]]
    waiting: dict[str, Values]
    oldest_wait_ms: Values
    hosts: dict[str, Values]
    machines: dict[str, MachineSeries]
    events: dict[str, list[int]]
    capacity: dict[str, Values]


def cell_series(connection: Connection, from_ms: int, to_ms: int, points: int = POINTS) -> CellSeries:
    """The series of the cell from one time to another, in about so many points."""
    times = times_of(connection, from_ms, to_ms, points)
    topics = {topic.name: CellColumns(rows_in(connection, topic.name, CELL_PART, times), times) for topic in ALL}
    lifecycle = topics[rounds_of("lifecycle")]
    return CellSeries(
        times=times.times,
        step_ms=times.step_ms,
        tasks={state.name.lower(): lifecycle.level(state.name.lower()) for state in OPEN},
        ended={name: lifecycle.count(name) for name in ("succeeded", "failed", "killed")},
        waiting=_waiting(topics),
        hosts=topics[rounds_of("placement")].levels(HOSTS),
        oldest_wait_ms=_waits(times, lifecycle.level(OLDEST)),
        machines={machine: _machine(topics[rounds_of(machine)]) for machine in MACHINES},
        capacity=topics[rounds_of("placement")].levels(CAPACITY),
        events={name: columns.count("records") for name, columns in topics.items()},
    )


def _machine(columns: CellColumns) -> MachineSeries:
    return MachineSeries(columns.count("rounds"), columns.count("decisions"), columns.peak("lag_ms"))


def _waits(times: Times, oldest: Values) -> Values:
    ends = (at + times.step_ms for at in times.times)
    return [
        None if since is None else max(0, end - since * 1000) if since else 0
        for end, since in zip(ends, oldest, strict=True)
    ]


def _waiting(topics: Mapping[str, CellColumns]) -> dict[str, Values]:
    """Waiting tasks by code: what machines said, and the rest of those that are queued."""
    lifecycle = topics[rounds_of("lifecycle")]
    said = topics[rounds_of("entitlement")].levels(HELD)
    for code, values in topics[rounds_of("placement")].levels(UNPLACED).items():
        said[code] = [_sum(pair) for pair in zip(said[code], values, strict=True)] if code in said else values
    rest = [
        None if queued is None else max(0, queued - sum(each or 0 for each in known))
        for queued, *known in zip(lifecycle.level("queued"), *said.values(), strict=True)
    ]
    held = lifecycle.level(OF_HELD_JOBS)
    backoff = [
        None if all_ is None else all_ - (some or 0)
        for all_, some in zip(lifecycle.level("backoff"), held, strict=True)
    ]
    return {**said, Code.NOT_YET_EVALUATED: rest, Code.BACKOFF: backoff, Code.HELD: held}


def _sum(known: Sequence[int | None]) -> int | None:
    return None if None in known else sum(each or 0 for each in known)
