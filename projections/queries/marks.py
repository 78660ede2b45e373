"""The marks of a cell on a time axis, each with a sentence and with what it links to."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, select

from events.quantities import write_amount, write_ms_or_never
from events.resources import Kinds
from events.topics import ALL, RANK
from events.words import listed, plural
from paceline.client.cell_models import Mark
from paceline.client.json_type import Json
from projections.queries.resources import kinds_of
from projections.queries.series_points import newest_s, resolution_of
from projections.record_json import at
from projections.views import tables
from projections.views.marks import (
    DRAIN,
    FAILED,
    LOST,
    MAINTENANCE,
    POLICY,
    PREEMPTED,
    RESTART,
    SILENT,
    SUSPECTED,
    WINDOW,
)
from projections.views.series_rows import MarkRow

MARKS_MAX = 100
"""Marks between two times, at most about so many."""
STEPS_MAX = 9_000
"""Steps in the time that is asked for: a day of the finest."""
NAMED = 3
"""Hosts, jobs and changes that a sentence names."""
_TOPICS = {RANK[topic.name]: topic.name for topic in ALL}
_LINKS = {"job_id": "job", "host_id": "host", "path": "pool", "from": "pool", "for": "pool", "machine": "machine"}
"""The things that items name, by field."""
Item = Json
_rows = tables.marks.c
_NEWEST = (
    select(tables.marks)
    .where(_rows.step_s == bindparam("step_s"), _rows.topic == bindparam("topic"))
    .where(_rows.at_ms >= bindparam("from_ms"), _rows.at_ms < bindparam("to_ms"))
    .where(_rows.step > bindparam("after"), _rows.step <= bindparam("until"))
    .order_by(_rows.step.desc())
    .limit(bindparam("most"))
)
"""Of one topic; made once, since making it takes longer than its rows."""


def marks(connection: Connection, from_ms: int, to_ms: int, most: int = MARKS_MAX) -> list[Mark]:
    """The newest marks from one time to another, the oldest of them first, in steps as fine as there are; what happens
    several times within a step is one mark.
    """
    resolution = resolution_of(newest_s(connection), from_ms, to_ms, STEPS_MAX)
    step_s = resolution.step_s
    inside = {"step_s": step_s, "from_ms": from_ms, "to_ms": to_ms, "most": most}
    inside |= {"after": from_ms // 1000 - step_s, "until": to_ms // 1000}
    found: list[MarkRow] = []
    for topic in sorted(_TOPICS):
        found += [MarkRow(*row) for row in connection.execute(_NEWEST, inside | {"topic": topic})]
    newest_first = sorted(found, key=lambda row: (row.at_ms, row.topic, row.offset, row.shape), reverse=True)
    kinds = kinds_of(connection)
    return [_mark(row, kinds) for row in reversed(newest_first[:most])]


def _mark(row: MarkRow, kinds: Kinds) -> Mark:
    items: list[Item] = msgspec.json.decode(row.items)
    text = _SENTENCES[row.shape](row.count, items, kinds)
    links = list(dict.fromkeys(link for item in items for link in _links(item)))
    return {
        "at": at(row.at_ms),
        "shape": row.shape,
        "at_ms": row.at_ms,
        "step_ms": row.step_s * 1000,
        "position": f"{_TOPICS[row.topic]}:{row.offset}",
        "count": row.count,
        "text": text,
        "links": [list(link) for link in links],
    }


def _links(item: Item) -> list[tuple[str, str]]:
    return [(kind, item[name]) for name, kind in _LINKS.items() if name in item]


def _some(names: Sequence[str], count: int) -> str:
    return listed(names, NAMED, count)


def _hosts(what: str) -> Callable[[int, list[Item], Kinds], str]:
    def sentence(count: int, items: list[Item], _: Kinds) -> str:
        codes = list(dict.fromkeys(item["code"] for item in items if "code" in item))
        why = f": {', '.join(codes)}" if codes else ""
        names = [item["host_id"] for item in items]
        return f"Host {names[0]} {what}{why}" if count == 1 else f"{count} hosts {what}{why} ({_some(names, count)})"

    return sentence


def _restarts(count: int, items: list[Item], _: Kinds) -> str:
    said = [f"Machine {item['machine']} restarted by {item['claimant']}, epoch {item['epoch']}" for item in items]
    return _some(said, count)


def _preemptions(count: int, items: list[Item], _: Kinds) -> str:
    said = [f"{plural(item['runs'], 'run')} of {item['from']} preempted {_whom(item)}" for item in items]
    left = count - sum(item["runs"] for item in items[:NAMED])
    return ", ".join(said[:NAMED]) + (f" and {plural(left, 'other run')}" if left > 0 else "")


def _whom(item: Item) -> str:
    aside = "as a host offers less than its runs hold, or their device was set aside"
    return f"for {item['for']}" if item["for"] else aside


def _campaigns(count: int, items: list[Item], _: Kinds) -> str:
    return _some([f"Maintenance {item['maintenance_id']} {item['state']}: {item['code']}" for item in items], count)


def _windows(count: int, items: list[Item], _: Kinds) -> str:
    words = {"OPEN": "opened", "CLOSED": "closed", "MISSED": "was missed"}
    return _some([f"Window {item['window_id']} {words[item['state']]}" for item in items], count)


def _failures(count: int, items: list[Item], _: Kinds) -> str:
    if count > 1:
        return f"{count} jobs failed: {_some([item['job_id'] for item in items], count)}"
    [item] = items
    code = item.get("exit_code", -1)
    why = f", task {item['instance']} with exit code {code}" if code >= 0 and item["instance"] >= 0 else ""
    return f"Job {item['job_id']} failed{why}"


def _changes(count: int, items: list[Item], kinds: Kinds) -> str:
    return _some([_change(item, kinds) for item in items], count)


def _change(item: Item, kinds: Kinds) -> str:
    if "settings" in item:
        return f"Settings of the cell changed: {', '.join(item['settings'])}"
    if item.get("removed"):
        return f"Pool {item['path']} removed"
    if item.get("defined"):
        return f"Pool {item['path']} defined"
    changes = [_pair(name, pair[0], pair[1], kinds) for name, pair in item["changes"].items()]
    return f"Pool {item['path']}: {_some(changes, len(changes))}" if changes else f"Pool {item['path']} defined again"


def _pair(name: str, before: Any, after: Any, kinds: Kinds) -> str:
    """A change of a field in words: limit of cpu from 40 to 20."""
    kind, _, resource = name.partition("/")
    if not resource:
        write = write_ms_or_never if name.endswith("_ms") else str
        return f"{name} from {_word(before, write)} to {_word(after, write)}"
    unit = kinds.units.get(resource)
    write = (lambda value: str(write_amount(value, unit))) if unit is not None and kind != "share" else str
    return f"{kind} of {resource} from {_word(before, write)} to {_word(after, write)}"


def _word(value: Any, write: Callable[[Any], str]) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else write(value)


_SENTENCES: dict[str, Callable[[int, list[Item], Kinds], str]] = {
    LOST: _hosts("lost"),
    SILENT: _hosts("silent"),
    SUSPECTED: _hosts("avoided"),
    POLICY: _changes,
    PREEMPTED: _preemptions,
    RESTART: _restarts,
    FAILED: _failures,
    DRAIN: _hosts("began to drain"),
    MAINTENANCE: _campaigns,
    WINDOW: _windows,
}
