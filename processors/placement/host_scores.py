"""The scores by which hosts are chosen that go to another host pool: those whose work is least worth leave first.

The batch host score of Peloton's resource manager: hosts without tasks come first; hosts with tasks that aren't
preemptible, or are bound to them, stay; the others by the number of controllers, of tasks, the sum of priorities, each
as a part of the highest in its pool, and the mean time for which tasks run, all ascending.
"""

from collections.abc import Iterable

import numpy as np

from events.columns import I64
from processors.placement.hosts import Hosts
from processors.placement.runs import AT_ONCE, Runs
from processors.state.seconds import elapsed

STAY, CONTROLLERS, TASKS, PRIORITIES, MEAN_S = range(5)
"""The rows of a score. STAY: tasks for which the host isn't moved; tasks of daemons don't count."""


def batch_scores(runs: Runs, hosts: Hosts, now: int) -> I64:
    """[5, hosts]: the score of each host by its number."""
    scores = np.zeros((5, len(hosts.ids)), dtype=np.int64)
    highest: dict[str, int] = {}
    groups: list[tuple[str, I64, I64]] = []
    arena, now_s = runs.arena, elapsed(now)
    slots = np.flatnonzero(arena["placed"])
    for start in range(0, len(slots), AT_ONCE):
        part = slots[start : start + AT_ONCE]
        groups += [(job_id, some, arena["host"][some].astype(np.int64) - 1) for job_id, some in runs.waits.by_job(part)]
    for job_id, _, _ in groups:
        row = runs.jobs[job_id]
        highest[row.pool] = max(highest.get(row.pool, 1), row.priority)
    top = max(highest.values(), default=1)
    for job_id, some, host in groups:
        row = runs.jobs[job_id]
        if row.daemon:
            continue
        np.add.at(scores[TASKS], host, 1)
        np.add.at(scores[PRIORITIES], host, row.priority * top // highest[row.pool])
        if row.controller:
            np.add.at(scores[CONTROLLERS], host[some == row.base], 1)
        if row.stays or row.bound or not row.preemptible:
            np.add.at(scores[STAY], host, 1)
        since = arena["available_s"][some].astype(np.int64)
        np.add.at(scores[MEAN_S], host, np.where(since > 0, np.maximum(now_s - since, 0), 0))
    scores[MEAN_S] //= np.maximum(scores[TASKS], 1)
    return scores


def first_to_move(hosts: Hosts, numbers: Iterable[int], scores: I64) -> list[int]:
    """The hosts that may move, the first by score first; those alike by their names."""
    some = sorted((number for number in numbers if not scores[STAY, number]), key=lambda number: hosts.ids[number])
    order: list[int] = np.lexsort(scores[:STAY:-1, some]).tolist()
    return [some[at] for at in order]
