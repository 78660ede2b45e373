"""The hosts among which a task was placed, in the order in which they come for it, and the terms of their scores: for
those who ask why it went where it is. Decides nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from events.abilities import IMAGE, IMAGE_WEIGHT, image_attribute
from events.columns import I64
from events.strategies import FRAGMENTATION, LOAD_AWARE, STRATEGIES
from events.topology import HOST
from processors.placement.assignment import Assignment
from processors.placement.cluster_view import ClusterView
from processors.placement.constraints import SPARED
from processors.placement.devices.columns import NONE
from processors.placement.engine.columns import LOAD_AT, UNEVEN_AT
from processors.placement.gang_search import ranked
from processors.placement.hosts import Hosts
from processors.placement.neighbours import FREE, Neighbours, Rules, Seen, are_ruled
from processors.placement.packing import RANK_SHIFT, feasible
from processors.placement.room.kept import kept_room
from processors.placement.runs import Runs
from processors.placement.shape_view import ShapeView
from processors.placement.sharing import Sharing
from processors.state.budget import Budget

UNEVENNESS, LOAD, ROOM, LOSS, PLACE = "unevenness", "load", "room", "loss", "place"
"""The terms of strategies whose score isn't what is free alone: ROOM is that. LOSS is what hosts with cards lose of
their worth, PLACE the cost of their place among those of a model.
"""
PARTS = {UNEVENNESS: 1024, LOAD: 1}
"""So many are one of a term, the others are in `packing.SCORE`; load is told in sixteenths."""


class Candidate(NamedTuple):
    """A host that has room for the task. `score`: that of its strategy, in `packing.SCORE` of the largest host, as it
    is recorded; of `adaptive` in that of a card, of `fragmentation` of 100 steps, and what is recorded is `pack`'s.
    `terms` are its parts. `tasks` of its job are there. `own_room`: its room is kept for this task.

    What goes before the score: `value_tasks` of its job are on hosts with its `value` of the attribute of `spread` (-1:
    it has no `spread`), `with_devices` that the task doesn't ask for, `unmet` is the sum of the weights of preferences
    that it doesn't meet, as they were written, and it may be without the image of the job.
    """

    host_id: str
    score: int
    terms: Mapping[str, int]
    free: Mapping[str, int]
    tasks: int
    own_room: bool
    value: str
    value_tasks: int
    with_devices: bool
    unmet: int
    without_image: bool


class Candidates(NamedTuple):
    """The best hosts for a task, the first of `feasible` ones among `hosts` that the cell has. `over`: the attribute of
    its `spread`; empty: it has none.
    """

    strategy: str
    hosts: int
    feasible: int
    over: str
    best: list[Candidate]


class PlacedTask(NamedTuple):
    """A task of a decision, and the alternative that it took; -1: it has only one request."""

    job_id: str
    instance: int
    host_id: str
    alternative: int


def candidates(
    runs: Runs, hosts: Hosts, sharing: Sharing, task: PlacedTask, before: Sequence[PlacedTask], most: int
) -> Candidates:
    """The best hosts for a task that waits, by the alternative that it takes, once those `before` it in the decision
    have been placed; at most `most`, and each whose room is kept for it.
    """
    job_id, instance = task.job_id, task.instance
    room = kept_room(hosts, sharing.holds())
    view = Assignment(runs, hosts, room, Budget(0), lambda slot: False).view
    seen = Seen(runs, hosts, view.arrivals, view.devices)
    for each in before:
        number = np.array([hosts.table[each.host_id].number])
        other = _shape(view, runs, each)
        if other.cards is not None:
            other.cards.best(number, view.free[0], view.free[1])  # notes the card that it takes
        view.put(other, number)
        if view.devices is not None and other.devices is not None:
            view.devices.in_turn(other.devices, number, np.ones(1, dtype=np.bool_))
        seen.put(each.job_id, other.number, number)
        if other.exclusive:
            view.claim(number)
    row = runs.jobs[job_id]
    slot, pin = row.base + instance, 0
    if row.bound:
        pin = int(runs.arena["pin"][slot])
    shape = _shape(view, runs, task, pin - 1 if pin > 0 else None)
    own = room.own.get(slot)
    is_for_it = own is not None and max(own.alternative, 0) == max(task.alternative, 0)
    own_hosts: set[int] = {*own.hosts.tolist()} if own is not None and is_for_it else set()
    if home := int(runs.arena["home"][slot]):
        own_hosts.add(home - 1)
    rules, open_ = None, shape.open
    if are_ruled(seen, row) or shape.devices is not None:
        rules = Neighbours(seen, job_id, row).of(shape.rules, shape.unmet, shape.column, shape.devices)
        open_ = open_ & (rules.why() == FREE)
    places = feasible(view.free, shape.need, open_)
    own_tasks: I64 = np.bincount(seen.hosts_of(job_id, row), minlength=len(hosts.ids))
    by_cards = shape.cards.scores(view.free[0], view.free[1]) if shape.cards is not None else None
    ask = _Ask(shape, rules, own_tasks, by_cards)
    numbers = [*sorted(own_hosts), *(number for number in ask.ordered(view, places) if number not in own_hosts)]
    first_numbers = numbers[: most + len(own_hosts)]
    best = [_candidate(view, ask, number, number in own_hosts) for number in first_numbers]
    feasible_hosts = len({*places.tolist(), *own_hosts})
    return Candidates(STRATEGIES[shape.strategy], len(hosts.table), feasible_hosts, ask.over, best)


class _Ask(NamedTuple):
    """A task that asks for a host: its shape and rules, how many of its job each host has, and the scores of hosts,
    where its strategy looks at cards.
    """

    shape: ShapeView
    rules: Rules | None
    own_tasks: I64
    by_cards: I64 | None

    @property
    def over(self) -> str:
        """The attribute of its `spread`; empty: it has none."""
        return self.rules.rules.spread_over if self.rules is not None else ""

    def ordered(self, view: ClusterView, places: I64) -> list[int]:
        """The hosts that it may have, the first choice first."""
        order = self.shape.order
        if self.rules is not None and self.rules.wishes:
            wished = self.rules.unmet() << RANK_SHIFT
            order = wished if order is None else order + wished
        score = ranked(view.score, order, self.shape.spread)[places]
        if self.shape.scoring is not None:
            score = self.shape.scoring.ordered(order, view.free[:, places], places)
        keys: tuple[I64, ...] = (-score, self.own_tasks[places]) if self.shape.spread else (score,)
        if self.by_cards is not None:
            by_cards = self.by_cards[places]
            rank = np.zeros(len(places), dtype=np.int64) if order is None else order[places]
            keys = np.where(by_cards < NONE, 0, score), by_cards, rank
        if self.rules is not None and self.rules.spread is not None:
            keys = (*keys, self.rules.spread.levels()[self.rules.spread.groups[places]])
        numbers: list[int] = places[np.lexsort((places, *keys))].tolist()
        return numbers


def _shape(view: ClusterView, runs: Runs, task: PlacedTask, host: int | None = None) -> ShapeView:
    row = runs.jobs[task.job_id]
    shape = view.shape(int(runs.arena["shape"][row.base + task.instance]), row, host)
    return view.alternatives(shape)[task.alternative] if shape.has_others and task.alternative > 0 else shape


def _candidate(view: ClusterView, ask: _Ask, number: int, own_room: bool) -> Candidate:
    shape, rules, host_id = ask.shape, ask.rules, view.hosts.ids[number]
    names, free = view.hosts.kinds.names, view.free[:-1, number].tolist()
    terms = {
        name: (amount >> shift) * weight
        for name, amount, weight, shift in zip(names, free, *view.scales.plain, strict=True)
        if amount > 0 and weight
    }
    score = sum(terms.values())
    if shape.scoring is not None:
        first, then = (int(each[0]) for each in shape.scoring.terms(view.free[:, [number]], np.array([number])))
        score, room = first + then, score
        name, at = (LOAD, LOAD_AT) if shape.strategy == LOAD_AWARE else (UNEVENNESS, UNEVEN_AT)
        terms = {name: first >> at, ROOM: room}
    if shape.cards is not None and ask.by_cards is not None and (by_cards := int(ask.by_cards[number])) < NONE:
        parts = shape.cards.parts(number, by_cards, view.free[0], view.free[1])
        score = sum(parts)
        terms = (
            {LOSS: parts.loss}
            if shape.strategy == FRAGMENTATION
            else dict(zip((LOSS, ROOM, PLACE), parts, strict=True))
        )
    request = shape.meeting.request._replace(host_pools=())  # their order stands before the wishes
    rank = int(view.hosts.constraints.of(request).rank[number]) if shape.order is not None else 0
    row, images = view.hosts.table[host_id], [each.attribute for each in shape.constraints if each.weight]
    without = any(each.startswith(IMAGE) and each not in map(image_attribute, row.images) for each in images)
    spread = rules.spread if rules is not None else None
    return Candidate(
        host_id,
        score,
        terms,
        {name: amount for name, amount in zip(names, free, strict=True) if amount},
        int(ask.own_tasks[number]),
        own_room,
        value="" if spread is None else host_id if ask.over == HOST else row.attributes.get(ask.over, ""),
        value_tasks=-1 if spread is None else int(spread.counts[spread.groups[number]]),
        with_devices=rank >= SPARED and not view.hosts.constraints.is_leaving(number),
        unmet=rank % SPARED - IMAGE_WEIGHT * without + (int(rules.unmet()[number]) if rules is not None else 0),
        without_image=without,
    )
