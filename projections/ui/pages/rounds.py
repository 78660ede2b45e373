"""Rounds: those of the four machines by time, and one of them with all that it knew and decided."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from events.acceptance import digest
from events.codec import CodecError, decode
from events.codes import Code
from events.log.lookup import record_at, records
from events.log.port import LogGap, LogRecord
from events.records.parts import Cause, Segment
from events.records.rounds import RoundCommitted
from events.resources import Kinds
from events.topics import MACHINES, rounds_of
from projections.api.all_cells import OpenCell
from projections.api.problems import Problem, not_found
from projections.asked_values import whole_number
from projections.queries import rounds, story, why
from projections.queries.log_places import write_place
from projections.queries.resources import kinds_of
from projections.queries.rounds import Round
from projections.queries.story_parts import Line
from projections.record_json import whole
from projections.ui.lanes import Fact, Key, Lanes, lanes_of, taken_in
from projections.ui.page_values import PageValues
from projections.ui.rendering import link
from projections.ui.scene import Action, Page, Scene, Sent
from projections.views.reader import chains_of

PAGE = 50
IN_LANES, LANES_BEFORE, LANES_AFTER_MS = 120, 24, 2000
"""Rounds drawn at most; so many before the one that is shown, and how long after it."""
DECISIONS = 20
ROUND = "/v1/rounds/{machine}/{number}"
"""The route that shows the same."""
INPUTS = 3
"""Records of an input that are told."""
RECORD_CHARACTERS = 4000
REPLAY_WAIT_S = 3.0
"""Seconds for which the page waits for a round that is replayed."""


def load_list(scene: Scene) -> PageValues:
    """Rounds, the newest first; of one machine, where one is named."""
    scene.first().context.permits.read(ROUND)
    connection = scene.first().connection
    machine = scene.query.get("machine", "")
    machines = (machine,) if machine in MACHINES else MACHINES
    last = _round_named(scene, scene.query["before"]) if "before" in scene.query else None
    rows = rounds.before(connection, machines, PAGE + 1, last)
    page_rows, oldest = rows[:PAGE], rows[PAGE - 1] if len(rows) > PAGE else None
    last_ones = rounds.previous(connection, page_rows)
    return {
        "machine": machine if machine in MACHINES else "",
        "machines": MACHINES,
        "standing": {name: (epoch, number) for name, epoch, number in chains_of(connection)},
        "rounds": [(each, rounds.inputs(each, last_ones.get((each.machine, each.number)))) for each in page_rows],
        "lanes": lanes_of(page_rows[::-1], taken_in(page_rows[::-1], last_ones)),
        "older": f"{oldest.machine}/{oldest.number}" if oldest else None,
        "cell": scene.query.get("cell"),
    }


def _round_named(scene: Scene, text: str) -> Round:
    machine, _, number = text.partition("/")
    round_ = _find(scene.first(), machine, number)
    if round_ is None:
        raise not_found("round", text)
    return round_


def _find(cell: OpenCell, machine: str, number: str) -> Round | None:
    wish = whole_number(number)
    if machine not in MACHINES or wish is None:
        return None
    return rounds.round_of(cell.connection, machine, wish)


def _missing(scene: Scene, machine: str, number: str) -> Problem:
    """Why a round isn't shown: it is yet to come, or no longer kept."""
    last = {name: newest for name, _, newest in chains_of(scene.first().connection)}.get(machine)
    wish = whole_number(number)
    if last is None or not wish:
        return not_found("round", f"{number} of {machine}")
    if wish > last:
        when = "was not decided yet at the moment that is shown" if scene.at else "is not decided yet"
        newest = f"the last one is round {last}" if last else "there is no round yet"
        return Problem(404, Code.NOT_FOUND, f"round {number} of {machine} {when}: {newest}")
    return not_found("round", f"{number} of {machine} any more: rounds are kept here for seven days")


class Input(NamedTuple):
    """A stretch of a topic that a round took in, and the first records of it."""

    segment: Segment
    lines: list[tuple[str, Line]]
    """Position and sentence."""


class Decision(NamedTuple):
    """A decision of a round. `record`: as JSON; empty where it is too long to be shown."""

    place: int
    name: str
    line: Line
    links: Sequence[tuple[str, str, Line]]
    """The kind of link to each cause, its position and its sentence."""
    record: str


def load_round(scene: Scene) -> PageValues:
    """One round: what it took in, what it decided, and why."""
    cell = scene.first()
    cell.context.permits.read(ROUND)
    machine, number = scene.path["machine"], scene.path["number"]
    round_ = _find(cell, machine, number)
    if round_ is None:
        raise _missing(scene, machine, number)
    record, event = _read(cell, round_)
    first = scene.query.get("from", "0")
    start = whole_number(first, 9) or 0
    indexes = range(start, min(start + DECISIONS, len(event.decisions)))
    starts = [why.Start(Cause(machine=machine, round=round_.number, index=index)) for index in indexes]
    chain = why.chain(cell.connection, cell.context.log, starts)
    by_place = {each.place: each for each in chain.records}
    kinds = kinds_of(cell.connection)
    last = rounds.round_of(cell.connection, machine, round_.number - 1)
    replays = cell.context.replays
    at_work = replays.at_work() if replays else None
    inputs = [_input(cell, segment, kinds) for segment in event.inputs]
    return {
        "round": round_,
        "event": event,
        "hash": _hash_of(record),
        "inputs": inputs,
        "waited_ms": _waited_ms(cell, event, record),
        "decisions": [_decision(by_place, start.place, event, kinds) for start in starts],
        "first": start,
        "more": indexes.stop if indexes.stop < len(event.decisions) else None,
        "lanes": _lanes(cell, round_, chain),
        "taken_in_by": rounds.taken_in_by(cell.connection, round_),
        "earlier": last.number if last else None,
        "later": rounds.round_of(cell.connection, machine, round_.number + 1) is not None,
        "replay": replays.last(machine, round_.number) if replays else None,
        "at_work": at_work if at_work != (machine, round_.number) else None,
        "can_replay": replays is not None,
        "cell": scene.query.get("cell"),
    }


