"""Why tasks find no place: one code per shape and size of gang, hosts counted by reason, the nearest misses.

All of it is judged on what is left at the end of a decision, so that asking again without a change says the same.
Codes of `LASTING` don't depend on what runs now: only a change of hosts can help.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.bounds import KINDS_MAX, WORD_MAX
from events.codes import Code, Stage
from events.columns import I64, counted, distinct
from events.conditions import text_of
from events.reasons import LASTING
from events.records.parts import NearMiss
from events.records.placement import GangsUnplaced
from events.words import SEGMENTS, WITHIN
from processors.placement.cluster_view import ClusterView
from processors.placement.gang_search import Part, in_turn, together
from processors.placement.group_rooms import GroupRooms, level_of, room_when_empty
from processors.placement.neighbours import (
    AFFINITY,
    APART,
    DEVICES,
    FREE,
    LIMIT,
    RULE_NAMES,
    SHARED,
    SPREAD,
    WINDOW,
    Neighbours,
    one_by_one,
)
from processors.placement.packing import Mask, Weights, feasible, fits, have_room
from processors.placement.room.kept import OwnRoom
from processors.placement.shape_view import ShapeView
from processors.placement.states import ABSENT, STAGES, STATES, TAKES, TAKES_BOUND, Phase
from processors.state.record_rows import ConstraintRow, RulesRow

NEAREST = 3
RANGES_MAX = 32
LACK_MAX = 1 << 57
"""Bounds what a lack adds to the distance of a miss, so that the sum over `KINDS_MAX` stays within 64 bits."""

OPEN = KINDS_MAX + 1
"""Reasons in the column: below it the index of a kind, or of ports behind them, from it on phases, from STAGED on
stages of hosts that are in maintenance, then KEPT for what is kept for others, FIXED_PORT where another task has a port
that must have its number, from CONSTRAINT on conditions.
"""
STAGED = OPEN + len(Phase)
KEPT = STAGED + len(Stage)
FIXED_PORT = KEPT + 1
RULED = FIXED_PORT + 1
"""And with it the rules by which tasks look at neighbours, in the order of `RULE_NAMES`."""
RULES = range(RULED, RULED + len(RULE_NAMES) + 1)
CONSTRAINT = RULES.stop
RULE_CODES = {
    LIMIT: Code.HOST_LIMIT_REACHED,
    AFFINITY: Code.AFFINITY_UNMET,
    APART: Code.KEPT_APART,
    DEVICES: Code.NO_DEVICES_FIT,
    SPREAD: Code.SPREAD_LIMIT,
    SHARED: Code.NO_EMPTY_HOST,
    WINDOW: Code.WINDOW_TOO_SOON,
    len(RULE_NAMES): Code.NO_GROUP_FITS,
}


OF_HOST = (Code.BOUND_HOST_BUSY, Code.BOUND_HOST_IN_MAINTENANCE)
"""Reasons of tasks that are bound to a host which passes."""
MARKS = (Code.HOSTS_TAINTED, Code.HOSTS_EXCLUSIVE, Code.OUTSIDE_HOST_POOLS)
"""Why hosts are closed that meet all conditions, in the order of `ConditionSet`."""
MARK_NAMES = ("tainted", "exclusive", "in other host pools")


class Reason(NamedTuple):
    """Why tasks that belong together found no place."""

    code: Code
    part: int
    """The first part of which not all find one."""
    fit: tuple[int, ...]
    """The tasks of each part that would fit, counted: now; of codes of `LASTING`, on hosts that are empty."""


def reason(
    view: ClusterView,
    parts: Sequence[tuple[ShapeView, int]],
    own: OwnRoom | None = None,
    neighbours: Neighbours | None = None,
) -> Reason:
    """Why so many tasks of each shape found no place together; `own`: what is kept for them; `neighbours`: of tasks
    that look at these.
    """
    empty = reason_when_empty(view, parts)
    if empty is not None:
        return empty
    if neighbours is not None and own is None and (ruled := _ruled(view, parts, neighbours)) is not None:
        return ruled
    tasks = sum(size for _, size in parts)
    free, _ = _seen(view, own)
    fit = _fit(free, view.weight, [shape.part(size) for shape, size in parts])
    part = next((at for at, (_, size) in enumerate(parts) if fit[at] < size), 0)
    if own is not None:
        return Reason(own.code, part, fit)
    if _fits_in_kept(view, parts):
        return Reason(Code.HELD_FOR_OTHERS, part, fit)
    if _fits_beside_others(view, parts):
        return Reason(Code.NO_EMPTY_HOST, part, fit)
    if _fits_on_suspected(view, parts):
        return Reason(Code.HOSTS_SUSPECTED, part, fit)
    if _fits_in_maintenance(view, parts):
        return Reason(Code.HOSTS_IN_MAINTENANCE, part, fit)
    return Reason(Code.GANG_INCOMPLETE if tasks > 1 and any(fit) else Code.NO_HOST_FITS, part, fit)


def _ruled(view: ClusterView, parts: Sequence[tuple[ShapeView, int]], neighbours: Neighbours) -> Reason | None:
    """The rule for want of which tasks find no place that would fit; None: there is none."""
    view.neighbours = neighbours
    requests = [view.request(shape, size, shape.open) for shape, size in parts]
    by_part = one_by_one(neighbours, view.free, view.score, requests)
    fit = tuple(map(len, by_part))
    part = next((at for at, each in enumerate(requests) if fit[at] < each.size), None)
    if part is None:
        neighbours.leave(by_part, requests)
        if (level := level_of(parts)) is not None and level.segment:
            fit = (GroupRooms(view, parts, level, neighbours).fit,)
        return Reason(Code.NO_GROUP_FITS, 0, fit)
    hosts = feasible(view.free, parts[part][0].need, parts[part][0].open)
    if not len(hosts) and parts[part][0].exclusive:
        hosts = np.flatnonzero(_when_alone(view, parts[part][0]))
    why = requests[part].rules.why()[hosts]
    neighbours.leave(by_part, requests)
    reasons, counts = counted(why[why != FREE])
    return Reason(RULE_CODES[int(reasons[np.argmax(counts)])], part, fit) if len(reasons) else None


def _when_alone(view: ClusterView, shape: ShapeView) -> Mask:
    """The hosts that would have room if nothing ran there, which a task that wants one for itself needs."""
    return shape.open & have_room(view.hosts.capacity, shape.column)


def _seen(view: ClusterView, own: OwnRoom | None) -> tuple[I64, I64]:
    """The amounts that are free for a unit, and those kept for others."""
    if own is None:
        return view.free, view.kept
    free, kept_room = view.free.copy(), view.kept.copy()
    free[:, own.hosts] += own.amounts
    kept_room[:, own.hosts] -= own.amounts
    return free, kept_room


def reason_when_empty(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> Reason | None:
    """Why they wouldn't find a place on empty hosts either; None: they would, or it isn't known."""
    hosts, whole = view.hosts, view.hosts.whole
    counting = np.flatnonzero(hosts.counts)
    nothing = (0,) * len(parts)
    if not len(counting):
        return Reason(Code.NO_HOSTS, 0, nothing)
    meeting = [shape.part(size)._replace(open_=hosts.counts & could(view, shape)) for shape, size in parts]
    ways = [*_ways_when_empty(view, parts, meeting)]
    searches = (together(free, view.weight, way, None) for free, way in ways)
    if any(each.hosts is not None or not each.proven for each in searches):
        return _segments_when_empty(view, parts) or _devices_when_empty(view, parts) or _spread_when_empty(view, parts)
    if (code := _kept_away(view, parts)) is not None:
        fit = _fit(whole, view.weight, meeting)
        return Reason(code, next((at for at, (_, size) in enumerate(parts) if fit[at] < size), 0), fit)
    for at, (shape, size) in enumerate(parts):
        if not (hosts.counts & (shape.unmet < 0)).any() and int(fits(whole, shape.need, counting, size).sum()) >= size:
            return Reason(Code.CONSTRAINT_MISMATCH, at, nothing)
    fit = max((_fit(free, view.weight, way) for free, way in ways), key=sum, default=nothing)
    return Reason(Code.NEVER_FITS, next((at for at, (_, size) in enumerate(parts) if fit[at] < size), 0), fit)


def _segments_when_empty(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> Reason | None:
    """Why the segments of a gang, or all of it with its devices in one group, wouldn't find a place on empty hosts
    either, though its tasks would; None: they would, or it has none.
    """
    level = level_of(parts)
    if level is None or not (level.segment or any(shape.devices is not None for shape, _ in parts)):
        return None
    rooms = GroupRooms(view, parts, level, None)
    fit = rooms.fit if level.segment else int(rooms.room.max(initial=0))
    return Reason(Code.NEVER_FITS, 0, (fit,)) if fit < sum(size for _, size in parts) else None


def _devices_when_empty(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> Reason | None:
    """Why they wouldn't find their devices on empty hosts, though amounts would do; None: they would, or ask none. A
    card that is set aside or unwell is no card.
    """
    if view.devices is None or all(shape.devices is None for shape, _ in parts):
        return None
    fit = tuple([int(room_when_empty(view, shape, size).sum()) for shape, size in parts])
    part = next((at for at, (_, size) in enumerate(parts) if fit[at] < size), None)
    return Reason(Code.NEVER_FITS, part, fit) if part is not None else None


def _spread_when_empty(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> Reason | None:
    """Why the groups of a spread wouldn't hold them on empty hosts either, by the most tasks that each may have; None:
    they would, or there is no such rule.
    """
    rules = [shape.rules or RulesRow() for shape, _ in parts]
    over, most, tasks = rules[0].spread_over, max(each.most for each in rules), sum(size for _, size in parts)
    if not all(each.most and each.spread_over == over for each in rules):
        return None
    groups = view.hosts.groups(over)
    room = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    for shape, size in parts:
        np.add.at(room, groups, room_when_empty(view, shape, size))
    fit = int(np.minimum(room, most).sum())
    return Reason(Code.NEVER_FITS, 0, (fit,)) if fit < tasks else None


def could(view: ClusterView, shape: ShapeView) -> Mask:
    """The hosts that meet the conditions of a shape, and whose devices could hold a task."""
    meets: Mask = shape.unmet < 0
    return meets & _have_devices(view, shape)


def _have_devices(view: ClusterView, shape: ShapeView) -> Mask:
    """The hosts whose devices could hold a task."""
    if view.devices is None or shape.devices is None:
        return np.ones(len(view.hosts.ids), dtype=np.bool_)
    return view.devices.could(shape.devices)


def _ways_when_empty(
    view: ClusterView, shapes: Sequence[tuple[ShapeView, int]], parts: Sequence[Part]
) -> Iterator[tuple[I64, list[Part]]]:
    """Yields what is free on empty hosts, and the parts there, by the rules of the job about its own tasks: the limit
    for each host is one more kind, of which each task needs one; where all must be within a group, each is by
    itself.
    """
    free, rules = view.hosts.whole, [shape.rules or RulesRow() for shape, _ in shapes]
    ways = list(parts)
    if all(each.host_limit for each in rules):
        limit = max(each.host_limit for each in rules)
        free = np.vstack([free, np.full(free.shape[1], limit)])
        ways = [part._replace(need=(*part.need, 1), scoring=None, order=None) for part in parts]
    level = level_of(shapes)
    if level is None or level.segment:
        yield free, ways
        return
    groups = view.hosts.groups(level.name)
    open_ = np.logical_or.reduce([part.open_ for part in ways])
    for group in distinct(groups[open_]).tolist():
        there = np.flatnonzero(groups == group)
        yield free[:, there], [part._replace(open_=part.open_[there], scoring=None, order=None) for part in ways]


def _kept_away(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> Code | None:
    """The mark of hosts for want of which they would find a place on empty ones; None: that isn't it."""
    counts = view.hosts.counts
    have = [counts & _have_devices(view, shape) for shape, _ in parts]
    opens = [there & (shape.unmet < 0) for there, (shape, _) in zip(have, parts, strict=True)]
    for at, code in enumerate(MARKS):
        marked = [
            there & (shape.unmet == len(shape.constraints) + at) for there, (shape, _) in zip(have, parts, strict=True)
        ]
        opens = [open_ | also for open_, also in zip(opens, marked, strict=True)]
        if any(each.any() for each in marked):
            wider = [shape.part(size)._replace(open_=open_) for (shape, size), open_ in zip(parts, opens, strict=True)]
            ways = _ways_when_empty(view, parts, wider)
            if any(together(free, view.weight, way, None).hosts is not None for free, way in ways):
                return code
    return None


