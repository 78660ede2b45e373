"""Units for which room is held on hosts, as the rules of others about neighbours see them: as if they were there."""

from collections.abc import Iterator, Sequence

import numpy as np

from events.columns import I64, distinct, spread
from processors.placement.room.kept import OwnRooms
from processors.placement.runs import Runs
from processors.state.shapes import MIXED

Arrivals = dict[str, list[tuple[int, I64]]]
"""By job: the number of a shape, and the hosts on which tasks of that are to be."""


def arrivals_of(runs: Runs, rooms: OwnRooms) -> Arrivals:
    """The units of each job that have room; of a unit of several shapes each counts on all its hosts."""
    arrivals: Arrivals = {}
    owners = runs.arena["owner"][rooms.slots]
    counts = np.diff(rooms.starts)
    for owner in distinct(owners).tolist():
        units = np.flatnonzero(owners == owner)
        job_id = runs.waits.job_of(int(rooms.slots[units[0]]))
        hosts = rooms.hosts[spread(rooms.starts[units], counts[units])]
        row = runs.jobs[job_id]
        if row.gang and row.shape == MIXED:
            arrivals[job_id] = [(number, hosts) for number in row.shapes]
            continue
        shape = np.repeat(runs.arena["shape"][rooms.slots[units]], counts[units])
        arrivals[job_id] = [(number, hosts[shape == number]) for number in distinct(shape).tolist()]
    return arrivals


def arrival_hosts(arrivals: Arrivals, job_id: str, shapes: Sequence[int] | None = None) -> I64:
    """The hosts that are held for tasks of a job, or for those of some shapes."""
    hosts = (each for number, each in arrivals.get(job_id, ()) if shapes is None or number in shapes)
    return np.concatenate([np.zeros(0, dtype=np.int64), *hosts])


def arrive_alone(runs: Runs, arrivals: Arrivals) -> I64:
    """The hosts that are held for tasks that want one for themselves."""

    def hosts() -> Iterator[I64]:
        for parts in arrivals.values():
            for number, each in parts:
                rules = runs.shapes[number].rules
                if rules is not None and rules.exclusive:
                    yield each

    return distinct(np.concatenate([np.zeros(0, dtype=np.int64), *hosts()]))
