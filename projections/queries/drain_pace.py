"""The budget of one job, or of one group, that bounds how fast hosts are emptied, in words."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from events.quantities import write_ms
from projections.queries.host_maintenance import HostTask
from projections.queries.leaving import Leaving

HOUR_S = 3600
NAMED_S = 7200
"""Times that are longer are told in hours."""


class Pace(NamedTuple):
    """The bound of how fast hosts are emptied."""

    text: str = ""
    """In words; empty: nothing bounds it."""
    seconds: int = 0
    stops: bool = False
    """Whether something leaves never, or in windows only: nobody knows when."""
    batch: bool = False
    """Whether something runs to its end."""


def slowest(tasks: Sequence[HostTask], ways: Mapping[str, Leaving]) -> Pace:
    """The budget that takes longest alone to let tasks leave their hosts."""
    bounds = list(_bounds(tasks, ways))
    seconds, text = max(bounds, default=(0, ""), key=lambda each: each[0])
    windowed = next((job_id for job_id in sorted(ways) if ways[job_id].windowed and _asked(ways[job_id])), "")
    if windowed:
        text = f"{windowed} leaves in its windows alone: nobody knows how long it takes"
    stops = bool(windowed) or any(each.way == "never" for each in ways.values())
    return Pace(text, seconds, stops, any(each.way == "batch" for each in ways.values()))


def _asked(leaving: Leaving) -> bool:
    return leaving.way in ("asked", "replaced")


def _bounds(tasks: Sequence[HostTask], ways: Mapping[str, Leaving]) -> Iterator[tuple[int, str]]:
    """The seconds that each budget takes alone, with its words."""
    moves = Counter(task.job.job_id for task in tasks)
    jobs = {task.job.job_id: task.job for task in tasks}
    starts: defaultdict[str, list[int]] = defaultdict(list)
    for task in tasks:
        if task.started_s >= task.ordered_s > 0:
            starts[task.job.job_id].append(task.started_s - task.ordered_s)
    groups: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for job_id, job in jobs.items():
        way = ways[job_id]
        if not _asked(way):
            continue
        each_s = max(1, -(-sum(starts[job_id]) // max(1, len(starts[job_id])))) + way.healthy_s
        if way.group:
            groups[way.group].append((moves[job_id], each_s))
        at_a_time = (way.surge if way.way == "replaced" else way.allowed or 0) // (way.gang or 1) * (way.gang or 1)
        if at_a_time and not (at_a_time >= job.tasks and way.per_hour is not None):
            does = "is replaced, {} at a time" if way.way == "replaced" else "may lose {} of {} at a time"
            seconds = -(-moves[job_id] // at_a_time) * each_s
            yield seconds, f"{job_id} {does.format(at_a_time, job.tasks)}, {_alone(each_s, seconds)}"
        if way.per_hour:
            seconds = (moves[job_id] - 1) // way.per_hour * HOUR_S
            text = f"{job_id} may lose {way.per_hour} of {job.tasks} an hour: "
            yield seconds, text + (f"{_rounded(seconds)} for it alone" if seconds else "no longer than that")
    for name, parts in groups.items():
        most, each_s = next(each.of_group for each in ways.values() if each.group == name), max(s for _, s in parts)
        if most:
            seconds = -(-sum(count for count, _ in parts) // most) * each_s
            yield seconds, f"the jobs of group {name} may lose {most} at a time, {_alone(each_s, seconds)}"


def _alone(each_s: int, seconds: int) -> str:
    return f"{each_s} s each: {_rounded(seconds)} for it alone"


def _rounded(seconds: int) -> str:
    """A time in words, in whole minutes where it is longer than some."""
    if seconds >= NAMED_S:
        return span(seconds)
    return write_ms(seconds * 1000) if seconds < 180 else f"{-(-seconds // 60)} minutes"


def span(seconds: int) -> str:
    """A time in words, rounded: 22 s, 37 minutes, 3.5 hours, 2 days."""
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 120 * 60:
        return f"{(seconds + 30) // 60} minutes"
    if seconds < 48 * HOUR_S:
        tenths = (seconds * 10 + HOUR_S // 2) // HOUR_S
        return f"{tenths // 10}.{tenths % 10} hours" if tenths % 10 else f"{tenths // 10} hours"
    return f"{(seconds + 12 * HOUR_S) // (24 * HOUR_S)} days"
