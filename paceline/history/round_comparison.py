"""Compares a recorded round with what a machine decides in its place, and says which decisions differ, about whom."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from msgspec.structs import replace

from events.codec import HEADER_BYTES, CodecError, decode, encode, writer_schema
from events.records.base import Event
from paceline.client.json_type import Json
from paceline.history.build_protocol import Part, Subject
from paceline.history.recorded_rounds import OpenRound
from paceline.history.verify import side_by_side
from processors.runtime.replay import Difference
from projections.record_json import whole

PARTS_MAX, SUBJECTS_MAX, SHOWN_MAX = 200, 1000, 10
"""So many parts of a round are told, so many subjects of each, and so many side by side."""
LISTS = (list, tuple)
PoolOf = Callable[[str], str]
Form = Callable[[bytes], bytes]
Key = tuple[str, str]
"""Pool and job."""


class RoundDifference(NamedTuple):
    """From the decision `at` on the round would be decided otherwise; `fault`: deciding failed."""

    at: int
    parts: list[Part]
    fault: str = ""


class _Item(NamedTuple):
    """A decision of one of the sides; `at`: its place in the recorded round; `form`: what is compared of it."""

    at: int
    value: bytes
    event: Event
    form: bytes


def rewritten(value: bytes) -> bytes:
    """A decision as this build writes it: a build may add fields."""
    try:
        return encode(decode(value))
    except CodecError:
        return value


def without_causes(value: bytes) -> bytes:
    """The same without the records that have led to it: with a change these may be others where the decision is not."""
    try:
        event = decode(value)
    except CodecError:
        return value
    none = {"cause": None, "causes": ()}
    fields = {name: none[name] for name, topic in event.cause_fields.items() if not topic and name in none}
    return encode(replace(event, **fields))


def compare(round_: OpenRound, machine: str, pool_of: PoolOf, form: Form = rewritten) -> RoundDifference | None:
    """Asks pass after pass for what was recorded, and applies that, up to the first difference; None: all is alike.
    `form`: what is compared of decisions.
    """
    recorded = round_.record.decisions
    while True:
        start = round_.applied
        try:
            decided = round_.decide()
        except Exception as error:  # another build, or a state that no cell was in: whatever it is, it is the finding
            return RoundDifference(start, [], f"deciding fails: {error!r}")
        events = _as_the_writer(round_, decided)
        values = list(map(encode, events))
        pairs = zip(recorded[start:], values, strict=False)
        alike = next((at for at, (old, new) in enumerate(pairs) if not _same(old, new, form)), -1)
        alike = min(len(values), len(recorded) - start) if alike < 0 else alike
        if alike < len(values) or (not values and start < len(recorded)):
            at = start + alike
            rest = zip(recorded[at:], round_.decisions[at:], strict=True)
            old = [_Item(at + n, value, event, form(value)) for n, (value, event) in enumerate(rest)]
            mine = zip(map(encode, decided[alike:]), events[alike:], values[alike:], strict=True)
            new = [_Item(-1, whole_value, event, form(value)) for whole_value, event, value in mine]
            return RoundDifference(at, _parts(old, new, (machine, round_.record.round), pool_of))
        round_.apply(start + alike)
        if round_.applied == len(recorded):
            return None


def pass_end(round_: OpenRound, index: int) -> int:
    """Where the pass ends in which the recorded decision `index` was made; what comes after it follows from it. The end
    of the round where this build decides otherwise. Applies what comes before.
    """
    recorded = round_.record.decisions
    while True:
        start = round_.applied
        values = list(map(encode, _as_the_writer(round_, round_.decide())))
        if not values or len(values) > len(recorded) - start:
            return len(recorded)
        end = start + len(values)
        if not all(map(_same, recorded[start:end], values, repeat(rewritten))):
            return len(recorded)
        if index < end:
            return end
        round_.apply(end)


def _as_the_writer(round_: OpenRound, decided: list[Event]) -> list[Event]:
    """Decisions without the fields that the schemas of the build that wrote the round lack: it could not say them."""
    lacking: dict[type[Event], dict[str, Any]] = {}
    for value, event in zip(round_.record.decisions, round_.decisions, strict=True):
        if names := _lacking(type(event), value[:HEADER_BYTES]):
            lacking[type(event)] = {name: getattr(event, name) for name in names}  # their defaults
    return [replace(each, **lacking.get(type(each), {})) for each in decided] if lacking else decided


@cache
def _lacking(kind: type[Event], head: bytes) -> frozenset[str]:
    """The fields of a record that a schema, which the head of a value names, doesn't have."""
    return frozenset(kind.__struct_fields__) - {field["name"] for field in writer_schema(head)["fields"]}