def _fit(free: I64, weight: Weights, parts: Sequence[Part]) -> tuple[int, ...]:
    """Counts the tasks of each part that find a place, the largest first."""
    order = sorted(range(len(parts)), key=lambda at: -parts[at].score)
    return tuple(len(hosts) for hosts in in_turn(free, weight, parts, None, order))


def _fits_in_kept(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> bool:
    """Whether they would find a place if nothing were kept for others."""
    if not view.kept.any():
        return False
    free = view.free + view.kept
    return together(free, view.weight, [shape.part(size) for shape, size in parts], None).hosts is not None


def _fits_beside_others(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> bool:
    """Whether they would find a place if no job had hosts for itself alone."""
    if view.closed is None:
        return False
    opens = [shape.ports_free & view.hosts.up & (shape.unmet < 0) for shape, _ in parts]
    meeting = [shape.part(size)._replace(open_=open_) for (shape, size), open_ in zip(parts, opens, strict=True)]
    return together(view.free, view.weight, meeting, None, view.score).hosts is not None


def _fits_on_suspected(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> bool:
    """Whether they would find a place if no host were avoided."""
    if not (view.hosts.phase == Phase.SUSPECTED).any():
        return False
    meeting = [
        shape.part(size)._replace(open_=shape.takes_bound(view.hosts) & (shape.unmet < 0)) for shape, size in parts
    ]
    return together(view.free, view.weight, meeting, None, view.score).hosts is not None


def _fits_in_maintenance(view: ClusterView, parts: Sequence[tuple[ShapeView, int]]) -> bool:
    """Whether they would find a place if hosts that are cordoned or drained took tasks."""
    if not view.hosts.in_maintenance:
        return False
    takes = view.hosts.are(TAKES)
    meeting = [shape.part(size)._replace(open_=shape.ports_free & takes & (shape.unmet < 0)) for shape, size in parts]
    return together(view.free, view.weight, meeting, None, view.score).hosts is not None


def instances_text(instances: I64) -> str:
    """Instances as ranges, such as 3-5,9, the first `RANGES_MAX` of them."""
    parts = np.split(instances, np.flatnonzero(np.diff(instances) != 1) + 1) if len(instances) else []
    texts = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts[:RANGES_MAX]]
    return ",".join(texts) + (",..." if len(parts) > RANGES_MAX else "")


def explanation(
    view: ClusterView,
    shape: ShapeView,
    size: int,
    code: Code,
    own: OwnRoom | None = None,
    neighbours: Neighbours | None = None,
) -> GangsUnplaced:
    """Why tasks of a shape find no place; of which job they are, whoever asks for it says."""
    hosts = view.hosts
    free, kept_room = (hosts.whole, view.kept) if code in LASTING else _seen(view, own)
    fit = fits(free, shape.need, np.arange(len(hosts.ids)), min(size, shape.most))
    if code in LASTING:
        fit[~could(view, shape)] = 0  # what is there is enough or not, but its devices never are
    room = free - shape.column * fit
    if neighbours is not None and code not in LASTING:
        reasons = _reasons_of_rules(view, shape, code, neighbours, size)
    else:
        reasons = hosts_reasons(view, shape, code, room, kept_room)
    by_devices = shape.devices is not None and code not in LASTING  # more tasks fit by amounts than by devices
    among = np.flatnonzero((reasons < OPEN) | (reasons == RULED + DEVICES))
    near = nearest(view, shape, free if by_devices else room, among, when_empty=code in LASTING)
    return unplaced(view, shape, code, reasons[hosts.present > 0], near)


def _reasons_of_rules(
    view: ClusterView, shape: ShapeView, code: Code, neighbours: Neighbours, size: int
) -> NDArray[np.int64]:
    """As `hosts_reasons`, for a task more than those that find a place: what fits is passed over by a rule."""
    view.neighbours = neighbours
    request = view.request(shape, size, shape.open)
    by_part = one_by_one(neighbours, view.free, view.score, [request])
    why = request.rules.why()
    neighbours.leave(by_part, [request])
    reasons = hosts_reasons(view, shape, code, view.free, view.kept)
    fit = reasons == OPEN
    if shape.exclusive:
        fit |= _when_alone(view, shape) & (why == SHARED)
    reasons[fit] = RULED + np.where(why[fit] == FREE, len(RULE_NAMES), why[fit])
    return reasons


def unplaced(
    view: ClusterView, shape: ShapeView, code: Code, reasons: I64, near: tuple[NearMiss, ...]
) -> GangsUnplaced:
    """The record of it. `reasons`: of each host that was considered, why it has no room."""
    return GangsUnplaced(
        job_id="",
        code=code,
        tasks=0,
        instance=0,
        run=0,
        need=view.hosts.kinds.amounts(shape.need[:-1]),
        ports=shape.need[-1],
        hosts_considered=len(reasons),
        hosts_by_reason=counts_of(view, shape, reasons),
        nearest=near,
    )


def counts_of(view: ClusterView, shape: ShapeView, reasons: NDArray[np.int64]) -> dict[str, int]:
    """Counts the hosts by reason, by its name."""
    total: dict[str, int] = {}
    for value, count in zip(*(each.tolist() for each in counted(reasons)), strict=True):
        name = _name(view, shape, value)
        total[name] = total.get(name, 0) + count
    return total


def hosts_reasons(view: ClusterView, shape: ShapeView, code: Code, room: I64, kept_room: I64) -> NDArray[np.int64]:
    """The first reason of each host; `room` is what is left when as many tasks as possible were put there, `kept_room`
    what is kept for others.
    """
    hosts = view.hosts
    phase = hosts.phase
    if code in LASTING:  # silence passes: what a silent host offers is judged like any other
        departed = np.where(hosts.are(ABSENT), phase, Phase.RETURNING)
        phase = np.where(hosts.counts, Phase.UP, departed)
    elif code in (
        Code.BOUND_HOST_BUSY,
        Code.BOUND_HOST_IN_MAINTENANCE,
    ):  # a suspected host takes those that are bound to it
        phase = np.where(hosts.are(TAKES_BOUND), Phase.UP, phase)
    short = np.full(len(hosts.ids), OPEN, dtype=np.int64)
    for at in reversed(range(len(shape.need))):
        if shape.need[at]:
            short[room[at] < shape.need[at]] = at
    if code not in LASTING and kept_room.any():
        short[(short < OPEN) & have_room(room + kept_room, shape.column)] = KEPT
    if code not in LASTING:
        short[~shape.ports_free] = FIXED_PORT
    if code not in LASTING and view.closed is not None and shape.host is None and not shape.exclusive:
        short[view.closed] = RULED + SHARED
    if shape.devices is not None and view.devices is not None:
        lacks = ~view.devices.could(shape.devices) if code in LASTING else ~view.devices.fits(shape.devices)
        short[(short == OPEN) & lacks] = RULED + DEVICES
    reason = np.where(shape.unmet >= 0, CONSTRAINT + shape.unmet.astype(np.int64), short)
    if shape.fixed_ports:  # else only one of the same tasks there can be the reason
        reason[reason == OPEN] = FIXED_PORT
    if code == Code.NEVER_FITS and (rules := shape.rules) is not None:
        grouped = bool(rules.within or rules.segments)
        reason[reason == OPEN] = RULED + (LIMIT if rules.host_limit else len(RULE_NAMES) if grouped else FREE)
    reason = np.where(phase == Phase.UP, reason, OPEN + phase)
    if hosts.in_maintenance and code not in LASTING:
        closed = hosts.barred > (1 if code in OF_HOST else 0)
        reason = np.where(closed & ~hosts.are(ABSENT), STAGED + hosts.stage, reason)
    return reason


def _name(view: ClusterView, shape: ShapeView, reason: int) -> str:
    if reason < OPEN:
        return (*view.hosts.kinds.names, "ports")[reason]
    if reason == KEPT:
        return "kept for others"
    if reason == FIXED_PORT:
        return "port taken"
    if reason in RULES:
        return _rule_name(shape, reason - RULED)
    if reason >= STAGED and reason < CONSTRAINT:
        return STAGES[Stage(reason - STAGED)].name
    if reason < CONSTRAINT:
        return STATES[Phase(reason - OPEN)].name
    return _condition_name(shape.constraints, reason - CONSTRAINT)


def _rule_name(shape: ShapeView, rule: int) -> str:
    """The name of a rule about other tasks; that of `within` has its attribute, as that of a constraint has."""
    if rule == len(RULE_NAMES):
        rules = shape.rules or RulesRow()
        return f"{SEGMENTS}{rules.nearness}" if rules.segments else f"{WITHIN}{rules.within}"
    return "spread target" if rule == SPREAD and shape.rules is not None and shape.rules.targets else RULE_NAMES[rule]


def _condition_name(conditions: Sequence[ConstraintRow], at: int) -> str:
    """The name of a condition, or behind these of a mark of hosts, by which hosts are counted."""
    if at >= len(conditions):
        return MARK_NAMES[at - len(conditions)]
    return f"constraint:{conditions[at].attribute or text_of(conditions, at)[:WORD_MAX]}"


def nearest(
    view: ClusterView, shape: ShapeView, room: I64, among: I64, when_empty: bool = False
) -> tuple[NearMiss, ...]:
    """The hosts that lack least for one task, each kind by its share of the largest host. `when_empty`: `room` is that
    of empty hosts.
    """
    need = shape.column[:-1]
    lacks = np.where(need, np.maximum(need - room[:-1, among], 0), 0)
    distance = np.zeros(len(among), dtype=np.int64)
    for row, weight in zip(lacks, view.lack_weight.weight, strict=True):
        distance += np.minimum(row, LACK_MAX // weight) * weight
    first = np.argsort(distance, kind="stable")[:NEAREST]
    return tuple(
        NearMiss(
            host_id=view.hosts.ids[host],
            lacks=view.hosts.kinds.amounts(lack),
            devices=_lacking_devices(view, shape, host, when_empty),
        )
        for host, lack in zip(among[first].tolist(), lacks[:, first].T.tolist(), strict=True)
    )


def _lacking_devices(view: ClusterView, shape: ShapeView, host: int, when_empty: bool) -> str:
    if view.devices is None or shape.devices is None:
        return ""
    return view.devices.lack(host, shape.devices, when_empty)
