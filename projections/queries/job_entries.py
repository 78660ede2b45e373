"""The history of a job as the views have it, entry by entry from either end: only rows that are needed are read."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection

from events.actors import writer_of
from events.codec import decode
from events.records import BY_NAME
from events.topics import ALL
from paceline.client.json_type import Json
from paceline.client.models import ActorName, HistoryEntry
from projections.actor_names import from_kept
from projections.record_json import at
from projections.views.job_records import JobEntry, entries_in
from projections.views.reader import rows_as_text

_OLDEST = "SELECT number, first_ms FROM history WHERE job_id = ? AND last_ms >= ? ORDER BY first_ms, number"
_NEWEST = "SELECT number, last_ms FROM history WHERE job_id = ? AND first_ms <= ? ORDER BY last_ms DESC, number DESC"
_ENTRIES = "SELECT entries FROM history WHERE job_id = ? AND number = ?"
_END_MS = 1 << 62
LOOKED_AT_MAX = 5_000
"""Entries that are looked at for a page of what some actors did."""

Key = tuple[int, ...]
"""The order of a history: at_ms, depth, topic, offset, place."""


class ByActors:
    """Those of the next LOOKED_AT_MAX entries that some actors have written; all of all entries where none are asked
    for. `cut_at`: the key of the last one that was looked at where there may be more behind it; else None.
    """

    def __init__(self, entries: Iterator[JobEntry], actors: Collection[str]) -> None:
        self._entries = entries
        self._actors = actors
        self.cut_at: Key | None = None

    def __iter__(self) -> Iterator[JobEntry]:
        if not self._actors:
            yield from self._entries
            return
        for number, entry in enumerate(self._entries, 1):
            if _writer(entry) in self._actors:
                yield entry
            if number == LOOKED_AT_MAX:
                self.cut_at = entry[:5]
                return


def _writer(entry: JobEntry) -> str:
    """The subject of who has written an entry; empty: it doesn't say."""
    if isinstance(entry.said, bytes):
        return writer_of(decode(entry.said)) if "actor" in BY_NAME[entry.event].__struct_fields__ else ""
    actor = from_kept((entry.said or {}).get("actor"))
    return "" if actor is None else actor.subject


def entry_json(entry: JobEntry, actor: ActorName | None, text: str, detail: Json) -> HistoryEntry:
    """An entry as answers have it."""
    topic = ALL[entry.topic]
    return {
        "position": f"{topic.name}:{entry.offset}",
        "at": at(entry.at_ms),
        "machine": topic.machine,
        "round": entry.round if topic.machine else None,
        "index": entry.place if topic.machine else None,
        "event": entry.event,
        "actor": actor,
        "text": text,
        "detail": detail,
    }


def oldest_first(connection: Connection, job_id: str, after: Sequence[int] | None = None) -> Iterator[JobEntry]:
    """The entries of a job, those after a key."""
    begin = tuple(after or ())
    spans = list(rows_as_text(connection, _OLDEST, (job_id, begin[0] if begin else 0)))
    held: list[JobEntry] = []
    for index, (number, _) in enumerate(spans):
        held += [entry for entry in _of_row(connection, job_id, number) if entry[:5] > begin]
        held.sort(reverse=True)
        limit = spans[index + 1][1] if index + 1 < len(spans) else _END_MS
        while held and held[-1].at_ms < limit:  # no later row has an entry before this one
            yield held.pop()


def newest_first(connection: Connection, job_id: str, before: Sequence[int] | None = None) -> Iterator[JobEntry]:
    """The entries of a job in the other order, those before a key."""
    end = tuple(before or (_END_MS,))
    spans = list(rows_as_text(connection, _NEWEST, (job_id, end[0])))
    held: list[JobEntry] = []
    for index, (number, _) in enumerate(spans):
        held += [entry for entry in _of_row(connection, job_id, number) if entry[:5] < end]
        held.sort()
        limit = spans[index + 1][1] if index + 1 < len(spans) else -1
        while held and held[-1].at_ms > limit:
            yield held.pop()


def _of_row(connection: Connection, job_id: str, number: int) -> Iterator[JobEntry]:
    for (data,) in rows_as_text(connection, _ENTRIES, (job_id, number)):
        yield from entries_in(data)