def _same(old: bytes, new: bytes, form: Form) -> bool:
    return old == new or form(old) == form(new)


def _parts(old: list[_Item], new: list[_Item], place: tuple[str, int], pool_of: PoolOf) -> list[Part]:
    """The decisions that differ, those of one kind beside each other."""
    recorded, decided = _without(old, new), _without(new, old)
    if not recorded and not decided:  # the same ones in another order
        recorded, decided = old[:1], new[:1]
    parts, rest = [], list(recorded)
    for item in decided:
        other = next((each for each in rest if type(each.event) is type(item.event)), None)
        if other is not None:
            rest.remove(other)
        parts.append((other, item))
    pairs: list[tuple[_Item | None, _Item | None]] = [*parts, *((each, None) for each in rest)]
    return [_part(one, other, place, pool_of, at < SHOWN_MAX) for at, (one, other) in enumerate(pairs[:PARTS_MAX])]


def _without(items: Iterable[_Item], others: Iterable[_Item]) -> list[_Item]:
    """The items that aren't among others, as often as they are more."""
    there = Counter(each.form for each in others)
    rest = []
    for item in items:
        if there[item.form]:
            there[item.form] -= 1
        else:
            rest.append(item)
    return rest


def _part(old: _Item | None, new: _Item | None, place: tuple[str, int], pool_of: PoolOf, is_shown: bool) -> Part:
    first = old or new
    assert first is not None
    rows = []
    if is_shown:
        difference = Difference(*place, first.at, old.value if old else None, new.value if new else None)
        rows = side_by_side(difference)
    return Part(
        type(first.event).__name__,
        old.at if old else -1,
        old is not None,
        new is not None,
        _subjects(_about(old, pool_of), _about(new, pool_of))[:SUBJECTS_MAX],
        rows,
    )


def _subjects(old: dict[Key, Any], new: dict[Key, Any]) -> list[Subject]:
    """The subjects of a difference: those whose part of the decision isn't the same, all where it is for each."""
    keys = list({**old, **new})
    parted = [key for key in keys if key not in old or key not in new or old[key] != new[key]]
    return [Subject(*key, key in old, key in new) for key in parted or keys]


def _about(item: _Item | None, pool_of: PoolOf) -> dict[Key, Any]:
    """The parts of a decision by the pool and job that they are about."""
    if item is None:
        return {}
    body = whole(item.event)
    jobs, pools = body.get("job_ids"), body.get("pools")
    if isinstance(jobs, LISTS) and isinstance(body.get("job"), LISTS):
        about: dict[Key, list[Any]] = {}
        for job, row in zip(body["job"], _rows(body, len(body["job"])), strict=True):
            if 0 <= job < len(jobs):
                about.setdefault((pool_of(jobs[job]), jobs[job]), []).append(row)
        return dict(about)
    if isinstance(job_id := body.get("job_id"), str) and job_id:
        return {(pool_of(job_id) or str(body.get("pool", "")), job_id): body}
    if isinstance(jobs, LISTS):
        return {(pool_of(job), job): body for job in jobs}
    if isinstance(pools, LISTS):
        return {(str(pool), ""): row for pool, row in zip(pools, _rows(body, len(pools)), strict=True)}
    return {(str(body.get("path") or body.get("pool") or ""), ""): body}


def _rows(body: Json, count: int) -> list[Any]:
    """The values of each item of a decision, names in place of numbers of its own lists."""
    tables = {name for name in body if name.endswith("_ids") or name in ("pools", "shapes", "resources")}
    columns = []
    for name, values in body.items():
        if name in tables or not isinstance(values, LISTS) or not count or len(values) % count or not values:
            continue
        size = len(values) // count
        names = body.get(f"{name}_ids") or body.get(f"{name}s")
        columns.append([_named(values[at * size : (at + 1) * size], names) for at in range(count)])
    return [list(each) for each in zip(*columns, strict=True)] if columns else [[] for _ in range(count)]


def _named(values: Sequence[Any], names: object) -> list[Any]:
    if not isinstance(names, LISTS):
        return list(values)
    return [names[each] if isinstance(each, int) and 0 <= each < len(names) else each for each in values]
