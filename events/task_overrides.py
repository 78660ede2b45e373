"""Overrides of instances, merged into the specification of the job (decision 039).

`env`, `resources` and `labels` merge by key, all else replaces; where several overrides name an instance, each applies
on top of those before it.

Overrides stand in the record of a job or, where they are many, in records before it, the chunks, which it names by
hash. A key tells which override an instance has: 0 for none, else the place of the record that has it, 0 for that of
the job, times `CHUNK`, and its index there plus 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from events.bounds import INSTANCES_MAX
from events.columns import I64, distinct, pack_ints, spread
from events.override_chunks import Chunks
from events.records.jobs import JobSubmitted
from events.records.parts import TaskOverride
from events.resources import in_order

CHUNK = 1 << 20
assert CHUNK > INSTANCES_MAX
MERGED = ("env", "resources", "labels")
REPLACED = ("command", "ports", "constraints", "strategy", "stop_grace_ms", "simulated", "rules")
JOB_FIELDS = frozenset(
    {
        *(
            "job_id",
            "pool",
            "kind",
            "instances",
            "priority",
            "preemptible",
            "gang_min",
            "max_unavailable",
            "sla",
            "update",
        ),
        *("controller", "on_controller_end", "on_preempt", "retries_max", "retries_system", "max_running"),
        *("max_runtime_ms", "start_deadline_ms", "description", "labels", "owner", "spec_hash"),
        *("overrides", "override_first", "override_count", "override", "chunks"),
    }
)
"""Fields of a job that don't say how its tasks run: a run needn't end for a change of one of these."""
_encoder = msgspec.msgpack.Encoder(order="deterministic")

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True)
class Resolved:
    """Overrides as a record has them: each content once, and the ranges of instances that have one."""

    overrides: tuple[TaskOverride, ...]
    first: I64
    count: I64
    override: I64

    def columns(self) -> dict[str, Any]:
        """The ranges as fields of a record."""
        columns = {"override_first": self.first, "override_count": self.count, "override": self.override}
        return {name: pack_ints(column) for name, column in columns.items()}


def merged(base: S, override: msgspec.Struct) -> S:
    """A job with what an override says instead; or the override that two make, the later one on top."""
    return msgspec.structs.replace(base, **changes_of(base, override))


def changes_of(base: msgspec.Struct, override: msgspec.Struct) -> dict[str, Any]:
    """The fields that an override sets, merged with those of a job."""
    changes: dict[str, Any] = {}
    for name in REPLACED:
        if (value := getattr(override, name)) is not None:
            changes[name] = value
    for name in MERGED:
        if value := getattr(override, name):
            changes[name] = getattr(base, name) | value
    if (on_silence := getattr(override, "on_silence")) is not None:  # noqa: B009 - a job's row has it too
        changes |= {"on_silence": on_silence, "stop_after_ms": getattr(override, "stop_after_ms")}  # noqa: B009 - the same
    return changes


def resolved(overrides: Iterable[tuple[Sequence[tuple[int, int]], TaskOverride]], instances: int) -> Resolved:
    """Merges the overrides of ranges of instances; ranges may overlap, and are within the job."""
    contents = [TaskOverride()]
    numbers = {_encoder.encode(contents[0]): 0}
    have = np.zeros(instances, dtype=np.int64)
    for ranges, override in overrides:
        slots = _slots(ranges)
        before = have[slots]
        for each in distinct(before).tolist():
            content = merged(contents[each], override) if each else override
            number = numbers.setdefault(_encoder.encode(content), len(contents))
            if number == len(contents):
                contents.append(content)
            have[slots[before == each]] = number
    starts = np.flatnonzero(np.diff(have, prepend=-1))
    counts = np.diff(np.append(starts, instances))
    other = have[starts] > 0
    return _numbered(contents, starts[other], counts[other], have[starts][other])


def _slots(ranges: Sequence[tuple[int, int]]) -> I64:
    if len(ranges) == 1:  # of many overrides most are of few instances
        first, count = ranges[0]
        return np.arange(first, first + count)
    firsts, counts = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return spread(firsts, counts)


def _numbered(contents: Sequence[TaskOverride], first: I64, count: I64, content: I64) -> Resolved:
    """The contents that ranges have, numbered in the order of these."""
    numbers = content.tolist()
    places = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    index = np.array([places[number] for number in numbers], dtype=np.int64)
    return Resolved(tuple(contents[number] for number in places), first, count, index)


def parts_of(whole: Resolved, bytes_max: int) -> list[Resolved]:
    """The same in several parts, each of neighbouring instances, and of about so many bytes."""
    parts: list[Resolved] = []
    sizes = [len(_encoder.encode(each)) for each in whole.overrides]
    begin = size = 0
    seen: set[int] = set()
    for at, number in enumerate(whole.override.tolist()):
        size += 12 + (0 if number in seen else sizes[number])
        seen.add(number)
        if size >= bytes_max or at == len(whole.override) - 1:
            these = slice(begin, at + 1)
            parts.append(_numbered(whole.overrides, whole.first[these], whole.count[these], whole.override[these]))
            begin, size, seen = at + 1, 0, set()
    return parts


def whole(job: JobSubmitted, chunk: Chunks) -> JobSubmitted:
    """A job with all its overrides in its own record. Raises `KeyError` where a chunk is missing."""
    parts = [job, *(chunk(part.digest) for part in job.chunks)]
    if len(parts) == 1:
        return job
    starts = np.cumsum([0, *(len(part.overrides) for part in parts[:-1])]).tolist()
    override = [part.override_array.astype(np.int64) + start for part, start in zip(parts, starts, strict=True)]
    return msgspec.structs.replace(
        job,
        chunks=(),
        overrides=tuple(each for part in parts for each in part.overrides),
        override_first=b"".join(part.override_first for part in parts),
        override_count=b"".join(part.override_count for part in parts),
        override=pack_ints(np.concatenate(override)),
    )


def ranges_of(job: JobSubmitted) -> tuple[I64, I64, I64]:
    """The ranges of instances with an override in the record of a job, ascending: first instance, how many, and index
    of the override. Those that can't be are left out.
    """
    columns = (job.override_first_array, job.override_count_array, job.override_array)
    first, count, at = (column.astype(np.int64) for column in columns)
    if not len(first) == len(count) == len(at):
        return first[:0], count[:0], at[:0]
    good = np.flatnonzero((first >= 0) & (count > 0) & (at >= 0) & (at < len(job.overrides)))
    order = good[np.argsort(first[good], kind="stable")]
    return first[order], count[order], at[order]


def override_keys(job: JobSubmitted, instances: I64, chunk: Chunks) -> I64:
    """The key of each instance. Raises `KeyError` where a chunk is needed that there isn't."""
    keys = _found(job, instances)
    for place, part in enumerate(job.chunks, 1):
        mine = np.flatnonzero((instances >= part.first) & (instances < part.first + part.count))
        if len(mine):
            own_numbers = _found(chunk(part.digest), instances[mine])
            keys[mine[own_numbers > 0]] = place * CHUNK + own_numbers[own_numbers > 0]
    return keys


def _found(job: JobSubmitted, instances: I64) -> I64:
    first, count, at = ranges_of(job)
    if not len(first):
        return np.zeros(len(instances), dtype=np.int64)
    place = np.searchsorted(first, instances, side="right") - 1
    within = (place >= 0) & (instances < first[place] + count[place])
    return np.where(within, at[place] + 1, 0)


def instance_of(job: JobSubmitted, key: int, chunk: Chunks) -> JobSubmitted:
    """The job as instances with a key have it."""
    if not key:
        return job
    place, at = divmod(key, CHUNK)
    overrides = chunk(job.chunks[place - 1].digest).overrides if place else job.overrides
    own = merged(job, overrides[at - 1])
    return msgspec.structs.replace(own, resources=in_order(own.resources))
