"""What instances of a job have of their own: overrides, merged into what the job says.

`env`, `resources` and `labels` merge by key, all else replaces; where several overrides name an instance, each applies
on top of those before it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import msgspec
import numpy as np

from events.columns import I64, distinct, ints, pack_ints, spread
from events.records.jobs import JobSubmitted
from events.records.parts import TaskOverride
from events.resources import in_order

MERGED = ("env", "resources", "labels")
REPLACED = ("command", "ports", "constraints", "strategy", "stop_grace_ms", "simulated")
JOB_FIELDS = frozenset(
    {
        *("job_id", "pool", "kind", "instances", "priority", "preemptible", "gang_min", "max_unavailable", "update"),
        *("controller", "on_controller_end", "on_preempt", "retries_max", "retries_system", "max_running"),
        *("max_runtime_ms", "start_deadline_ms", "description", "labels", "owner", "spec_hash"),
        *("overrides", "override_first", "override_count", "override"),
    }
)
"""What a job says of itself and not of how its tasks run: a run needn't end for a change of one of these."""
_CONTENT = tuple(name for name in JobSubmitted.__struct_fields__ if name not in JOB_FIELDS)
_encoder = msgspec.msgpack.Encoder(order="deterministic")

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True)
class Resolved:
    """Overrides as a record has them: each content once, and the ranges of instances that have one."""

    overrides: tuple[TaskOverride, ...]
    first: bytes
    count: bytes
    override: bytes


def merged(base: S, override: msgspec.Struct) -> S:
    """A job with what an override says instead; or the override that two make, the later one on top."""
    changes = {name: getattr(override, name) for name in REPLACED}
    changes = {name: value for name, value in changes.items() if value is not None}
    for name in MERGED:
        if value := getattr(override, name):
            changes[name] = getattr(base, name) | value
    if (on_silence := getattr(override, "on_silence")) is not None:  # noqa: B009 - a job's row has it too
        changes |= {"on_silence": on_silence, "stop_after_ms": getattr(override, "stop_after_ms")}  # noqa: B009
    return msgspec.structs.replace(base, **changes)


def resolved(overrides: Iterable[tuple[Sequence[tuple[int, int]], TaskOverride]], instances: int) -> Resolved:
    """What ranges of instances have in the end; ranges may overlap, and are within the job."""
    contents = [TaskOverride()]
    known = {_encoder.encode(contents[0]): 0}
    have = np.zeros(instances, dtype=np.int64)
    for ranges, override in overrides:
        first, count = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
        slots = spread(first, count)
        before = have[slots]
        for each in distinct(before).tolist():
            content = merged(contents[each], override)
            number = known.setdefault(_encoder.encode(content), len(contents))
            if number == len(contents):
                contents.append(content)
            have[slots[before == each]] = number
    starts = np.flatnonzero(np.diff(have, prepend=-1))
    counts = np.diff(np.append(starts, instances))
    other = have[starts] > 0
    numbers = have[starts][other].tolist()
    places = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    return Resolved(
        tuple(contents[number] for number in places),
        pack_ints(starts[other]),
        pack_ints(counts[other]),
        pack_ints(places[number] for number in numbers),
    )


def ranges_of(job: JobSubmitted) -> dict[int, list[tuple[int, int]]]:
    """Of each override its ranges of instances, as first instance and how many; those that can't be are left out."""
    found: dict[int, list[tuple[int, int]]] = {}
    columns = (ints(column).tolist() for column in (job.override_first, job.override_count, job.override))
    for first, count, at in zip(*columns, strict=False):
        if 0 <= at < len(job.overrides) and first >= 0 and count > 0:
            found.setdefault(at, []).append((first, count))
    return found


def override_index(job: JobSubmitted) -> I64:
    """For each instance the index of its override plus 1, 0 for none."""
    found = np.zeros(job.instances, dtype=np.int64)
    for at, ranges in ranges_of(job).items():
        for first, count in ranges:
            found[first : first + count] = at + 1
    return found


def instance_of(job: JobSubmitted, override: int) -> JobSubmitted:
    """The job as instances with an override have it, by what `override_index` says of them."""
    if not override:
        return job
    own = merged(job, job.overrides[override - 1])
    return msgspec.structs.replace(own, resources=in_order(own.resources))


def content_digests(job: JobSubmitted) -> I64:
    """For each instance a digest of all that its runs are made from: equal where a run of one may go on as one of the
    other, in this version of the job or in another.
    """
    plain = msgspec.structs.replace(job, resources=in_order(job.resources))
    variants = [_digest(instance_of(plain, at)) for at in range(len(job.overrides) + 1)]
    return np.array(variants, dtype=np.int64)[override_index(job)]


def _digest(job: JobSubmitted) -> int:
    content = _encoder.encode([getattr(job, name) for name in _CONTENT])
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True)
