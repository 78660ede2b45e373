"""Hosts for a gang whose tasks ask different things: its parts compete for the same hosts.

First the largest tasks are put first, then those with least choice. Where neither finds a place for all, an exact
search over the hosts that several parts could use: host by host, which numbers of tasks of each part can be put so far,
without those that others exceed in every part. It is bounded in its work, and says whether it came to an end.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import add, le, sub
from typing import NamedTuple

import numpy as np

from events.columns import I64, counted
from processors.placement.devices.needs import DeviceNeed
from processors.placement.packing import MANY, Mask, Scoring, Weights, by_scores, fits, pack, scores, spread
from processors.placement.room.obstacles import Obstacles

WORK_MAX = 20_000
"""So many steps from state to state one search looks at."""
STATES_MAX = 256
"""So many states it keeps after each host."""

Counts = tuple[int, ...]
"""The number of tasks of each part."""


class Part(NamedTuple):
    """So many tasks of a gang that ask the same: `need` with ports behind the kinds, `open_` the hosts they may use."""

    need: tuple[int, ...]
    open_: Mask
    score: int
    """The size of one task, to compare parts."""
    spread: bool
    size: int
    most: int = MANY
    """So many of its tasks a host holds at most."""
    ports: tuple[int, ...] = ()
    """Ports that each of its tasks must have, where others who have them may be preempted."""
    scoring: Scoring | None = None
    """The scores of hosts, where what is free alone isn't."""
    keeps: tuple[range, ...] = ()
    """The slots of those who mustn't leave for it: tasks beside which it must be."""
    order: I64 | None = None
    """Goes before the score of each host, the least first; None: the same for all."""
    obstacles: Obstacles | None = None
    """Those who must leave a host by rules about neighbours, where others may be preempted; None: nobody anywhere."""
    within: I64 | None = None
    """The group of each host, where all tasks of the unit must be in one; None: they need not."""
    segments: tuple[I64, int] | None = None
    """The group of each host, and the tasks of a segment, each of which must be in one group; None: there are none."""
    devices: DeviceNeed | None = None
    """The devices and cores that each of its tasks takes."""
    in_link_group: bool = False
    """Whether all tasks of the unit, or of each segment where there are some, must be in one link group of a host."""
    near: tuple[I64, Sequence[I64]] | None = None
    """The group of each host, and the part of each level above of each group, where tasks are to be on few of them."""


Ports = Sequence[tuple[int, ...]]
"""The fixed ports of the tasks of each part."""


class Found(NamedTuple):
    """The result of a search: hosts for each part, or None; `proven`: there are none, else it gave up."""

    hosts: list[I64] | None
    proven: bool = False


def ranked(score: I64, order: I64 | None, spread_: bool) -> I64:
    """The scores of hosts with what stands before them: packed tasks go to the least, spread ones to the highest."""
    if order is None:
        return score
    return score - order if spread_ else score + order


def choose(free: I64, weight: Weights, score: I64, part: Part, level: I64 | None) -> I64:
    """Hosts for the tasks of one part, or for fewer. `level` counts the tasks of the job on each host, None where all
    are packed.
    """
    if part.scoring is not None:
        return by_scores(free, part.scoring, part.order, part.open_, part.need, part.size, part.most)
    score = ranked(score, part.order, part.spread and level is not None)
    if part.spread and level is not None:
        return spread(free, score, part.open_, part.need, part.size, level, weight, part.most)
    return pack(free, score, part.open_, part.need, part.size, part.most)


def together(free: I64, weight: Weights, parts: Sequence[Part], level: I64 | None, score: I64 | None = None) -> Found:
    """Hosts for all tasks of a gang. Changes nothing. `score`: of what is free, where it is known."""
    if score is None:
        score = scores(free, weight)
    if len(parts) == 1:
        single = choose(free, weight, score, parts[0], level)
        return Found([single]) if len(single) == parts[0].size else Found(None, proven=True)
    fit = np.zeros((len(parts), free.shape[1]), dtype=np.int64)
    for at, part in enumerate(parts):
        open_ = np.flatnonzero(part.open_)
        fit[at, open_] = fits(free, part.need, open_, min(part.size, part.most))
    spare = [int(row.sum()) - part.size for row, part in zip(fit, parts, strict=True)]
    if min(spare) < 0:
        return Found(None, proven=True)
    largest = sorted(range(len(parts)), key=lambda at: -parts[at].score)
    scarcest = sorted(range(len(parts)), key=lambda at: (spare[at], -parts[at].score))
    for order in (largest, scarcest) if scarcest != largest else (largest,):
        by_part = in_turn(free, weight, parts, level, order)
        if all(len(hosts) == part.size for hosts, part in zip(by_part, parts, strict=True)):
            return Found(by_part)
    return _search(free, score, parts, fit)


