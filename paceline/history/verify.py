"""Verifies a log: replays every machine from its first record, decides each round again and compares the bytes.

One machine after the other in this process, or `verify_apart`: each in a process of its own.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple

from events.codec import decode
from events.log.port import Log, LogError, LogUnavailable
from events.records.parts import Segment
from events.records.rounds import RoundCommitted
from events.topics import rounds_of
from paceline.client.json_type import Json
from paceline.client.operation_models import RoundDifference
from paceline.history.open_log import open_log
from paceline.history.readable import readable
from paceline.history.row_diff import row_body
from paceline.history.start_state import start_of
from paceline.services.settings import Settings
from paceline.worker_processes import Workers
from processors.machine import Machine
from processors.runtime.divergence import Divergence
from processors.runtime.replay import Difference, Mismatch, Replay, Replayed
from processors.runtime.store import MemoryStore

REPORT_SECONDS = 0.2
CONTEXT = 30
"""Characters shown on either side of where two long values part."""


@dataclass(frozen=True, slots=True)
class VerifiedMachine:
    """The result for one machine, and the seconds that it took."""

    result: Replayed
    seconds: float

    @property
    def events_per_second(self) -> int:
        """Inputs applied per second."""
        return round(self.result.events / self.seconds) if self.seconds else 0

    def body(self) -> Json:
        """As JSON has it."""
        result = self.result
        return {
            "machine": result.machine,
            "rounds": result.rounds,
            "begun_after": result.begun,
            "before": result.before,
            "folded": result.folded,
            "decisions": result.decisions,
            "events": result.events,
            "events_per_second": self.events_per_second,
            "hash": result.hash.hex(),
            "difference": _brief(result.difference) if result.difference else None,
        }


def _brief(difference: Difference) -> Json:
    places = [segment_text(each) for each in difference.places]
    return {"round": difference.round, "index": difference.index, "reason": difference.reason, "places": places}


class RoundRange(NamedTuple):
    """The rounds to replay: from `first` to `last`, None: the end of the log."""

    first: int = 1
    last: int | None = None


ALL_ROUNDS = RoundRange()


class Progress(NamedTuple):
    """The progress of a machine: offset in its topic, the end of that, rounds and inputs so far."""

    machine: str
    position: int
    end: int
    round: int
    events: int


Say = Callable[[Progress], None]
MachineFactories = Mapping[str, Callable[[], Machine]]


def verify(
    log: Log,
    machines: MachineFactories,
    say: Say | None = None,
    round_range: RoundRange = ALL_ROUNDS,
    starts: Mapping[str, MemoryStore] | None = None,
) -> list[VerifiedMachine]:
    """Verifies machine after machine, each to its end or first difference. `say` is told how far it is, a few times a
    second; `starts`: the stores that machines begin from, where the log doesn't begin at its start.
    """
    return [_verify_machine(log, make, say, round_range, (starts or {}).get(name)) for name, make in machines.items()]


def verify_in_processes(
    settings: Settings, names: Iterable[str], jobs: int, say: Say | None, round_range: RoundRange
) -> list[VerifiedMachine]:
    """Verifies machines in so many processes at once, all to their ends or first differences."""
    plain = Settings.model_construct(**{name: getattr(settings, name) for name in Settings.model_fields})
    context = get_context("spawn")  # RocksDB and librdkafka have threads, which a fork would lose
    waiting, by_machine = list(names), dict[str, VerifiedMachine]()
    order = list(waiting)
    with Workers[VerifiedMachine](context, say) as workers:
        while waiting or len(workers):
            while waiting and len(workers) < jobs:
                name = waiting.pop(0)
                workers.start(name, _verify_in_worker, plain, name, round_range)
            by_machine |= dict(workers.results())
    return [by_machine[name] for name in order]


def _verify_in_worker(say: Say, settings: Settings, name: str, round_range: RoundRange) -> VerifiedMachine:
    from processors.cell_machines import machines

    log = open_log(settings)
    try:
        return _verify_machine(log, machines(log.cell)[name], say, round_range, start_of(settings.data, name))
    finally:
        log.close()


def _verify_machine(
    log: Log, make: Callable[[], Machine], say: Say | None, round_range: RoundRange, start: MemoryStore | None
) -> VerifiedMachine:
    machine = make()
    own = rounds_of(machine.name)
    end = log.ends([own])[own]
    run = Replay(machine, log, start or MemoryStore(), make)
    result = run.result
    begun = time.perf_counter()
    last_report_s = 0.0
    try:
        for record in run.rounds(first=round_range.first, last=round_range.last):
            if say and time.perf_counter() - last_report_s > REPORT_SECONDS:
                last_report_s = time.perf_counter()
                say(Progress(machine.name, run.fold.own.position, end, record.round, result.events))
    except LogUnavailable:
        raise
    except LogError as error:
        text = f"the log can't be replayed: {error}"
        result.difference = Difference(machine.name, run.fold.own.round, 0, None, None, text, kind=Mismatch.UNREADABLE)
    if say:
        say(Progress(machine.name, end, end, run.fold.own.round, result.events))
    return VerifiedMachine(result, time.perf_counter() - begun)


def root_difference(log: Log, results: Iterable[VerifiedMachine]) -> Difference | None:
    """Finds, among the differences of all machines, the one that the others may follow from: a round that is decided
    otherwise before one whose inputs aren't those it names, and one that was an input of another before that.
    """
    all_ = [each.result.difference for each in results if each.result.difference is not None]
    decided = [each for each in all_ if each.recorded is not None or each.decided is not None]
    causes = [each for each in decided if not any(_followed(log, each, cause) for cause in decided)]
    return next(iter(causes or decided or all_), None)


def _followed(log: Log, later: Difference, earlier: Difference) -> bool:
    """Whether the round of a difference had that of another among its inputs."""
    place, cause = later.places[-1], earlier.places[-1]
    event = decode(next(iter(log.scan(place.topic, place.start))).value)
    inputs = event.inputs if isinstance(event, RoundCommitted) else ()
    return any(each.topic == cause.topic and each.start <= cause.start < each.end for each in inputs)


def difference_body(
    difference: Difference, divergence: Divergence | None = None, machine: Machine | None = None
) -> RoundDifference:
    """A difference as JSON has it, both sides decoded. `parting` and a machine of its kind: for the rows that the
    states differ in.
    """
    return {
        "machine": difference.machine or None,
        "round": difference.round,
        "index": difference.index,
        "reason": difference.reason,
        "places": [segment_text(each) for each in difference.places],
        "recorded": readable(difference.recorded) if difference.recorded is not None else None,
        "decided": readable(difference.decided) if difference.decided is not None else None,
        "states_part_after_round": divergence.round if divergence else None,
        "states_fault": divergence.fault or None if divergence else None,
        "rows": [row_body(row, machine) for row in divergence.rows] if divergence and machine else [],
    }


def segment_text(place: Segment) -> str:
    """topic:offset, or topic:first-last."""
    last = f"-{place.end - 1}" if place.end - place.start > 1 else ""
    return f"{place.topic}:{place.start}{last}"


def side_by_side(difference: Difference) -> list[tuple[str, str, str, str]]:
    """Per field: a mark where the sides differ, the name, the recorded value, the replayed one."""
    body = difference_body(difference)
    recorded, decided = body["recorded"] or {}, body["decided"] or {}
    rows = []
    for name in {**recorded, **decided}:
        old, new = (_written(side[name]) if name in side else "(nothing)" for side in (recorded, decided))
        mark = "" if old == new else "≠"
        rows.append((mark, name, *_context(old, new)))
    return rows


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _context(old: str, new: str) -> tuple[str, str]:
    """Two texts, cut to what surrounds the place where they part."""
    at = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return _cut(old, at), _cut(new, at)


def _cut(text: str, at: int) -> str:
    if len(text) <= 2 * CONTEXT:
        return text
    if at >= len(text):
        at = 0
    start, end = max(0, at - CONTEXT), at + CONTEXT
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
