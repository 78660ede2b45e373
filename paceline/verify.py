"""Verifies a log: replays every machine from its first record, decides each round again and compares the bytes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from events.codec import CodecError
from events.log import Log, LogError
from paceline.decoded import readable
from paceline.settings import Settings
from processors.fold import HistoryDiffers
from processors.machine import Machine
from processors.replay import Difference, Replay, Replayed

if TYPE_CHECKING:
    from events.embedded import EmbeddedLog
    from events.kafka import KafkaLog

SAY_EVERY_S = 1.0
CONTEXT = 30
"""Characters shown on either side of where two long values part."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one machine, and how many seconds it took."""

    result: Replayed
    seconds: float

    @property
    def events_per_second(self) -> int:
        """Inputs applied per second."""
        return round(self.result.events / self.seconds) if self.seconds else 0

    def body(self) -> dict[str, Any]:
        """As JSON has it."""
        result = self.result
        return {
            "machine": result.machine,
            "rounds": result.rounds,
            "folded": result.folded,
            "decisions": result.decisions,
            "events": result.events,
            "events_per_second": self.events_per_second,
            "hash": result.hash.hex(),
        }


def open_log(settings: Settings) -> Log:
    """The log that settings name, behind its archive where they name one, for reading, whether its cell runs or not.
    Raises `LogError`.
    """
    return with_archive(bare_log(settings), settings.archive)


def with_archive(log: Log, archive: str = "") -> Log:
    """A log with its archive at a URL in front; the log itself where there is none."""
    if not archive:
        return log
    from events.archived import ArchivedLog

    return ArchivedLog(log, archive)


def bare_log(settings: Settings) -> "KafkaLog | EmbeddedLog":
    """The log that settings name without its archive, for reading. Raises `LogError`."""
    if settings.kafka:
        from events.kafka import KafkaLog

        if settings.schema_registry_url:
            from events import registry

            registry.read(settings.schema_registry_url)
        return KafkaLog(settings.kafka, settings.cell, settings.kafka_options)
    return embedded(settings.data, settings.cell)


def embedded(data: Path, cell: int = 0) -> "EmbeddedLog":
    """The embedded log of a data folder, for reading."""
    from events.embedded import EmbeddedLog

    return EmbeddedLog.open_secondary(data / "log", cell)


def verify(
    log: Log, machines: Mapping[str, Callable[[], Machine]], say: Callable[[str], None] | None = None
) -> list[Checked]:
    """Verifies machine after machine, up to the first difference. `say` is told how far it is, once a second."""
    out: list[Checked] = []
    for make in machines.values():
        checked = _one(log, make(), say)
        out.append(checked)
        if checked.result.difference:
            break
    return out


def _one(log: Log, machine: Machine, say: Callable[[str], None] | None) -> Checked:
    run = Replay(machine, log)
    result = run.result
    begun = said = time.perf_counter()
    try:
        for record in run.rounds():
            if say and time.perf_counter() - said > SAY_EVERY_S:
                said = time.perf_counter()
                say(f"{machine.name}: round {record.round}, {result.events} events")
    except (LogError, HistoryDiffers, CodecError) as error:
        number = run.fold.own.round
        result.difference = Difference(machine.name, number, 0, None, None, f"the log can't be replayed: {error}")
    return Checked(result, time.perf_counter() - begun)


def difference_body(found: Difference) -> dict[str, Any]:
    """A difference as JSON has it, both sides decoded."""
    return {
        "machine": found.machine,
        "round": found.round,
        "index": found.index,
        "reason": found.reason,
        "recorded": readable(found.recorded) if found.recorded is not None else None,
        "decided": readable(found.decided) if found.decided is not None else None,
    }


def side_by_side(found: Difference) -> list[tuple[str, str, str, str]]:
    """Per field: a mark where the sides differ, the name, what was recorded, what was decided again."""
    body = difference_body(found)
    recorded, decided = body["recorded"] or {}, body["decided"] or {}
    rows = []
    for name in {**recorded, **decided}:
        old, new = (str(side[name]) if name in side else "(nothing)" for side in (recorded, decided))
        mark = "" if old == new else "≠"
        rows.append((mark, name, *_near(old, new)))
    return rows


def _near(old: str, new: str) -> tuple[str, str]:
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
