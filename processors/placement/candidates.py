"""The hosts among which a task was placed, in the order in which they come for it, and the terms of their scores: for
those who ask why it went where it is. Decides nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64
from events.strategies import BALANCED, LOAD_AWARE, STRATEGIES
from processors.placement.assignment import Assignment
from processors.placement.cluster_view import ClusterView, ShapeView
from processors.placement.gang_search import ranked
from processors.placement.hosts import Hosts
from processors.placement.neighbours import FREE, Neighbours, Put, Seen, are_ruled
from processors.placement.packing import RANK_SHIFT, feasible
from processors.placement.room.kept import kept_room
from processors.placement.runs import Runs
from processors.placement.sharing import Sharing
from processors.state.budget import Budget

PREFERENCES = "preferences"
"""The term of hosts that a job would rather not have."""
AFFINITY = "affinity"
"""And of those that have less of the tasks beside which it would rather be, or more of the others."""
TERMS = {BALANCED: "unevenness", LOAD_AWARE: "load"}
"""The first term of strategies whose score isn't what is free."""
FREE_TERM = "free"
"""Their second."""


class Candidate(NamedTuple):
    """A host that has room for the task. `terms` add up to `score`, the amount that is free in `packing.SCORE` of the
    largest host; `tasks` of its job are there. `own_room`: its room is kept for this task.
    """

    host_id: str
    score: int
    terms: Mapping[str, int]
    free: Mapping[str, int]
    tasks: int
    own_room: bool


class Candidates(NamedTuple):
    """The best hosts for a task, the first of `feasible` ones among `hosts` that the cell has."""

    strategy: str
    hosts: int
    feasible: int
    best: list[Candidate]


class PlacedTask(NamedTuple):
    """A task that was placed before, in the same decision."""

    job_id: str
    instance: int
    host_id: str


def candidates(
    runs: Runs, hosts: Hosts, sharing: Sharing, task: tuple[str, int], before: Sequence[PlacedTask], most: int
) -> Candidates:
    """The best hosts for a task that waits, named by job and instance, once those `before` it have been placed; at
    most `most`, and each whose room is kept for it.
    """
    job_id, instance = task
    room = kept_room(hosts, sharing.holds())
    view = Assignment(runs, hosts, room, Budget(0), lambda slot: False).view
    placed: dict[str, list[Put]] = {}
    for each in before:
        number = np.array([hosts.table[each.host_id].number])
        other = _shape(view, runs, each.job_id, each.instance)
        view.put(other, number)
        placed.setdefault(each.job_id, []).append(Put(other.number, number))
        if other.exclusive:
            view.claim(number)
    row = runs.jobs[job_id]
    slot, pin = row.base + instance, 0
    if row.bound:
        pin = int(runs.arena["pin"][slot])
    shape = _shape(view, runs, job_id, instance, pin - 1 if pin > 0 else None)
    own = room.own.get(slot)
    own_hosts: set[int] = {*own.hosts.tolist()} if own is not None else set()
    if home := int(runs.arena["home"][slot]):
        own_hosts.add(home - 1)
    seen, open_ = Seen(runs, hosts, placed), shape.open
    ranks = {} if shape.order is None else {PREFERENCES: shape.order}
    if are_ruled(seen, row):
        rules = Neighbours(seen, job_id, row).of(shape.rules, shape.unmet, shape.column)
        open_ = open_ & (rules.why() == FREE)
        if rules.wishes:
            ranks[AFFINITY] = rules.unmet() << RANK_SHIFT
    places = feasible(view.free, shape.need, open_)
    level: I64 = np.bincount(seen.hosts_of(job_id, row), minlength=len(hosts.ids))
    order_by = np.sum([*ranks.values()], axis=0) if ranks else None
    score = ranked(view.score, order_by, shape.spread)[places]
    if shape.scoring is not None:
        score = shape.scoring.ordered(order_by, view.free[:, places], places)
    order = np.lexsort((places, -score, level[places]) if shape.spread else (places, score))
    numbers = [*sorted(own_hosts), *(number for number in places[order].tolist() if number not in own_hosts)]
    first_numbers = numbers[: most + len(own_hosts)]
    best = [_candidate(view, shape, number, int(level[number]), number in own_hosts, ranks) for number in first_numbers]
    return Candidates(STRATEGIES[shape.strategy], len(hosts.table), len({*places.tolist(), *own_hosts}), best)


def _shape(view: ClusterView, runs: Runs, job_id: str, instance: int, host: int | None = None) -> ShapeView:
    row = runs.jobs[job_id]
    return view.shape(int(runs.arena["shape"][row.base + instance]), row.strategy, host)


def _candidate(
    view: ClusterView, shape: ShapeView, number: int, tasks: int, own_room: bool, ranks: Mapping[str, I64]
) -> Candidate:
    names, free = view.hosts.kinds.names, view.free[:-1, number].tolist()
    terms = {
        name: (amount >> shift) * weight
        for name, amount, weight, shift in zip(names, free, *view.scales.plain, strict=True)
        if amount > 0 and weight
    }
    if shape.scoring is not None:
        first, then = shape.scoring.terms(view.free[:, number : number + 1], np.array([number]))
        terms = {TERMS[shape.strategy]: int(first[0]), FREE_TERM: int(then[0])}
    for name, rank in ranks.items():
        if preferred := int(rank[number]):
            terms[name] = -preferred if shape.spread else preferred
    amounts = {name: amount for name, amount in zip(names, free, strict=True) if amount}
    return Candidate(view.hosts.ids[number], sum(terms.values()), terms, amounts, tasks, own_room)
