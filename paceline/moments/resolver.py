"""Finds where the topics of each cell ended at a moment."""

import time
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from events.acceptance import ROUND, RoundKey, parse
from events.log.port import Log, LogRecord
from events.topics import ALL, rounds_of
from paceline.moments.log_cut import before, closed, up_to, write_time
from paceline.moments.moment_text import AtPosition, AtRound, AtTime, BadMoment, read_moment
from projections.api.moments import NOT_OVER, Moment
from projections.api.problems import Problem, wrong_cell

SETTLE_MS = 2000
"""So long after a millisecond records of it may still come: logs give a record its time before others see it."""
KEPT_MAX = 256
"""Moments that are remembered; the past doesn't change."""
STRAYS_MAX = 100
"""So far after the place where a round should be it is looked for: late rounds of other processes may lie there."""


class Past(NamedTuple):
    """The past of a cell: its log behind its archive, and the time at which it begins where that isn't the log's, in
    milliseconds since 1970.
    """

    log: Log
    since_ms: int = 0


class Resolver:
    """Resolves texts for the cells of one server."""

    def __init__(self, cells: Mapping[int, Past]) -> None:
        self._cells = cells
        self._known: dict[str, Moment] = {}

    def resolve(self, text: str) -> Moment:
        """The moment that a text names. Raises a problem."""
        moment = self._known.get(text)
        if moment is None:
            moment = self._found(text)
            if _age_ms(moment.at_ms) >= SETTLE_MS:
                if len(self._known) >= KEPT_MAX:
                    self._known.clear()
                self._known[text] = moment
        return moment

    def _found(self, text: str) -> Moment:
        try:
            place = read_moment(text)
        except BadMoment as error:
            raise Problem(400, "BAD_MOMENT", str(error), [("/query/at", "no moment")]) from error
        if isinstance(place, AtTime):
            return self._at_time(place.ms)
        cell = self._cell_of(place.cell, text)
        if isinstance(place, AtRound):
            where, record = f"{place.machine}/round/{place.number}", self._round(cell, place)
        else:
            where, record = f"{place.topic}:{place.offset}", self._record(cell, place)
        where = (
            f"{place.machine}/round/{place.number}" if isinstance(place, AtRound) else f"{place.topic}:{place.offset}"
        )
        return Moment(f"{cell}/{where}", record.at_ms, self._ends(record.at_ms, {cell: record}))

    def _at_time(self, ms: int) -> Moment:
        if (age := _age_ms(ms)) < 0:
            detail = f"{write_time(ms)} is in the future: it is {write_time(ms + age)}"
            raise Problem(400, "FUTURE_MOMENT", detail, [("/query/at", "in the future")])
        return Moment(write_time(ms), ms, self._ends(ms, {}))

    def _ends(self, ms: int, last: Mapping[int, LogRecord]) -> dict[int, dict[str, int]]:
        """Where all topics ended after a millisecond; of some cells a record of it is the last of its topic. Raises a
        problem where no cell has anything of that time, or records of it may still come. A record of the future is
        not waited for: clocks differ.
        """
        if 0 <= _age_ms(ms) < SETTLE_MS:
            detail = f"records of {write_time(ms)} may still come; ask again {SETTLE_MS // 1000} s after it"
            raise Problem(503, NOT_OVER, detail, headers={"Retry-After": "1"})
        ends = {}
        for cell, past in self._cells.items():
            record = last.get(cell)
            ends[cell] = closed(past.log, up_to(past.log, record) if record else before(past.log, ms + 1))
        if not any(self._begun(past, ends[cell], ms) for cell, past in self._cells.items()):
            raise self._too_early(ms)
        return ends

    @staticmethod
    def _begun(past: Past, ends: Mapping[str, int], ms: int) -> bool:
        if past.since_ms:
            return ms >= past.since_ms
        return any(end > past.log.bounds(topic)[0] for topic, end in ends.items())

    def _too_early(self, ms: int) -> Problem:
        cells = self._cells.values()
        removed = any(past.since_ms or any(past.log.bounds(topic.name)[0] for topic in ALL) for past in cells)
        begins = min(filter(None, map(_first_ms, cells)), default=0)
        what = f"the log begins at {write_time(begins)}" if begins else "there is no record yet"
        if removed:
            return Problem(410, "GONE", f"{what}; what was at {write_time(ms)} is no longer there")
        return Problem(404, "NO_SUCH_MOMENT", f"{what}: there was nothing at {write_time(ms)}")

    def _cell_of(self, cell: int | None, text: str) -> int:
        if cell is None and len(self._cells) > 1:
            listed = ", ".join(map(str, self._cells))
            detail = f"say of which cell {text} is, as in {next(iter(self._cells))}/{text}; this server serves {listed}"
            raise Problem(400, "BAD_MOMENT", detail, [("/query/at", "no cell")])
        if cell is not None and cell not in self._cells:
            raise wrong_cell(text, cell, list(self._cells))
        return next(iter(self._cells)) if cell is None else cell

    def _record(self, cell: int, position: AtPosition) -> LogRecord:
        start, end = self._cells[cell].log.bounds(position.topic)
        if position.offset < start:
            detail = f"{position.topic} of cell {cell} starts at {start}: {position.offset} is no longer there"
            raise Problem(410, "GONE", detail)
        record = (
            next(self._cells[cell].log.scan(position.topic, position.offset), None) if position.offset < end else None
        )
        if record is None:
            last = f"its last record is {position.topic}:{end - 1}" if end > start else "it has no records yet"
            raise Problem(
                404, "NO_SUCH_MOMENT", f"there is no {position.topic}:{position.offset} in cell {cell}; {last}"
            )
        return record

    def _round(self, cell: int, wish: AtRound) -> LogRecord:
        """The record of a round: round numbers grow along the topic."""
        log, topic = self._cells[cell].log, rounds_of(wish.machine)
        start, end = log.bounds(topic)
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            record = next(log.scan(topic, middle), None)
            key = parse(record.key) if record is not None else None
            if record is not None and (key is None or _before(key, wish.number)):
                low = record.offset + 1
            else:
                high = middle
        near = islice(log.scan(topic, low), STRAYS_MAX) if low < end else ()
        candidates = [(key.epoch, each) for each in near if (key := parse(each.key)) and _is(key, wish.number)]
        if candidates:
            return max(candidates, key=lambda pair: pair[0])[1]
        if start and wish.number < min(_numbers(log, topic, start), default=0):
            raise Problem(410, "GONE", f"{topic} of cell {cell} begins after round {wish.number}")
        last = max(_numbers(log, topic, max(start, end - STRAYS_MAX)), default=0)
        what = f"its last round is {last}" if last else "it has decided nothing yet"
        raise Problem(404, "NO_SUCH_MOMENT", f"{wish.machine} of cell {cell} has no round {wish.number}; {what}")


def _age_ms(ms: int) -> int:
    return time.time_ns() // 1_000_000 - ms


def _numbers(log: Log, topic: str, start: int) -> list[int]:
    """Numbers of the rounds that stand in a topic near an offset."""
    keys = (parse(record.key) for record in islice(log.scan(topic, start), STRAYS_MAX))
    return [key.round for key in keys if key is not None and key.kind == ROUND]


def _first_ms(past: Past) -> int:
    """The time that a cell begins at; 0: there is nothing yet."""
    if past.since_ms:
        return past.since_ms
    bounds = {topic.name: past.log.bounds(topic.name) for topic in ALL}
    firsts = (next(past.log.scan(name, start)) for name, (start, end) in bounds.items() if end > start)
    return min((record.at_ms for record in firsts), default=0)


def _before(key: RoundKey, number: int) -> bool:
    """Whether a claim or round stands before the round of a number; a claim names the last round before it."""
    return key.round < number


def _is(key: RoundKey, number: int) -> bool:
    return key.kind == ROUND and key.round == number
