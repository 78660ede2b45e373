"""Rounds of the four machines, and facts, as marks on a time axis: a lane each, arrows from what led to what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import log10
from typing import NamedTuple

from events.topics import rounds_of
from events.words import plural
from projections.queries.rounds import Round

FACTS = "facts"
LANES = (FACTS, "entitlement", "placement", "sla", "lifecycle")
LEFT, WIDTH, LANE, TOP, MARK = 110.0, 1230.0, 34, 14, 20
"""Where the axis begins, how long it is, the distance of lanes, where the first begins, the height of a mark."""
MANY = 3.0
"""A mark has its full height at a thousand decisions."""
WIDE = 5.0
ARROWS_MAX = 150
APART = 8.0
TICK = 180.0
Key = tuple[str, int]
"""Lane, and number of the round or offset of the fact."""


class Mark(NamedTuple):
    """A round or a fact. `kind`: this, chain, or empty."""

    key: Key
    x: float
    y: float
    height: float
    kind: str
    path: str
    """The path of its page; empty: it has none."""
    title: str
    label: str


@dataclass
class Lanes:
    """The parts of the drawing; `ticks` are places and times of some marks."""

    names: list[tuple[str, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    arrows: dict[Key, list[str]] = field(default_factory=dict)
    """The arrows to each mark from its causes."""
    ticks: list[tuple[float, str]] = field(default_factory=list)


class Fact(NamedTuple):
    """A fact that led to something."""

    topic: str
    offset: int
    at_ms: int


def lanes_of(
    rounds: Sequence[Round],
    links: Iterable[tuple[Key, Key]],
    facts: Sequence[Fact] = (),
    this: Key | None = None,
    chain: Iterable[Key] = (),
) -> Lanes | None:
    """The drawing of some rounds and facts; `links`: from cause to effect, those between marks that are shown become
    arrows. None: there is nothing to draw.
    """
    places = _places(rounds, facts)
    if not places:
        return None
    lanes = Lanes([(name, TOP + LANE * at) for at, name in enumerate(LANES)])
    in_chain = set(chain)
    for fact in facts:
        label = f"{fact.topic.removeprefix('paceline.')}:{fact.offset}"
        key = (fact.topic, fact.offset)
        lanes.marks.append(_mark(places[key], FACTS, key, 1, "chain", "", label, label))
    for each in rounds:
        key = (each.machine, each.number)
        kind = "this" if key == this else "chain" if key in in_chain else ""
        title = f"{each.machine} round {each.number}: {plural(each.decisions, 'decision')}"
        path = f"/rounds/{each.machine}/{each.number}"
        label = str(each.number) if kind else ""
        lanes.marks.append(_mark(places[key], each.machine, key, each.decisions, kind, path, title, label))
    by_key = {mark.key: mark for mark in lanes.marks}
    arrows_shown = [(by_key[cause], by_key[effect]) for cause, effect in links if cause in by_key and effect in by_key]
    for cause, effect in arrows_shown[-ARROWS_MAX:]:
        if cause.key != effect.key:
            lanes.arrows.setdefault(effect.key, []).append(_arrow(cause, effect))
    lanes.ticks = _ticks(rounds, facts, places)
    return lanes


def taken_in(rounds: Sequence[Round], before: dict[Key, Round]) -> list[tuple[Key, Key]]:
    """Pairs of rounds of which one took the other in; `before`: the round before each."""
    at = {(rounds_of(each.machine), each.offset): (each.machine, each.number) for each in rounds}
    links = []
    for each in rounds:
        last = before.get((each.machine, each.number))
        for (topic, offset), key in at.items():
            start = last.ends.get(topic, 0) if last else 0
            if key[0] != each.machine and start <= offset < each.ends.get(topic, 0):
                links.append((key, (each.machine, each.number)))
    return links


def _places(rounds: Sequence[Round], facts: Sequence[Fact]) -> dict[Key, float]:
    """Where each mark begins: by its time, those of one moment side by side in the order of cause and effect."""
    depths: list[tuple[int, int, Key]] = [(each.at_ms, each.depth, (each.machine, each.number)) for each in rounds]
    depths += [(each.at_ms, 0, (each.topic, each.offset)) for each in facts]
    depths.sort()
    span = max(1, depths[-1][0] - depths[0][0]) if depths else 1
    places: dict[Key, float] = {}
    last = LEFT - APART
    for at_ms, _, key in depths:
        last = max(last + APART, LEFT + (at_ms - depths[0][0]) / span * WIDTH)
        places[key] = last
    scale = min(1.0, WIDTH / max(1.0, last - LEFT))
    return {key: round(LEFT + (x - LEFT) * scale, 1) for key, x in places.items()}


def _mark(x: float, lane: str, key: Key, size: int, kind: str, path: str, title: str, label: str) -> Mark:
    height = round(6 + (MARK - 6) * min(1.0, log10(1 + size) / MANY), 1)
    return Mark(key, x, TOP + LANE * LANES.index(lane) + MARK - height, height, kind, path, title, label)


def _arrow(cause: Mark, effect: Mark) -> str:
    x1, y1, x2, y2 = cause.x + WIDE, cause.y + cause.height / 2, effect.x - 1, effect.y + effect.height / 2
    bend = max(12.0, min(60.0, abs(x2 - x1) / 2))
    return f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _ticks(rounds: Sequence[Round], facts: Sequence[Fact], places: dict[Key, float]) -> list[tuple[float, str]]:
    """Places and times of marks that are far enough from each other."""
    times = {(each.machine, each.number): each.at_ms for each in rounds}
    times |= {(each.topic, each.offset): each.at_ms for each in facts}
    out: list[tuple[float, str]] = []
    for key in sorted(places, key=places.__getitem__):
        if not out or places[key] - out[-1][0] >= TICK:
            time = datetime.fromtimestamp(times[key] / 1000, UTC)
            out.append((places[key], f"{time:%H:%M:%S}.{time.microsecond // 1000:03d}"))
    return out
