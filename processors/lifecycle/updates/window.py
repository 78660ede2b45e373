"""The instances that an update takes next: as many as its batch and the SLA of the job leave room for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from events.bounds import INSTANCES_MAX
from events.codes import TaskState
from events.columns import I64
from events.sla import limit, replaces_first
from processors.lifecycle.causes import Goal
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.tasks import HELD
from processors.lifecycle.updates.creation import CREATE
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.lifecycle.updates.steps import STEP, Step

UP = (TaskState.ORDERED, TaskState.RUNNING)
"""States of instances that an update brings down."""


class Room(NamedTuple):
    """The number of instances that may be taken, and how many of them may be such that are up."""

    all: int
    up: int


class Next(NamedTuple):
    """The instances that are taken next, ascending: to be updated, added, removed."""

    updated: I64
    added: I64
    removed: I64


def most_down(version: VersionRow, tasks: int) -> int | None:
    """Most instances that an SLA lets be down at a time, or replaced first; None: there is no SLA. `tasks`: those of a
    daemon, which has one on each host.
    """
    if version.sla is None:
        return version.max_unavailable
    instances = tasks if version.instances == INSTANCES_MAX else version.instances
    most = limit(version.max_unavailable, version.sla, instances)
    return max(most, min(version.sla.surge, instances)) if replaces_first(version.sla) else most


def width(update: UpdateRow, version: VersionRow) -> int:
    """Most instances that the update may have down at a time; of a job that it creates nothing is available yet."""
    most, allowed = update.policy.batch or update.instances, most_down(version, update.instances)
    return min(most, allowed) if allowed and update.kind != CREATE else most


def room(update: UpdateRow, version: VersionRow, inherited: int, stopped: int) -> Room:
    """The free part of the width. Those that an earlier update left down count against what is up; those that failed
    keep their place. Until it is promoted a canary takes no more than its number, `stopped` ones not counted.
    """
    free = width(update, version) - update.flight - update.bad
    if update.policy.canary and not update.promoted:
        free = min(free, update.policy.canary - update.flight - (update.done - stopped) - update.bad)
    return Room(max(0, free), max(0, free - inherited))


class Pending(NamedTuple):
    """The instances that are still to be taken, ascending: those that are down, which it costs nothing to take; those
    that are up, and such of a stateful job as wait for one before them; those that are to be removed.
    """

    down: I64
    up: I64
    goes: I64


def pending(column: Callable[[str], Any], instances: int) -> Pending:
    """By the columns of a job that is to have so many instances. Such as are being stopped are done when they are."""
    goal, state = column("goal"), column("state")
    to_take = np.flatnonzero(column("step") & STEP == Step.PENDING)
    goes: Mask = to_take >= instances
    stays = to_take[~goes & (goal[to_take] == Goal.RUN)]
    waits = (state[stays] == TaskState.BACKOFF) & (column("due")[stays] == HELD)
    up = among(state[stays], UP) | waits
    return Pending(stays[~up], stays[up], to_take[goes])


def next_instances(to_take: Pending, state: Any, missing: I64, free: Room) -> Next:
    """First those that are down, then such as are to be added, then those that are up, at last such as are to be
    removed. `state` is a column of the job, `missing` the instances that it is to have and hasn't.
    """
    down = to_take.down[: free.all]
    added = missing[: free.all - len(down)]
    remaining = free.all - len(down) - len(added)
    moved = to_take.up[: min(remaining, free.up)]
    removed = to_take.goes[: remaining - len(moved)]
    costly = min(len(removed), max(0, free.up - len(moved)))
    removed = _but(removed, among(state[removed], UP), costly)
    return Next(np.sort(np.concatenate((down, moved))), added, removed)


def _but(instances: I64, up: Mask, most: int) -> I64:
    """The instances, of those that are up at most so many."""
    within: I64 = instances[~up | (np.cumsum(up) <= most)]
    return within