def in_turn(
    free: I64, weight: Weights, parts: Sequence[Part], level: I64 | None, order: Sequence[int], ports: Ports = ()
) -> list[I64]:
    """Hosts for as many tasks of each part as find one, part after part in that order. `ports`: those of its tasks, so
    that no two that must have the same one share a host.
    """
    free, score, level = free.copy(), scores(free, weight), None if level is None else level.copy()
    by_part = [np.zeros(0, dtype=np.int64)] * len(parts)
    for at in order:
        part = parts[at]
        same_port = [by_part[other] for other, of_other in enumerate(ports) if not {*ports[at]}.isdisjoint(of_other)]
        if same_port:
            part = part._replace(open_=part.open_.copy())
            part.open_[np.concatenate(same_port)] = False
        by_part[at] = choose(free, weight, score, part, level)
        hosts, counts = counted(by_part[at])
        free[:, hosts] -= np.array(part.need, dtype=np.int64)[:, None] * counts
        score[hosts] = scores(free[:, hosts], weight)
        if level is not None:
            level[hosts] += counts
    return by_part


def _search(free: I64, score: I64, parts: Sequence[Part], fit: I64) -> Found:
    """The exact search: first hosts that only one part can use, then the others, the fullest first. `fit`: how many
    tasks of each part each host holds.
    """
    shared = np.flatnonzero((fit > 0).sum(axis=0) > 1)
    shared = shared[np.argsort(score[shared], kind="stable")]
    alone = fit.copy()
    alone[:, shared] = 0
    sizes = tuple(part.size for part in parts)
    states: list[Counts] = [tuple(min(int(row.sum()), most) for row, most in zip(alone, sizes, strict=True))]
    steps: list[dict[Counts, Counts]] = []
    work = 0
    for host in shared.tolist():
        if sizes in states:
            break
        reached: dict[Counts, Counts] = {}
        for more in _most(free[:, host].tolist(), parts, fit[:, host].tolist()):
            work += len(states)
            if work > WORK_MAX:
                return Found(None)
            for state in states:
                reached.setdefault(tuple(map(min, map(add, state, more), sizes)), state)
        states = _undominated(reached)
        if len(states) > STATES_MAX:
            return Found(None)
        steps.append(reached)
    if sizes not in states:
        return Found(None, proven=True)
    return Found(_traced(sizes, steps, shared, alone))


def _most(free: list[int], parts: Sequence[Part], fit: list[int]) -> Iterator[Counts]:
    """The numbers of tasks of each part that a host holds together, each time with as many of the last part as fit."""
    most = fit[0]
    for have, one in zip(free, parts[0].need, strict=True):
        if one:
            most = min(most, have // one)
    if len(parts) == 1:
        yield (most,)
        return
    for count in range(most, -1, -1):
        rest = [have - one * count for have, one in zip(free, parts[0].need, strict=True)]
        for others in _most(rest, parts[1:], fit[1:]):
            yield (count, *others)


def _undominated(reached: Iterable[Counts]) -> list[Counts]:
    """The states of which no other has as many tasks of every part."""
    undominated: list[Counts] = []
    for state in sorted(reached, reverse=True):
        if not any(all(map(le, state, other)) for other in undominated):
            undominated.append(state)
        if len(undominated) > STATES_MAX:
            break
    return undominated


def _traced(sizes: Counts, steps: list[dict[Counts, Counts]], shared: I64, alone: I64) -> list[I64]:
    """The hosts of each part, from the last step back to the first, then those that it has for itself."""
    by_part: list[list[int]] = [[] for _ in sizes]
    state = sizes
    for at in reversed(range(len(steps))):
        before = steps[at][state]
        for part, more in enumerate(map(sub, state, before)):
            by_part[part] += [int(shared[at])] * more
        state = before
    for part, count in enumerate(state):
        by_part[part] += np.repeat(np.arange(alone.shape[1]), alone[part])[:count].tolist()
    return [np.array(hosts, dtype=np.int64) for hosts in by_part]
