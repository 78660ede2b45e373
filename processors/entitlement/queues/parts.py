"""The words of the queues: parts of jobs, units, and who looks at pools when they change.

The tasks of a job that are alike for admission are a part of it: those of one shape; its gang, whole; its controller.
A unit is admitted at once: the gang, the controller, or one task of another part.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from events.columns import I32, I64, Names, distinct

COLUMNS = ("shape", "queued", "held", "ended", "leaving", "rank", "placed", "due_s", "placed_s", "number")
"""The columns of tasks; `Queues` says what each means."""

SINGLE, GANG, CONTROLLER = range(3)
"""The role of the tasks of a part; with their shape it makes the key of the part."""
ROLES = 4
"""Keys are shape * ROLES + role. One role is spare: keys are in rows, so the factor can't change."""


class PartKey(NamedTuple):
    """A part of a job."""

    job_id: str
    key: int
    """Shape and role (`ROLES`)."""


class Unit(NamedTuple):
    """Tasks that are admitted at once, of one run: a gang whole, or a single task."""

    job_id: str
    first: int
    """The first instance."""
    size: int
    """The number of its tasks, which are neighbours."""
    run: int


Form = tuple[int, int, int]
"""Units that are alike for hosts: shape, size, and, where that doesn't say it all, the job."""


class Consumer(Enum):
    """One that looks at pools again when something has changed for them. All but the last two look at each change."""

    ADMISSION = auto()
    """Admits entitled units; it keeps the mark of a pool until there was nothing to do."""
    DEMOTION = auto()
    """Takes the entitlement from claims beyond it."""
    SHARES = auto()
    """Tells the share tree how much pools want."""
    LENDING = auto()
    """Keeps the order in which pools are lent to."""
    TAKERS = auto()
    """Compares the rights of claims with those that were reported."""
    GIVERS = auto()
    """Compares the amounts that pools may give with those that were reported."""
    RIGHT_TIMES = auto()
    """Knows when time alone changes the rights of a pool."""
    HEADS = auto()
    """Looks at the bound that blocks the first of a pool: it may be another one now."""
    REASONS = auto()
    """Says why the queue of a pool waits, once admission has looked at it."""


EACH_CHANGE = tuple(consumer for consumer in Consumer if consumer not in (Consumer.HEADS, Consumer.REASONS))


def by(slots: I64, groups: I64) -> Iterator[tuple[int, I64]]:
    """Slots by their groups, ascending; within a group as they stood."""
    numbers = distinct(groups)
    if len(numbers) == 1:
        yield int(numbers[0]), slots
        return
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], numbers, side="right").tolist()
    start = 0
    for number, end in zip(numbers.tolist(), ends, strict=True):
        yield number, slots[order[start:end]]
        start = end


def stretches(slots: I64, run: I64, part: I64) -> tuple[I64, I64]:
    """The places at which neighbouring slots of equal run within a part begin, and the number of each."""
    if len(slots) == 1:
        return np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(part) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))


def range_columns(
    units: Sequence[tuple[str, int, bool, I64]], runs: I32, alike: Sequence[int]
) -> tuple[dict[str, object], I64]:
    """The columns of a record about ranges of tasks, and for each range the place of its unit.

    Each unit has its job, the first slot of that, whether it is a gang, and the slots of its tasks; `runs` are those of
    all slots. Ranges that meet are one where their units have the same number in `alike`.
    """
    names = Names()
    jobs = [names[job_id] for job_id, *_ in units]
    sizes = [len(slots) for *_, slots in units]
    every = np.concatenate([slots for *_, slots in units])
    run = runs[every].astype(np.int64)
    first, count = stretches(every, run, np.repeat(alike, sizes))
    unit = np.repeat(np.arange(len(sizes)), sizes)[first]
    columns = {
        "job_ids": names.all(),
        "job": np.array(jobs)[unit],
        "first": every[first] - np.array([base for _, base, *_ in units])[unit],
        "count": count,
        "run": run[first],
        "gang": np.array([is_gang for _, _, is_gang, _ in units])[unit],
    }
    return columns, unit
