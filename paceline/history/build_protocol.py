"""The lines between a Paceline that compares rounds and the one, often of another release, that decides them.

`PYTHON -m paceline.history.build_worker` reads one `Order` from standard input and writes a line for each `Message`.
Releases ask one another by this: fields and kinds are only added, each with a default, and `PROTOCOL` is raised where
an old worker could not do what is asked.
"""

import msgspec

from paceline.moments.order import LogAddress

PROTOCOL = 1
MODULE = "paceline.history.build_worker"


class Span(msgspec.Struct, frozen=True):
    """The rounds of a machine to be compared: from `first` to `last` (None: the end), and from an offset in its topic
    on. Those before are applied only.
    """

    first: int = 1
    last: int | None = None
    offset: int = 0


class Order(msgspec.Struct, frozen=True):
    """The log, the machines with their spans, whether to go on with what comes, the URL of snapshots to begin from,
    empty: none, and by how much others go first (`nice`).
    """

    protocol: int
    log: LogAddress
    machines: dict[str, Span]
    follow: bool = False
    snapshots: str = ""
    nice: int = 0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first line: the version that decides, and the logic number of each machine."""

    protocol: int
    build: str
    logic: dict[str, int]


class Changed(msgspec.Struct, frozen=True, tag="changed"):
    """The change is made; each part of it in words."""

    lines: list[str]


class Reached(msgspec.Struct, frozen=True, tag="reached"):
    """The progress of a machine: its round, the offset where it goes on, and the end of its topic. So many rounds were
    compared, of which so many are alike, and so many were recorded by another logic number than this build's.
    """

    machine: str
    round: int
    position: int
    end: int
    at_ms: int
    compared: int
    alike: int
    other_logic: int
    events: int


class Subject(msgspec.Struct, frozen=True):
    """The pool and the job of a decision; empty: none, or none that is known."""

    pool: str
    job: str
    recorded: bool
    decided: bool


class Part(msgspec.Struct, frozen=True):
    """A decision that one side has and the other lacks or has otherwise. `index`: in the recorded round, -1: it isn't
    there. `rows`: mark, field, recorded and decided value, cut to where they part; only of the first parts.
    """

    kind: str
    index: int
    recorded: bool
    decided: bool
    subjects: list[Subject]
    rows: list[tuple[str, str, str, str]] = []


class Differs(msgspec.Struct, frozen=True, tag="differs"):
    """A round that would be decided otherwise, from its decision `index` on. `fault`: deciding failed. The counts are
    those of `Reached`, this round included.
    """

    machine: str
    round: int
    offset: int
    at_ms: int
    logic: int
    index: int
    parts: list[Part]
    compared: int
    alike: int
    other_logic: int
    fault: str = ""


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """A machine can't go on: its history isn't what it says it is, or this build can't read it."""

    machine: str
    round: int
    reason: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The worker ends: why, and the exit code for it."""

    text: str
    exit_code: int


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """All machines are at the end of their spans."""


Message = Hello | Changed | Reached | Differs | Stopped | Failed | Finished