async def decide_again(form: Sent) -> str:
    """Has a round replayed, and leads to its page, which shows the result."""
    machine, number, cell = form.path["machine"], form.path["number"], form.field("cell")
    context = next((each for each in form.contexts.values() if str(each.cell) == cell), None)
    wish = whole_number(number)
    if context is None or wish is None:
        raise not_found("round", f"{number} of {machine} in cell {cell}")
    try:
        await context.replay(machine, wish, REPLAY_WAIT_S)
    except Problem as problem:
        if problem.code != "REPLAY_RUNS":  # the page says which round is at work
            raise
    return f"{link('', f'/rounds/{machine}/{number}', cell=cell if len(form.contexts) > 1 else None)}#live_replay"


def _read(cell: OpenCell, round_: Round) -> tuple[LogRecord, RoundCommitted]:
    try:
        record = record_at(cell.context.log, rounds_of(round_.machine), round_.offset)
        event = decode(record.value) if record else None
    except (LogGap, CodecError) as error:
        raise Problem(
            404, Code.NOT_FOUND, f"round {round_.number} of {round_.machine} can't be read: {error}"
        ) from error
    if record is None or not isinstance(event, RoundCommitted):
        raise not_found("round", f"{round_.number} of {round_.machine} in the log")
    return record, event


def _hash_of(record: LogRecord) -> str:
    return digest(record.value).hex()


def _input(cell: OpenCell, segment: Segment, kinds: Kinds) -> Input:
    end = min(segment.start + INPUTS, segment.end)
    try:
        segment_records = records(cell.context.log, segment.topic, segment.start, end)
    except LogGap:
        return Input(segment, [("", ("the log no longer has these records",))])
    return Input(segment, [(_position(each), _line_of(each, kinds)) for each in segment_records])


def _position(record: LogRecord) -> str:
    return f"{record.topic}:{record.offset}"


def _line_of(record: LogRecord, kinds: Kinds) -> Line:
    try:
        return story.line_of(decode(record.value), kinds)
    except CodecError:
        return (f"{len(record.value)} bytes that can't be read",)


def _waited_ms(cell: OpenCell, event: RoundCommitted, record: LogRecord) -> int | None:
    """Milliseconds that the first record of the round's inputs had waited for it in the log."""
    times = []
    for segment in event.inputs:
        try:
            first = records(cell.context.log, segment.topic, segment.start, segment.start + 1)
        except LogGap:
            return None
        times += [each.at_ms for each in first]
    return record.at_ms - min(times) if times else None


def _decision(chain: Mapping[Cause, why.Record], place: Cause, round_: RoundCommitted, kinds: Kinds) -> Decision:
    event = decode(round_.decisions[place.index])
    links = []
    for each in chain[place].links:
        cause = chain.get(each.cause)
        links.append((each.kind, write_place(each.cause), cause.line if cause else ()))
    text = orjson.dumps(whole(event), option=orjson.OPT_INDENT_2).decode()
    return Decision(place.index, type(event).__name__, story.line_of(event, kinds), links, text[:RECORD_CHARACTERS])


def _lanes(cell: OpenCell, round_: Round, chain: why.Chain) -> Lanes | None:
    """The rounds around one, and of its chain what happened in that time."""
    earlier = rounds.before(cell.connection, MACHINES, LANES_BEFORE, round_)
    from_ms = earlier[-1].at_ms if earlier else round_.at_ms
    around = rounds.between(cell.connection, from_ms, round_.at_ms + LANES_AFTER_MS, IN_LANES)
    keys: dict[Cause, Key] = {each.place: _key(each.place) for each in chain.records}
    facts = {
        keys[each.place]: Fact(each.place.topic, each.place.offset, each.at_ms)
        for each in chain.records
        if each.place.topic and from_ms <= each.at_ms
    }
    links = {(_key(link.cause), keys[each.place]): None for each in chain.records for link in each.links}
    this = (round_.machine, round_.number)
    followed = {(this, (each.machine, each.number)): None for each in rounds.taken_in_by(cell.connection, round_)}
    return lanes_of(around, [*links, *followed], list(facts.values()), this, keys.values())


def _key(place: Cause) -> Key:
    return (place.topic, place.offset) if place.topic else (place.machine, place.round)


ACTIONS = (Action("/rounds/{machine}/{number}/replays", decide_again, "Rounds"),)
PAGES = (
    Page("/rounds", "rounds.html", load_list, "Rounds"),
    Page("/rounds/{machine}/{number}", "round.html", load_round, "Rounds"),
)
