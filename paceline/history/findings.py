"""Differences between what a cell decided and what another would have, summed up: one finding for each kind, pool and
job, from the first round in which it differs to the last.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from events.records.rounds import TimerPassed
from paceline.client.json_type import Json
from paceline.history.build_protocol import Differs, Message, Part, Reached, Stopped
from paceline.moments.log_cut import write_time

FINDINGS_MAX = 10_000
"""Those that come when there are so many are counted as one, of no job."""
ROUNDS_MAX = 10_000
"""So many of the rounds that differ are kept one by one."""


class Key(NamedTuple):
    """The subject of a finding; pool and job may be empty."""

    machine: str
    kind: str
    pool: str
    job: str


@dataclass(slots=True)
class Finding:
    """A difference over the rounds in which it stands. `more`, `less`, `other`: in how many the decision is only the
    other side's, only the recorded one, and another.
    """

    key: Key
    first: Differs
    last: Differs
    first_at: int
    last_at: int
    """The number of its first and last round among those of the machine that were compared."""
    rounds: int = 0
    more: int = 0
    less: int = 0
    other: int = 0
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    """The decision of the first round, side by side."""

    @property
    def seconds(self) -> float:
        """From its first round to its last."""
        return (self.last.at_ms - self.first.at_ms) / 1000

    @property
    def of_rounds(self) -> int:
        """The rounds of the machine that were compared from its first round to its last."""
        return self.last_at - self.first_at + 1

    @property
    def text(self) -> str:
        """The ways in which it differs."""
        names = {"not recorded": self.more, "only recorded": self.less, "otherwise": self.other}
        return ", ".join(name for name, count in names.items() if count)


@dataclass(slots=True)
class MachineCounts:
    """The rounds of a machine so far; `differing` of them by another side."""

    round: int = 0
    position: int = 0
    end: int = 0
    at_ms: int = 0
    compared: int = 0
    alike: int = 0
    other_logic: int = 0
    events: int = 0
    fault: str = ""

    @property
    def differing(self) -> int:
        """Rounds that differ."""
        return self.compared - self.alike


class Findings:
    """Takes messages of a worker; those of a second worker go on where the first one ended (`restarted`)."""

    def __init__(self) -> None:
        self.machines: dict[str, MachineCounts] = {}
        self.findings: dict[Key, Finding] = {}
        self.rounds: list[Differs] = []
        self._before: dict[str, tuple[int, int, int, int]] = {}
        """Counts of the workers before this one."""

    def restarted(self) -> None:
        """Another worker begins to count at 0."""
        for name, each in self.machines.items():
            self._before[name] = each.compared, each.alike, each.other_logic, each.events

    def take(self, message: Message) -> None:
        """Takes how far a worker is, a difference, or why a machine stands."""
        if not isinstance(message, Reached | Differs | Stopped):
            return
        counts = self.machines.setdefault(message.machine, MachineCounts())
        counts.round = message.round
        if isinstance(message, Stopped):
            counts.fault = message.reason
            return
        compared, alike, other_logic, events = self._before.get(message.machine, (0, 0, 0, 0))
        counts.at_ms = message.at_ms
        counts.compared, counts.alike = compared + message.compared, alike + message.alike
        counts.other_logic = other_logic + message.other_logic
        if isinstance(message, Reached):
            counts.position, counts.end, counts.events = message.position, message.end, events + message.events
            return
        counts.position = max(counts.position, message.offset + 1)
        if len(self.rounds) < ROUNDS_MAX:
            self.rounds.append(message)
        for key, part in _keys(message):
            self._add(key, part, message, counts.compared)

    def _add(self, key: Key, part: Part | None, message: Differs, compared: int) -> None:
        if key not in self.findings and len(self.findings) >= FINDINGS_MAX:
            key = Key(key.machine, "others", "", "")
        finding = self.findings.get(key)
        if finding is None:
            finding = self.findings[key] = Finding(
                key, message, message, compared, compared, rows=part.rows if part else []
            )
        if finding.last is not message or not finding.rounds:
            finding.rounds += 1
        finding.last, finding.last_at = message, compared
        if part is None:
            finding.other += 1
            return
        sides = [(s.recorded, s.decided) for s in part.subjects if (s.pool, s.job) == (key.pool, key.job)]
        recorded, decided = sides[0] if sides else (part.recorded, part.decided)
        finding.more += decided and not recorded
        finding.less += recorded and not decided
        finding.other += recorded and decided

    def sorted(self) -> list[Finding]:
        """All findings, those of most rounds first; deadlines for which nothing is decided come last."""
        return sorted(
            self.findings.values(),
            key=lambda each: (each.key.kind == TimerPassed.__name__, -each.rounds, each.first.at_ms, each.key),
        )

    @property
    def compared(self) -> int:
        """Rounds compared."""
        return sum(each.compared for each in self.machines.values())

    @property
    def differing(self) -> int:
        """Rounds that differ."""
        return sum(each.differing for each in self.machines.values())

    @property
    def faults(self) -> dict[str, str]:
        """Why machines stand, by machine."""
        return {name: each.fault for name, each in self.machines.items() if each.fault}

    def body(self) -> Json:
        """As JSON has it."""
        return {
            "rounds": self.compared,
            "differing": self.differing,
            "machines": [
                {
                    "machine": name,
                    "round": each.round,
                    "behind": max(0, each.end - each.position),
                    "at": write_time(each.at_ms) if each.at_ms else None,
                    "rounds": each.compared,
                    "differing": each.differing,
                    "other_logic": each.other_logic,
                    "events": each.events,
                    "fault": each.fault or None,
                }
                for name, each in self.machines.items()
            ],
            "findings": [finding_body(each) for each in self.sorted()],
        }


def finding_body(finding: Finding) -> Json:
    """A finding as JSON has it."""
    return {
        "machine": finding.key.machine,
        "kind": finding.key.kind,
        "pool": finding.key.pool or None,
        "job_id": finding.key.job or None,
        "rounds": finding.rounds,
        "of_rounds": finding.of_rounds,
        "not_recorded": finding.more,
        "only_recorded": finding.less,
        "otherwise": finding.other,
        "first": _place(finding.first),
        "last": _place(finding.last),
        "seconds": finding.seconds,
        "fields": [dict(zip(("mark", "field", "recorded", "decided"), row, strict=True)) for row in finding.rows],
    }


def round_body(differs: Differs) -> Json:
    """A round that differs as JSON has it."""
    return {
        **_place(differs),
        "machine": differs.machine,
        "logic": differs.logic,
        "index": differs.index,
        "fault": differs.fault or None,
        "decisions": [
            {"kind": part.kind, "index": part.index if part.recorded else None, "how": how(part)}
            for part in differs.parts
        ],
    }


def how(part: Part) -> str:
    """The way in which a decision differs, in words."""
    if part.recorded and part.decided:
        return "otherwise"
    return "only recorded" if part.recorded else "not recorded"


def _place(differs: Differs) -> Json:
    return {"round": differs.round, "offset": differs.offset, "at": write_time(differs.at_ms)}


def _keys(differs: Differs) -> Iterator[tuple[Key, Part | None]]:
    """The subjects of a round that differs, each once."""
    if differs.fault or not differs.parts:
        yield Key(differs.machine, "fault" if differs.fault else "order", "", ""), None
    keys = set()
    for part in differs.parts:
        for subject in part.subjects:
            key = Key(differs.machine, part.kind, subject.pool, subject.job)
            if key not in keys:
                keys.add(key)
                yield key, part
