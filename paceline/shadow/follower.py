"""Follows a running cell by a worker that decides its rounds otherwise, and sums up what differs.

The worker is started again where it has ended, and goes on where it was. Nothing is written to the cell.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace
from prometheus_client import Counter, Gauge

from events.process.health import Health
from paceline.client.errors import PacelineError, Unreachable
from paceline.client.json_type import Json
from paceline.history.build_protocol import Changed, Differs, Hello, Message, Reached, Stopped
from paceline.history.findings import Findings, how, round_body
from paceline.history.other_build import Worker, WorkerEnded
from paceline.history.own_passes import OwnPasses

RESTART_S = 2.0
TRIES_MAX = 5
"""So often a worker is started without getting any further."""
BEHIND_MAX = 1000
"""A shadow that has more records of a machine's topic before it isn't ready."""
LABELS = ("cell", "machine", "by", "alike")
ROUNDS = Counter(
    "paceline_shadow_rounds_total", "Rounds that a build or a change has decided too, by whether alike.", LABELS
)
LAG = Gauge("paceline_shadow_lag_records", "Records of a machine's topic not compared yet.", ("cell", "machine", "by"))
ROUNDS_SHOWN = 50
Start = Callable[[Mapping[str, int]], Worker]
"""Starts a worker from offsets in the topics of the machines on."""


@dataclass
class Shadow:
    """The findings so far. `by`: build or change; `positions`: where each machine goes on."""

    cell: int
    by: str
    side: str
    """The one who decides, in words."""
    positions: dict[str, int]
    say: Callable[[str], None]
    findings: Findings = field(default_factory=Findings)
    version: str = ""
    lines: list[str] = field(default_factory=list)
    """The change in words."""
    restarts: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: set[tuple[str, str]] = set()

    def run(self, start: Start, passes: OwnPasses, stop: threading.Event) -> None:
        """Follows until `stop` is set. Raises `InvalidValue` where the other side can't be asked, `PacelineError` where
        a machine can't go on or the worker ends again and again.
        """
        tries = 0
        while not stop.is_set():
            before = dict(self.positions)
            try:
                self._follow(start, passes, stop)
                return
            except (WorkerEnded, Unreachable) as error:
                if stop.is_set():
                    return
                tries = 0 if before != self.positions else tries + 1
                if tries >= TRIES_MAX or (not self.version and isinstance(error, Unreachable)):
                    raise
                self.say(f"{error} It is started again.")
                with self._lock:
                    self.restarts += 1
                    self.findings.restarted()
                stop.wait(RESTART_S)

    def health(self) -> Health:
        """Ready: each machine is near the end of its topic."""
        with self._lock:
            behind = {name: max(0, each.end - each.position) for name, each in self.findings.machines.items()}
        is_ready = behind.keys() == self.positions.keys() and max(behind.values(), default=0) <= BEHIND_MAX
        return Health(bool(self.version), is_ready, {"behind": behind})

    def body(self) -> Json:
        """All that is known, as JSON has it."""
        with self._lock:
            return {
                "cell": self.cell,
                "by": self.by,
                "side": self.side,
                "build": self.version,
                "change": self.lines,
                "restarts": self.restarts,
                **self.findings.body(),
                "differences": [round_body(each) for each in self.findings.rounds[-ROUNDS_SHOWN:]],
            }

    def _follow(self, start: Start, passes: OwnPasses, stop: threading.Event) -> None:
        with start(dict(self.positions)) as worker:
            for message in worker.messages():
                if isinstance(message, Differs):
                    message = replace(message, parts=passes.of_the_pass(message))
                self._take(message)
                if stop.is_set():
                    return

    def _take(self, message: Message) -> None:
        if isinstance(message, Stopped):
            raise PacelineError(f"{message.machine} can't be followed after round {message.round}: {message.reason}")
        with self._lock:
            if isinstance(message, Hello):
                self.version = message.build
            elif isinstance(message, Changed):
                self.lines = message.lines
            elif isinstance(message, Reached | Differs):
                self._count(message)
        if isinstance(message, Differs):
            self._tell(message)

    def _count(self, message: Reached | Differs) -> None:
        name, machines = message.machine, self.findings.machines
        before = (machines[name].compared, machines[name].alike) if name in machines else (0, 0)
        self.findings.take(message)
        counts, labels = machines[name], (str(self.cell), name, self.by)
        alike = counts.alike - before[1]
        ROUNDS.labels(*labels, "yes").inc(alike)
        ROUNDS.labels(*labels, "no").inc(counts.compared - before[0] - alike)
        LAG.labels(*labels).set(max(0, counts.end - counts.position))
        self.positions[name] = max(self.positions[name], counts.position)

    def _tell(self, message: Differs) -> None:
        """A line for the first difference of each kind."""
        texts = {part.kind: f"{part.kind} {how(part)}" for part in message.parts} or {"": message.fault or "order"}
        for kind, text in texts.items():
            if (message.machine, kind) not in self._kinds:
                self._kinds.add((message.machine, kind))
                self.say(f"{message.machine} round {message.round} differs: {text}")
