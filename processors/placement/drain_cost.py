"""The cost of draining a host, by what runs there: operators who want some hosts of many, and campaigns, take the
cheapest first.
"""

from collections.abc import Iterable

import numpy as np

from events.columns import I64
from processors.placement.hosts import Hosts
from processors.placement.runs import AT_ONCE, Runs
from processors.state.seconds import elapsed

FIRM, BOUND, GANGS, SERVICES, LOST_S = range(5)
"""The rows of a cost, the heaviest first: batch tasks that aren't preemptible and end by themselves; tasks that stay on
their hosts; members of gangs, which leave whole; tasks of services, each of which has a budget; seconds of work that
preemptible batch tasks would do again. Pools aren't compared, so priorities don't count.
"""


def drain_costs(runs: Runs, hosts: Hosts, now: int) -> I64:
    """[5, hosts]: the cost of each host by its number."""
    costs = np.zeros((5, len(hosts.ids)), dtype=np.int64)
    arena, now_s = runs.arena, elapsed(now)
    slots = np.flatnonzero(arena["placed"])
    for start in range(0, len(slots), AT_ONCE):
        part = slots[start : start + AT_ONCE]
        for job_id, some in runs.waits.by_job(part):
            row, host = runs.jobs[job_id], arena["host"][some].astype(np.int64) - 1
            gang = some - row.base
            in_gang = (gang >= row.gang_first) & (gang < row.gang_first + row.gang)
            np.add.at(costs[GANGS], host[in_gang], 1)
            if row.service:
                np.add.at(costs[BOUND if row.stays or row.bound else SERVICES], host, 1)
            elif not row.preemptible:
                np.add.at(costs[FIRM], host, 1)
            else:
                since = arena["available_s"][some].astype(np.int64)
                np.add.at(costs[LOST_S], host, np.where(since > 0, np.maximum(now_s - since, 0), 0))
    return costs


def cheapest(hosts: Hosts, numbers: Iterable[int], costs: I64) -> list[int]:
    """Some hosts by what they cost, the cheapest first; those that cost the same by their names."""
    some = sorted(numbers, key=lambda number: hosts.ids[number])
    order: list[int] = np.lexsort(costs[::-1, some]).tolist()
    return [some[at] for at in order]
